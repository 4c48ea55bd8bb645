"""What a kernel computes for one element: expressions over loads, constants and indices.

Scalars are interned: equal ones are the same object, so common subexpressions are shared by being
made. Addresses are sizes (`symbolic/`) over the kernel's axes, the program's symbols, and symbols
that stand for a position read from a tensor (`position`).
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Literal, get_args

from anyshape.loops.operations import FOLDS, OPERATIONS
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Expr, Size, Symbol, as_symbol, symbol
from anyshape.symbolic.expr import symbols_of

Float8 = Literal["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"]
Dtype = Literal["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "b1", Float8]

#: says the check of a position
OUT_OF_RANGE: Final = "an index is out of range"
NO_CLASS: Final = "a class is out of range"
#: why positions in tensors are none
BAD_POSITIONS: Final = frozenset({OUT_OF_RANGE, NO_CLASS})

#: what a dtype is called outside of kernels, and its bytes in memory
_DTYPES: Final[dict[Dtype, tuple[str, int]]] = {
    "f32": ("float32", 4),
    "f64": ("float64", 8),
    "f16": ("float16", 2),
    "bf16": ("bfloat16", 2),
    "i8": ("int8", 1),
    "i16": ("int16", 2),
    "i32": ("int32", 4),
    "i64": ("int64", 8),
    "u8": ("uint8", 1),
    "b1": ("bool", 1),
    "f8e4m3fn": ("float8_e4m3fn", 1),
    "f8e5m2": ("float8_e5m2", 1),
    "f8e4m3fnuz": ("float8_e4m3fnuz", 1),
    "f8e5m2fnuz": ("float8_e5m2fnuz", 1),
}
FULL_NAMES: Final[dict[Dtype, str]] = {name: full for name, (full, _) in _DTYPES.items()}
WIDTH: Final[dict[str, int]] = {name: width for name, (_, width) in _DTYPES.items()}
FLOATS: Final = frozenset({"f32", "f64", "f16", "bf16"})
#: stored in two bytes, computed in f32 and rounded after each operation, as eager does
HALVES: Final = frozenset({"f16", "bf16"})
#: only stored: their bits are moved as they are, also in registers, and nothing but `cast` knows
#: what numbers they mean. (They are none of the floats: eager computes in none of them.)
FLOAT8: Final[frozenset[str]] = frozenset(get_args(Float8))


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """One value for one element. `op` is one of

    - `constant`: `data` is the Python number (`inf`, `nan` allowed);
    - `index`: `data` is a size over axes and symbols, as an i64;
    - `number`: `data` names a float that the program computes before the kernel, an f64;
    - `load`: `data` is (buffer, address); args are () or (mask, other): nothing is read where the
      mask is false;
    - `reduce`: `data` is (fold, axes); args are (body,). Only until stages are made;
    - `row`: `data` names the result of an earlier stage;
    - the name of an operation (`operations.py`).
    """

    op: str
    args: tuple[Scalar, ...]
    dtype: Dtype
    data: Any
    #: the symbols that it depends on: axes, sizes, indices read from tensors
    free: frozenset[Symbol] = field(repr=False)
    #: a number unique in this process, in the order of making
    order: int = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A loop: its variable and how often it runs."""

    symbol: Symbol
    extent: Size


class _Scope(threading.local):
    """The scalars of the lowering at hand, in this thread."""

    def __init__(self) -> None:
        self.scalars: dict[tuple[object, ...], Scalar] = {}
        self.positions: dict[Symbol, Scalar] = {}
        self.symbols: dict[Scalar, Expr] = {}
        self.checks: dict[Symbol, tuple[Scalar, str]] = {}


_scope: Final = _Scope()
_NOTHING: Final[frozenset[Symbol]] = frozenset()


@contextmanager
def fresh_scope() -> Iterator[None]:
    """Intern scalars anew, for one lowering: the table does not outlive it."""
    kept = dict(vars(_scope))
    _scope.scalars, _scope.positions, _scope.symbols, _scope.checks = {}, {}, {}, {}
    try:
        yield
    finally:
        vars(_scope).update(kept)


def copied_scope() -> Callable[[], AbstractContextManager[None]]:
    """The scope as it is now, for whoever looks at a lowering later, or in another thread: what is
    interned there is not seen here."""
    tables = {name: dict(table) for name, table in vars(_scope).items()}

    @contextmanager
    def again() -> Iterator[None]:
        with fresh_scope():
            vars(_scope).update(tables)
            yield

    return again


def _make(
    op: str,
    args: tuple[Scalar, ...],
    dtype: Dtype,
    data: Any = None,
    key: Any = None,
    free: frozenset[Symbol] = _NOTHING,
) -> Scalar:
    full = (op, args, dtype, data if key is None else key)
    scalars = _scope.scalars
    found = scalars.get(full)
    if found is None:
        for arg in args:
            free = free | arg.free
        found = scalars[full] = Scalar(op, args, dtype, data, free, len(scalars))
    return found


def constant(value: float | int | bool, dtype: Dtype) -> Scalar:
    if dtype in FLOAT8:  # as torch makes one of a number
        return operation("cast", constant(value, "f32"), dtype=dtype)
    if dtype in FLOATS:
        value = float(value)
        # -0.0 and nan are values of their own.
        return _make("constant", (), dtype, value, struct.pack("d", value))
    if dtype == "b1":
        value = bool(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number of dtype {dtype}")
    return _make("constant", (), dtype, int(value))


def index(size: Size) -> Scalar:
    """A position or a size as a number, an i64."""
    if isinstance(size, int):
        return constant(size, "i64")
    return _make("index", (), "i64", size, free=_with_positions(size.symbols))


def number(name: str) -> Scalar:
    """A float that the program computes before the kernel runs."""
    return _make("number", (), "f64", name)


def load(
    buffer: str,
    address: Size,
    dtype: Dtype,
    mask: Scalar | None = None,
    other: Scalar | None = None,
) -> Scalar:
    """An element of a buffer, `address` elements from its start."""
    args = () if mask is None or other is None else (mask, other)
    return _make("load", args, dtype, (buffer, address), free=_with_positions(symbols_of(address)))


def operation(name: str, *args: Scalar, dtype: Dtype) -> Scalar:
    if name not in OPERATIONS:
        raise ValueError(f"there is no operation `{name}`: loops/operations.py lists them")
    return _make(name, args, dtype)


def reduce(fold: str, axes: tuple[Axis, ...], body: Scalar, dtype: Dtype) -> Scalar:
    """The fold of `body` over `axes`, which are bound by it."""
    if fold not in FOLDS:
        raise ValueError(f"there is no reduction `{fold}`: loops/operations.py lists them")
    key = (fold, tuple((axis.symbol, axis.extent) for axis in axes))
    found = _make("reduce", (body,), dtype, (fold, axes), key)
    extents = _NOTHING.union(*(symbols_of(axis.extent) for axis in axes))
    bound = frozenset(axis.symbol for axis in axes)
    object.__setattr__(found, "free", (found.free | extents) - bound)
    return found


def row(name: str, dtype: Dtype, free: frozenset[Symbol]) -> Scalar:
    """The result of an earlier stage of the kernel."""
    return _make("row", (), dtype, name, (name, free), free)


def reached(roots: Iterable[Scalar]) -> Iterator[Scalar]:
    """Every scalar that these are made of, once. Positions are not followed."""
    seen: set[Scalar] = set()
    stack = list(roots)
    while stack:
        scalar = stack.pop()
        if scalar not in seen:
            seen.add(scalar)
            stack += scalar.args
            yield scalar


def sizes_in(scalar: Scalar) -> tuple[Size, ...]:
    """The sizes that a scalar has itself: an address, or an index."""
    if scalar.op == "load":
        return (scalar.data[1],)
    return (scalar.data,) if scalar.op == "index" else ()


def position(scalar: Scalar, valid: Scalar | None = None, message: str = "") -> Expr:
    """What to write in an address for a position read from a tensor: `scalar`, an i64 that is
    neither negative nor too large. Kernels that use it check that `valid` holds."""
    found = _scope.symbols.get(scalar)
    if found is None:
        found = symbol(f"d{len(_scope.symbols)}")
        _scope.symbols[scalar] = found
        name = as_symbol(found)
        _scope.positions[name] = scalar
        if valid is not None:
            _scope.checks[name] = (valid, message)
    return found


def position_check(name: Symbol) -> tuple[Scalar, str] | None:
    """What must hold where a position is used."""
    return _scope.checks.get(name)


def name_position(name: Symbol, scalar: Scalar) -> None:
    """Another symbol for a position."""
    _scope.positions[name] = scalar


def position_scalar(name: Symbol) -> Scalar | None:
    """What a symbol of `position` stands for; None for other symbols."""
    return _scope.positions.get(name)


def _with_positions(symbols: frozenset[Symbol]) -> frozenset[Symbol]:
    """These symbols, and those that the positions among them depend on."""
    for name in symbols:
        scalar = _scope.positions.get(name)
        if scalar is not None:
            symbols = symbols | scalar.free
    return symbols
