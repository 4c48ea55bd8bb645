"""Kernels at random, with the buffers that they need at given sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anyshape.loops.expr import (
    FLOATS,
    Axis,
    Dtype,
    Scalar,
    constant,
    index,
    load,
    number,
    operation,
    position,
    row,
)
from anyshape.loops.kernels import Check, Fold, Kernel, Scan, Stage, Store
from anyshape.symbolic import Size, as_symbol, evaluate, product, symbol
from tests.codegen.llvm_jit import NUMPY
from tests.loops.operations import OPERATIONS, kind_of

DTYPES: tuple[Dtype, ...] = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "b1")
EXACT = sorted(
    OPERATIONS.keys()
    - {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos"}
    - {"atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc", "pow"}
    - {"erfinv", "rsqrt", "silu", "gelu", "gelu_tanh", "atan2", "fmod", "remainder"}
)
NUMBERS: list[Dtype] = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8"]
SUMMED: list[Dtype] = ["f32", "f64", "i32", "i64", "u8"]
STORED: tuple[Dtype, ...] = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")
NOTHING: frozenset[Any] = frozenset()


@dataclass
class Made:
    """A kernel, and how to make its buffers: (dtype, elements, fill) in the order of names."""

    kernel: Kernel
    symbols: int
    buffers: list[tuple[Dtype, Size, str]] = field(default_factory=list)

    def arrays(self, sizes: list[int], seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        values = {as_symbol(symbol(f"n{i}")): size for i, size in enumerate(sizes)}
        return [
            _fill(rng, dtype, evaluate(elements, values), fill, values)
            for dtype, elements, fill in self.buffers
        ]


def _fill(rng: Any, dtype: Dtype, count: int, fill: str, values: Any) -> np.ndarray:
    if fill.startswith("below "):
        limit = max(1, values[as_symbol(symbol(fill.split()[1]))])
        return rng.integers(0, limit, count).astype(np.int64)
    if dtype in FLOATS:
        data = rng.integers(-16, 16, count) * 0.5
        if fill == "any":
            data = np.where(rng.random(count) < 0.5, data, rng.standard_normal(count) * 100)
            odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1e30, -3e5])
            data = np.where(rng.random(count) < 0.1, rng.choice(odd, count), data)
        elif fill == "nan":
            data = np.where(rng.random(count) < 0.05, np.nan, data)
        if dtype == "bf16":
            bits = data.astype(np.float32).view(np.uint32)
            return (bits >> 16).astype(np.uint16)
        with np.errstate(over="ignore"):
            return data.astype(NUMPY[dtype])
    if dtype == "b1":
        return rng.random(count) < 0.5
    if dtype in STORED:
        return rng.integers(0, 256, count).astype(np.uint8)
    low, high = (0, 256) if dtype == "u8" else (-100, 100)
    return rng.integers(low, high, count).astype(NUMPY[dtype])


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers: list[tuple[Dtype, Size, str]] = []
        self.positions: dict[Any, Scalar] = {}
        self.symbols = 0
        self.axes: list[Axis] = []
        self.fill = "any"
        self.rows: list[Scalar] = []
        self.depth = 3
        #: that casts are from
        self.dtypes = DTYPES

    def axis(self, name: str, extent: Size | None = None) -> Axis:
        if extent is None:
            extent = symbol(f"n{self.symbols}")
            self.symbols += 1
        return Axis(as_symbol(symbol(name)), extent)

    def buffer(self, dtype: Dtype, elements: Size, fill: str | None = None) -> str:
        self.buffers.append((dtype, elements, self.fill if fill is None else fill))
        return f"k{len(self.buffers) - 1}"

    # -- addresses -----------------------------------------------------------------------------

    def dense(self, axes: list[Axis]) -> tuple[Size, Size]:
        """The address in a dense array over these axes, and how many elements it has."""
        address: Size = 0
        for axis in axes:
            address = address * axis.extent + symbol(axis.symbol.name)
        return address, product([axis.extent for axis in axes])

    def leaf(self, dtype: Dtype) -> Scalar:
        choice = self.random.random()
        if choice < 0.12:
            value = self.random.choice([0, 1, 2, 3, -1, 0.5, 7])
            if dtype not in FLOATS:
                value = int(value) if dtype != "u8" else abs(int(value))
            return constant(value, dtype)
        if choice < 0.2 and dtype != "b1":
            axis = self.random.choice(self.axes)
            return operation("cast", index(symbol(axis.symbol.name) * 3 - axis.extent), dtype=dtype)
        if choice < 0.25 and dtype in FLOATS:
            return operation("cast", number("f0"), dtype=dtype)
        rows = [r for r in self.rows if r.dtype == dtype]
        if rows and choice < 0.5:
            return self.random.choice(rows)
        return self.load(dtype)

    def load(self, dtype: Dtype) -> Scalar:
        axes = list(self.axes)
        kind = self.random.random()
        if kind < 0.5:
            address, elements = self.dense(axes)
        elif kind < 0.65:
            some = [axis for axis in axes if self.random.random() < 0.5]
            address, elements = self.dense(some)
            elements = elements if some else 1
        elif kind < 0.75:
            self.random.shuffle(axes)
            address, elements = self.dense(axes)
        elif kind < 0.82:
            address, elements = self.dense(axes)
            address, elements = address * 2 + 1, elements * 2 + 2
        elif kind < 0.88:
            address, elements = self.dense(axes)
            address = elements - 1 - address
        elif kind < 0.94:
            return self.masked(dtype)
        elif kind < 0.97:
            address, elements = self.dense(axes)
            address = address // 3 * 2 + address % 3
        else:
            return self.gathered(dtype)
        return load(self.buffer(dtype, elements), address, dtype)

    def masked(self, dtype: Dtype) -> Scalar:
        """Of the elements after the one at hand, as long as there are some."""
        address, elements = self.dense(self.axes)
        further = index(address + 1)
        mask = operation("lt", further, index(elements), dtype="b1")
        return load(self.buffer(dtype, elements), address + 1, dtype, mask, constant(0, dtype))

    def gathered(self, dtype: Dtype) -> Scalar:
        some = [axis for axis in self.axes if self.random.random() < 0.7]
        address, elements = self.dense(some)
        limit = self.random.choice(self.axes).extent
        places = self.buffer("i64", elements if some else 1, f"below {limit}")
        where = load(places, address, "i64")
        # Read where there is something only: an axis may be empty.
        found = position(where)
        self.positions[as_symbol(found)] = where
        last = self.axes[-1]
        return load(
            self.buffer(dtype, (limit + 1) * (last.extent + 1)),
            found * last.extent + symbol(last.symbol.name),
            dtype,
        )

    # -- expressions ---------------------------------------------------------------------------

    def scalar(self, dtype: Dtype, depth: int | None = None) -> Scalar:
        depth = self.depth if depth is None else depth
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(dtype)
        name = self.random.choice(EXACT)
        made = self.operate(name, dtype, depth - 1)
        return made if made is not None else self.scalar(dtype, depth)

    def operate(self, name: str, dtype: Dtype, depth: int) -> Scalar | None:
        rule = OPERATIONS[name]
        if name == "cast":
            other = self.random.choice(self.dtypes)
            return operation("cast", self.scalar(other, depth), dtype=dtype)
        if name == "where":
            return operation(
                "where",
                self.scalar("b1", depth),
                self.scalar(dtype, depth),
                self.scalar(dtype, depth),
                dtype=dtype,
            )
        if rule.gives_bool:
            if dtype != "b1":
                return None
            sources: list[Dtype] = [d for d in DTYPES if kind_of(d) in rule.takes]
            source = self.random.choice(sources)
            args = [self.scalar(source, depth) for _ in range(rule.arity)]
            if name == "signbit":
                args = [_no_nan(args[0])]
            return operation(name, *args, dtype="b1")
        if kind_of(dtype) not in rule.takes:
            return None
        args = [self.scalar(dtype, depth) for _ in range(rule.arity)]
        if name == "copysign":
            args[1] = _no_nan(args[1])
        if name in ("truncdiv", "truncmod", "floordiv", "floormod"):
            one = constant(1, dtype)
            zero = operation("eq", args[1], constant(0, dtype), dtype="b1")
            args[1] = operation("where", zero, one, args[1], dtype=dtype)
        return operation(name, *args, dtype=dtype)


def _no_nan(scalar: Scalar) -> Scalar:
    """The sign of a NaN is nobody's business."""
    is_nan = operation("isnan", scalar, dtype="b1")
    return operation("where", is_nan, constant(1, scalar.dtype), scalar, dtype=scalar.dtype)


def pointwise(seed: int, dtypes: tuple[Dtype, ...] = DTYPES) -> Made:
    maker = Maker(seed)
    maker.dtypes = dtypes
    maker.axes = [maker.axis(f"i{i}") for i in range(maker.random.randint(1, 3))]
    stores: list[Store] = []
    for _ in range(maker.random.randint(1, 2)):
        dtype = maker.random.choice(dtypes)
        value = maker.scalar(dtype)
        axes = list(maker.axes)
        if maker.random.random() < 0.2:
            maker.random.shuffle(axes)
        address, elements = maker.dense(axes)
        if maker.random.random() < 0.1:
            address, elements = address * 2, elements * 2
        mask = maker.scalar("b1", 1) if maker.random.random() < 0.2 else None
        mode = "add" if maker.random.random() < 0.2 and dtype not in STORED else "set"
        stores.append(Store(maker.buffer(dtype, elements), address, value, mode, mask))
    stage = Stage((), tuple(stores))
    return _made(maker, tuple(maker.axes), (stage,))


def stored(seed: int) -> Made:
    """With dtypes that are only stored."""
    return pointwise(seed, (*STORED, "f32", "bf16", "f64", "f16"))


def rows(seed: int) -> Made:
    """Stages of folds over inner axes, in either order of memory, then stores."""
    maker = Maker(seed)
    maker.fill, maker.depth = "nan", 2
    outer = [maker.axis(f"i{i}") for i in range(maker.random.randint(0, 2))]
    inner = [maker.axis(f"r{i}") for i in range(maker.random.randint(1, 2))]
    across = bool(outer) and maker.random.random() < 0.4
    stages: list[Stage] = []
    private: dict[str, tuple[Dtype, Size]] = {}
    for count in range(maker.random.randint(1, 3)):
        maker.axes = [*inner, *outer] if across else [*outer, *inner]
        folds = [maker_fold(maker, f"m{count}_{i}") for i in range(maker.random.randint(1, 2))]
        stores: list[Store] = []
        if maker.random.random() < 0.4:
            address, elements = maker.dense(maker.axes)
            value = maker.scalar("f32", 1)
            stores.append(Store(maker.buffer("f32", elements), address, value))
        if maker.random.random() < 0.3:
            address, elements = maker.dense(inner)
            name = f"p{count}"
            private[name] = ("f32", elements)
            stores.append(Store(name, address, maker.scalar("f32", 1)))
        stages.append(Stage(tuple(inner), tuple(stores), tuple(folds)))
        maker.rows += [row(fold.name, fold.dtype, NOTHING) for fold in folds]
    if private:
        address, elements = maker.dense(maker.axes)
        name = maker.random.choice(list(private))
        kept = load(name, maker.dense(inner)[0], "f32")
        value = operation("add", kept, maker.scalar("f32", 1), dtype="f32")
        stages.append(Stage(tuple(inner), (Store(maker.buffer("f32", elements), address, value),)))
    address, elements = maker.dense(outer)
    last = []
    for found in maker.rows:
        buffer = maker.buffer(found.dtype, elements if outer else 1)
        last.append(Store(buffer, address, found))
    stages.append(Stage((), tuple(last)))
    return _made(maker, tuple(outer), tuple(stages), private)


def maker_fold(maker: Maker, name: str) -> Fold:
    kind = maker.random.choice(["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
    if kind in ("any", "all"):
        return Fold(name, kind, maker.scalar("b1", 1), "b1")
    dtype: Dtype = maker.random.choice(NUMBERS)
    value = maker.load(dtype)
    if kind == "prod" and dtype in FLOATS:
        # Exact in any order.
        value = operation("sign", value, dtype=dtype)
    return Fold(name, kind, value, "i64" if kind.startswith("arg") else dtype)


def scans(seed: int) -> Made:
    maker = Maker(seed)
    maker.fill = "small"
    outer = [maker.axis(f"i{i}") for i in range(maker.random.randint(0, 2))]
    inner = [maker.axis(f"r{i}") for i in range(maker.random.randint(1, 2))]
    maker.axes = [*inner, *outer] if maker.random.random() < 0.4 else [*outer, *inner]
    parts = [maker_scan(maker) for _ in range(maker.random.randint(1, 2))]
    return _made(maker, tuple(outer), (Stage(tuple(inner), scans=tuple(parts)),))


def maker_scan(maker: Maker) -> Scan:
    kind = maker.random.choice(["sum", "max", "min", "prod", "any"])
    dtype: Dtype = maker.random.choice(NUMBERS)
    dtype = "b1" if kind == "any" else dtype
    value = maker.load(dtype)
    if kind == "prod" and dtype in FLOATS:
        value = operation("sign", value, dtype=dtype)
    address, elements = maker.dense(maker.axes)
    return Scan(kind, value, dtype, maker.buffer(dtype, elements), address)


def scans_and_folds(seed: int) -> Made:
    """Stages of scans and folds, of which later ones read what was scanned; some of it is private
    to a row."""
    maker = Maker(seed)
    maker.fill, maker.depth = "small", 1
    outer = [maker.axis(f"i{i}") for i in range(maker.random.randint(0, 2))]
    inner = [maker.axis(f"r{i}") for i in range(maker.random.randint(1, 2))]
    maker.axes = [*inner, *outer] if maker.random.random() < 0.3 else [*outer, *inner]
    stages: list[Stage] = []
    private: dict[str, tuple[Dtype, Size]] = {}
    kept: list[Scalar] = []
    for count in range(maker.random.randint(1, 3)):
        folds = [maker_fold(maker, f"m{count}_{i}") for i in range(maker.random.randint(0, 2))]
        parts = [maker_scan(maker) for _ in range(maker.random.randint(0, 2))]
        stores: list[Store] = []
        if kept:
            value = operation("add", maker.random.choice(kept), maker.load("f32"), dtype="f32")
            address, elements = maker.dense(maker.axes)
            stores.append(Store(maker.buffer("f32", elements), address, value))
        if maker.random.random() < 0.5:
            address, elements = maker.dense(inner)
            name = f"p{count}"
            private[name] = ("f32", elements)
            stores.append(Store(name, address, maker.load("f32")))
            kept.append(load(name, address, "f32"))
        stages.append(Stage(tuple(inner), tuple(stores), tuple(folds), tuple(parts)))
        maker.rows += [row(fold.name, fold.dtype, NOTHING) for fold in folds]
        kept += [load(p.buffer, p.address, "f32") for p in parts if p.dtype == "f32"]
    if kept:
        address, elements = maker.dense(maker.axes)
        scan = Scan("sum", kept[-1], "f32", maker.buffer("f32", elements), address)
        stages.append(Stage(tuple(inner), scans=(scan,)))
    address, elements = maker.dense(outer)
    last = [
        Store(maker.buffer(found.dtype, elements if outer else 1), address, found)
        for found in maker.rows
    ]
    if last:
        stages.append(Stage((), tuple(last)))
    return _made(maker, tuple(outer), tuple(stages), private)


def scatters(seed: int) -> Made:
    """Sums at positions that may be equal, and checks."""
    maker = Maker(seed)
    maker.fill = "small"
    outer = [maker.axis(f"i{i}") for i in range(maker.random.randint(1, 2))]
    maker.axes = outer
    dtype: Dtype = maker.random.choice(SUMMED)
    places = maker.buffer("i64", outer[0].extent, f"below {outer[-1].extent}")
    where = load(places, symbol("i0"), "i64")
    found = position(where)
    maker.positions[as_symbol(found)] = where
    address: Size = found
    if len(outer) == 2:
        address = found * outer[1].extent + symbol("i1")
        if maker.random.random() < 0.3:
            address = symbol("i1") * outer[1].extent + found
    elements = (outer[-1].extent + 1) * (outer[-1].extent + 1)
    value = maker.load(dtype)
    checks = ()
    if maker.random.random() < 0.5:
        limit = maker.random.choice([constant(3, "i64"), index(outer[-1].extent)])
        checks = (
            Check(operation("ge", where, constant(0, "i64"), dtype="b1"), "natural"),
            Check(operation("lt", where, limit, dtype="b1"), "small"),
        )
    store = Store(maker.buffer(dtype, elements, "small"), address, value, "add")
    return _made(maker, tuple(outer), (Stage((), (store,), checks=checks),), ordered=True)


def _made(
    maker: Maker,
    axes: tuple[Axis, ...],
    stages: tuple[Stage, ...],
    private: dict[str, tuple[Dtype, Size]] | None = None,
    ordered: bool = False,
) -> Made:
    kernel = Kernel(axes, stages, maker.positions, private or {}, ordered)
    return Made(kernel, maker.symbols, maker.buffers)


MAKERS: dict[str, Callable[[int], Made]] = {
    "pointwise": pointwise,
    "stored": stored,
    "rows": rows,
    "scans": scans,
    "scans and folds": scans_and_folds,
    "scatters": scatters,
}
