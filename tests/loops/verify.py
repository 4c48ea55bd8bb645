"""Whether a kernel is one: what its parts say fits together.

problems(kernel)      # [] or one line for each thing that is wrong
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Check, Fold, Kernel, Scan, Stage, Store
from anyshape.loops.operations import FOLDS
from anyshape.symbolic import Size, Symbol, to_text
from anyshape.symbolic.expr import symbols_of
from tests.loops.operations import OPERATIONS, kind_of

_LEAVES: Final = {"index": "i64", "number": "f64", "constant": None, "row": None, "load": None}
_SCANS: Final = FOLDS - {"argmax", "argmin"}


def problems(kernel: Kernel) -> list[str]:
    return list(dict.fromkeys(_Verifier(kernel).run()))


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._outer = {axis.symbol for axis in kernel.axes}
        #: what has been folded so far
        self._rows: dict[str, str] = {}
        #: private buffers that an earlier stage has filled
        self._filled: set[str] = set()
        self._dtypes: dict[str, str] = {name: d for name, (d, _) in kernel.private.items()}

    def run(self) -> Iterator[str]:
        kernel = self._kernel
        yield from _repeated(kernel.axes)
        for axis in kernel.axes:
            yield from self._size(axis.extent, set(), f"the extent of {axis.symbol.name}")
        for symbol, scalar in kernel.positions.items():
            if scalar.dtype != "i64":
                yield f"position {symbol.name} is of {scalar.dtype}, not i64"
        for _, elements in kernel.private.values():
            yield from self._size(elements, set(), "the size of a private buffer")
        for stage in kernel.stages:
            yield from self._stage(stage)

    # -- stages --------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> Iterator[str]:
        axes = (*self._kernel.axes, *stage.axes)
        yield from _repeated(axes)
        bound = {axis.symbol for axis in axes}
        for axis in stage.axes:
            yield from self._size(axis.extent, self._outer, f"the extent of {axis.symbol.name}")
        for part in (*stage.checks, *stage.folds, *stage.scans, *stage.stores):
            value = part.condition if isinstance(part, Check) else part.value
            yield from self._scalar(value, bound, set())
            match part:
                case Check():
                    if value.dtype != "b1":
                        yield f"a check is of {value.dtype}"
                case Fold():
                    yield from _fold(part)
                case Scan():
                    yield from self._scan(part, stage, bound)
                case Store():
                    yield from self._store(part, axes, bound)
        self._rows |= {fold.name: fold.dtype for fold in stage.folds}
        self._filled |= {part.buffer for part in (*stage.stores, *stage.scans)}

    def _scan(self, scan: Scan, stage: Stage, bound: set[Symbol]) -> Iterator[str]:
        if not stage.axes:
            yield "a scan has no axis to run along"
        if scan.fold not in _SCANS:
            yield f"{scan.fold} cannot run along an axis"
        if scan.value.dtype != scan.dtype:
            yield f"a running {scan.fold} of {scan.value.dtype} is said to be of {scan.dtype}"
        yield from self._size(scan.address, bound, f"an address of {scan.buffer}")
        yield from self._buffer(scan.buffer, scan.dtype, scan.address)

    def _store(self, store: Store, axes: tuple[Axis, ...], bound: set[Symbol]) -> Iterator[str]:
        yield from self._size(store.address, bound, f"an address of {store.buffer}")
        yield from self._buffer(store.buffer, store.value.dtype, store.address)
        if store.mask is not None:
            yield from self._scalar(store.mask, bound, set())
            if store.mask.dtype != "b1":
                yield f"the mask of a store to {store.buffer} is of {store.mask.dtype}"
        if self._kernel.ordered:
            return
        reached = self._reached(store.address)
        for axis in axes:
            private = store.buffer in self._kernel.private and axis.symbol in self._outer
            if axis.symbol not in reached and axis.extent != 1 and not private:
                yield f"rounds of {axis.symbol.name} all store to {store.buffer}[{_text(store)}]"

    def _buffer(self, name: str, dtype: str, address: Size) -> Iterator[str]:
        """Memory has one dtype, and what is private does not depend on the point."""
        if self._dtypes.setdefault(name, dtype) != dtype:
            yield f"{name} is of {self._dtypes[name]} and of {dtype}"
        if name in self._kernel.private and self._reached(address) & self._outer:
            yield f"private {name}[{to_text(address)}] depends on the parallel axes"

    def _reached(self, size: Size) -> frozenset[Symbol]:
        """The symbols that a size depends on, also through positions."""
        found = symbols_of(size)
        for symbol in found:
            scalar = self._kernel.positions.get(symbol)
            if scalar is not None:
                found = found | scalar.free
        return found

    # -- scalars -------------------------------------------------------------------------------

    def _size(self, size: Size, bound: set[Symbol], what: str) -> Iterator[str]:
        for symbol in symbols_of(size):
            scalar = self._kernel.positions.get(symbol)
            if scalar is not None:
                yield from self._scalar(scalar, bound, set())
            elif symbol not in bound and not _is_size(symbol):
                yield f"{symbol.name} in {what} is no axis, size or position"

    def _scalar(self, scalar: Scalar, bound: set[Symbol], seen: set[Scalar]) -> Iterator[str]:
        if scalar in seen:
            return
        seen.add(scalar)
        if scalar.op in _LEAVES:
            yield from self._leaf(scalar, bound)
        elif scalar.op in OPERATIONS:
            yield from _operation(scalar)
        else:
            yield f"`{scalar.op}` is no operation"
        for arg in scalar.args:
            yield from self._scalar(arg, bound, seen)

    def _leaf(self, scalar: Scalar, bound: set[Symbol]) -> Iterator[str]:
        dtype = _LEAVES[scalar.op]
        if dtype is not None and scalar.dtype != dtype:
            yield f"{scalar.op} is of {dtype}, not {scalar.dtype}"
        match scalar.op:
            case "index":
                yield from self._size(scalar.data, bound, "an index")
            case "row":
                if self._rows.get(scalar.data) != scalar.dtype:
                    yield f"no earlier stage folds {scalar.data} of {scalar.dtype}"
            case "load":
                yield from self._load(scalar, bound)
            case _:
                pass

    def _load(self, scalar: Scalar, bound: set[Symbol]) -> Iterator[str]:
        name, address = scalar.data
        yield from self._size(address, bound, f"an address of {name}")
        yield from self._buffer(name, scalar.dtype, address)
        if name in self._kernel.private and name not in self._filled:
            yield f"private {name} is read before a stage has filled it"
        if scalar.args:
            mask, other = scalar.args
            if mask.dtype != "b1" or other.dtype != scalar.dtype:
                yield f"a load of {name} is masked by {mask.dtype}, else {other.dtype}"


def _operation(scalar: Scalar) -> Iterator[str]:
    rule = OPERATIONS[scalar.op]
    dtypes = [arg.dtype for arg in scalar.args]
    if len(dtypes) != rule.arity:
        yield f"{scalar.op} takes {rule.arity} arguments, not {len(dtypes)}"
        return
    if scalar.op == "where":
        if dtypes[0] != "b1":
            yield f"where asks {dtypes[0]}, not b1"
        dtypes = dtypes[1:]
    if len(set(dtypes)) != 1:
        yield f"{scalar.op} takes arguments of one dtype, not {', '.join(dtypes)}"
    elif kind_of(dtypes[0]) not in rule.takes:
        yield f"{scalar.op} does not take {dtypes[0]}"
    result = scalar.dtype if scalar.op == "cast" else "b1" if rule.gives_bool else dtypes[0]
    if scalar.dtype != result:
        yield f"{scalar.op} of {dtypes[0]} is of {result}, not {scalar.dtype}"


def _fold(fold: Fold) -> Iterator[str]:
    if fold.fold not in FOLDS:
        yield f"`{fold.fold}` is no fold"
    if kind_of(fold.value.dtype) == "stored":
        yield f"{fold.fold} does not take {fold.value.dtype}"
    wanted = "i64" if fold.fold.startswith("arg") else fold.value.dtype
    if fold.dtype != wanted:
        yield f"{fold.fold} of {fold.value.dtype} is of {wanted}, not {fold.dtype}"
    if fold.fold in ("any", "all") and fold.value.dtype != "b1":
        yield f"{fold.fold} takes b1, not {fold.value.dtype}"


def _repeated(axes: tuple[Axis, ...]) -> Iterator[str]:
    names = [axis.symbol for axis in axes]
    for symbol in names:
        if names.count(symbol) > 1:
            yield f"two loops run over {symbol.name}"


def _is_size(symbol: Symbol) -> bool:
    return symbol.name.startswith("n") and symbol.name[1:].isdigit()


def _text(store: Store) -> str:
    return to_text(store.address)
