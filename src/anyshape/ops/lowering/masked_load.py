"""Values at an index that may be outside of them: nothing is read there."""

from __future__ import annotations

from typing import Final

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.loops.substitute import Rewriting
from anyshape.ops.lowering.values import Index, Lowering, Value
from anyshape.symbolic.expr import symbols_of

#: What must not meet the zeros that stand for what is not read.
_DIVISIONS: Final = frozenset(["truncdiv", "truncmod", "floordiv", "floormod"])


def guardable(c: Lowering, value: Value) -> Value:
    """The value; stored if reading it outside of its bounds would do more than read memory."""
    if not is_guardable(c, value):
        c.materialize(value)
    return value


def is_guardable(c: Lowering, value: Value) -> bool:
    return value.memory is not None or _is_plain(value.at(c.probe(value)))


def _is_plain(scalar: Scalar) -> bool:
    """Whether all that it does is to read at places that the loops give, and to compute."""
    for part in expr.reached([scalar]):
        if part.op == "reduce" or part.op in _DIVISIONS:
            return False
        symbols = (symbol for size in expr.sizes_in(part) for symbol in symbols_of(size))
        if any(expr.position_scalar(symbol) is not None for symbol in symbols):
            return False
    return True


def guarded(value: Value, index: Index, inside: Scalar) -> Scalar:
    """The value at an index, of any use only where `inside` holds; elsewhere nothing is read."""

    def change(scalar: Scalar) -> Scalar | None:
        if scalar.op != "load":
            return None
        buffer, address = scalar.data
        mask, other = inside, expr.constant(0, scalar.dtype)
        if scalar.args:
            mask = expr.operation("and", inside, rewrite(scalar.args[0]), dtype="b1")
            other = rewrite(scalar.args[1])
        return expr.load(buffer, address, scalar.dtype, mask, other)

    rewrite = Rewriting(change)
    return rewrite(value.at(index))
