"""What programs ask of a float that was made of sizes: to be rounded, whether it is whole or 0.

The answer is a size again where the float is a quotient of sizes (`math.ceil(n / 3)`), else it is
guarded by the sizes that it is the same for (`int(math.sqrt(n))`), or by the present ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.numbers.quotients import (
    Quotient,
    ceil,
    floor,
    is_not_zero,
    is_whole,
    nearest,
)
from anyshape.capture.numbers.rules import all_hold, asked, made
from anyshape.capture.numbers.traced import Function, NumberTracer, TracedFloat, decided, plain
from anyshape.errors import ExpressionTooLarge
from anyshape.symbolic import Fact, Size, ge


def whole(number: float) -> bool:
    """A node of the graph: the method itself has no module to be named by."""
    return number.is_integer()


_SIZES: Final[dict[Function, Callable[[Quotient], Size | None]]] = {
    math.floor: floor,
    math.ceil: ceil,
    round: nearest,
}
_FACTS: Final[dict[Function, Callable[[Quotient], Fact]]] = {whole: is_whole, bool: is_not_zero}


def ask(function: Function, number: TracedFloat, args: tuple[Any, ...], reason: str) -> object:
    """`function(number, *args)` for a float that does not depend on data, of an active tracer."""
    tracer, quotient = number.tracer, number.quotient
    if quotient is not None and not any(arg is not None for arg in args):
        try:
            answer = _of_quotient(tracer, function, number, quotient, reason)
        except ExpressionTooLarge:
            answer = None
        if answer is not None:
            return answer
    return asked(tracer, function, (number, *args), reason)


def _of_quotient(
    tracer: NumberTracer, function: Function, number: TracedFloat, quotient: Quotient, reason: str
) -> object:
    if not all_hold(tracer, quotient):
        return None
    if not tracer.active:
        return function(plain(number))
    if function in _FACTS:
        return decided(tracer, _FACTS[function](quotient), reason)
    build = _SIZES.get(function)
    if function is math.trunc:
        sign = "which way it is rounded depends on its sign"
        is_natural = decided(tracer, ge(quotient.numerator, 0), sign)
        build = floor if is_natural else ceil
    size = None if build is None else build(quotient)
    return None if size is None else made(tracer, size, function(plain(number)))
