"""Scalars with symbols replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyshape.loops import expr
from anyshape.loops.expr import Axis, Scalar
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic import substitute as substitute_size

Change = Callable[[Scalar], Scalar | None]


def rebuilt(scalar: Scalar, args: tuple[Scalar, ...]) -> Scalar:
    """The same scalar of other arguments."""
    if args == scalar.args:
        return scalar
    match scalar.op:
        case "load":
            buffer, address = scalar.data
            return expr.load(buffer, address, scalar.dtype, *args)
        case "reduce":
            fold, axes = scalar.data
            return expr.reduce(fold, axes, args[0], scalar.dtype)
        case name:
            return expr.operation(name, *args, dtype=scalar.dtype)


class Rewriting:
    """Replaces scalars from the leaves up; `change` gives what stands for one, or None. Shared
    parts are replaced once."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._done: dict[Scalar, Scalar] = {}

    def __call__(self, scalar: Scalar) -> Scalar:
        found = self._done.get(scalar)
        if found is None:
            found = self._change(scalar)
            if found is None:
                found = rebuilt(scalar, tuple(map(self, scalar.args)))
            self._done[scalar] = found
        return found


class Renaming:
    """Puts sizes for symbols, also in positions that were read from tensors."""

    def __init__(self, sizes: Mapping[Symbol, Size]) -> None:
        self._sizes = dict(sizes)
        self._touched = frozenset(sizes)
        self._rewrite = Rewriting(self._changed)

    def __call__(self, scalar: Scalar) -> Scalar:
        return self._rewrite(scalar) if scalar.free & self._touched else scalar

    def size(self, size: Size) -> Size:
        if isinstance(size, int):
            return size
        for symbol in size.symbols - self._sizes.keys():
            position = expr.position_scalar(symbol)
            if position is not None:
                valid, message = expr.position_check(symbol) or (None, "")
                valid = None if valid is None else self(valid)
                self._sizes[symbol] = expr.position(self(position), valid, message)
        known = {name: self._sizes[name] for name in size.symbols if name in self._sizes}
        return substitute_size(size, known) if known else size

    def axis(self, axis: Axis) -> Axis:
        return Axis(axis.symbol, self.size(axis.extent))

    def _changed(self, scalar: Scalar) -> Scalar | None:
        if not scalar.free & self._touched:
            return scalar
        match scalar.op:
            case "index":
                return expr.index(self.size(scalar.data))
            case "load":
                buffer, address = scalar.data
                args = tuple(map(self._rewrite, scalar.args))
                return expr.load(buffer, self.size(address), scalar.dtype, *args)
            case "reduce":
                fold, axes = scalar.data
                body = self._rewrite(scalar.args[0])
                return expr.reduce(fold, tuple(map(self.axis, axes)), body, scalar.dtype)
            case "row":
                return expr.row(scalar.data, scalar.dtype, scalar.free)
            case _:
                return None
