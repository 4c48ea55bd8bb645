"""What each operator means for traced numbers: symbolic, recorded, decided or fixed.

A rule takes operands (see `traced.operand_of`), at least one of them traced, of an active
tracer. Wherever the guards that it makes hold, its result is Python's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.numbers.formulas import answered, formula_of
from anyshape.capture.numbers.quotients import Quotient, combined, crossed, needs, quotient_of
from anyshape.capture.numbers.traced import (
    Function,
    NumberTracer,
    TracedFloat,
    TracedInt,
    decided,
    is_of_data,
    is_traced,
    plain,
    specialized,
)
from anyshape.errors import ExpressionTooLarge
from anyshape.symbolic import Expr, Fact, Size, eq, floordiv, ge, gt, le, lt, modulo, ne, power

#: Longer shifts give integers that no size has, and symbolic ones would be refused anyway.
_MOST_SHIFT: Final = 4096

Rule = Callable[[NumberTracer, Any, Any], Any]


def _size(number: Any) -> Size:
    return number.expr if type(number) is TracedInt else number


#: All float types of operands; `isinstance` would ask the `__class__` of a traced number.
_FLOATS: Final = frozenset({float, TracedFloat})


def _has_float(a: object, b: object) -> bool:
    return type(a) in _FLOATS or type(b) in _FLOATS


def made(tracer: NumberTracer, size: Size, value: int) -> int:
    if type(size) is Expr:
        if not tracer.active:  # it may have given up when it was asked about a divisor
            return value
        return TracedInt(value, size, tracer)
    assert size == value, f"the engine says {size} where Python says {value}"
    return value


def recorded(tracer: NumberTracer, function: Function, *args: object) -> Any:
    if not tracer.active:  # see `made`
        return function(*map(plain, args))
    result = tracer.record(function, args)
    if type(result) is TracedFloat and not is_of_data(result):
        result.formula = formula_of(function, args)
        result.quotient = combined(function, args)
    return result


def _native(function: Function, a: object, b: object, reason: str) -> Any:
    """The plain result, with guards that fix the operands."""
    return function(specialized(a, reason), specialized(b, reason))


def symbolic(
    tracer: NumberTracer, function: Function, build: Function, a: object, b: object
) -> object:
    try:
        size = build(_size(a), _size(b))
    except ExpressionTooLarge:
        return _native(function, a, b, "an expression of it is too large to trace")
    return made(tracer, size, function(plain(a), plain(b)))


def _ring(function: Function) -> Rule:
    """`+ - *`: the same function adds numbers and expressions."""

    def rule(tracer: NumberTracer, a: object, b: object) -> object:
        if _has_float(a, b):
            return recorded(tracer, function, a, b)
        return symbolic(tracer, function, function, a, b)

    return rule


def _may_divide(tracer: NumberTracer, b: object) -> bool:
    """Whether the divisor is not 0. What is recorded or built on it is only defined there."""
    if type(b) is not TracedInt:
        return bool(plain(b))
    return decided(tracer, ne(b.expr, 0), "a divisor must not be 0")


def _division(function: Function, build: Function | None = None) -> Rule:
    """A division; without `build` it gives a float of sizes too."""

    def rule(tracer: NumberTracer, a: object, b: object) -> object:
        if type(b) is TracedFloat and not plain(b):
            return _native(function, a, b, "it was divided by")  # raises
        if not _may_divide(tracer, b):
            return function(plain(a), plain(b))  # raises
        if build is None or _has_float(a, b):
            return recorded(tracer, function, a, b)
        return symbolic(tracer, function, build, a, b)

    return rule


def _divmod(tracer: NumberTracer, a: object, b: object) -> object:
    quotient = RULES[operator.floordiv](tracer, a, b)
    if not tracer.active:  # see `made`
        return divmod(plain(a), plain(b))
    return quotient, RULES[operator.mod](tracer, a, b)


def _power(tracer: NumberTracer, a: object, b: object) -> object:
    if type(a) is TracedInt and type(b) is int:
        if b >= 0:
            return symbolic(tracer, operator.pow, power, a, b)
        if decided(tracer, ne(a.expr, 0), "a base with a negative exponent must not be 0"):
            return recorded(tracer, operator.pow, a, b)
        return operator.pow(plain(a), b)  # raises
    if _is_real_power(tracer, a, b):
        return recorded(tracer, operator.pow, a, b)
    return _native(operator.pow, a, b, "it was used in a power")


def _is_real_power(tracer: NumberTracer, a: object, b: Any) -> bool:
    """Whether the result is a float, here and wherever the guards made for the answer hold: a
    negative base gives complex numbers, 0 with a negative exponent raises."""
    if not _has_float(a, b):
        return False
    if type(a) is TracedInt:
        return decided(tracer, gt(a.expr, 0), "only a base above 0 has every power")
    if type(a) is float:
        return a > 0 or (type(b) is TracedInt and a < 0)
    if type(a) is int:
        return a > 0
    return type(a) is TracedFloat and not is_traced(b) and b >= 0 and float(b).is_integer()


def _shift(function: Function, build: Function) -> Rule:
    def rule(tracer: NumberTracer, a: object, b: Any) -> object:
        if _has_float(a, b):
            return function(plain(a), plain(b))  # raises
        b = specialized(b, "it says how far to shift")
        if type(a) is not TracedInt or not 0 <= b <= _MOST_SHIFT:
            return _native(function, a, b, "it was shifted")
        return symbolic(tracer, function, build, a, b)

    return rule


def _is_of_data(number: object) -> bool:
    """Whether it is an integer that the graph computes from data."""
    return type(number) is TracedInt and any(not s.backed for s in number.expr.symbols)


def _bits(function: Function) -> Rule:
    def rule(tracer: NumberTracer, a: object, b: object) -> object:
        if _has_float(a, b):
            return function(plain(a), plain(b))  # raises
        if _is_of_data(a) or _is_of_data(b):
            return recorded(tracer, function, a, b)
        return _native(function, a, b, "its bits were used")

    return rule


def _bit_and(tracer: NumberTracer, a: object, b: object) -> object:
    """`n & 7` is `n % 8` and `n & ~7` is `n - n % 8`, in Python for negative n too."""
    if type(b) is TracedInt and type(a) is int:
        a, b = b, a
    if type(a) is TracedInt and type(b) is int:
        low = b if b >= 0 else ~b
        if low & (low + 1) == 0 and low.bit_length() <= _MOST_SHIFT:

            def build(n: Size, mask: int) -> Size:
                rest = modulo(n, low + 1)
                return rest if mask >= 0 else n - rest

            return symbolic(tracer, operator.and_, build, a, b)
    return _ALL_BITS(tracer, a, b)


_ALL_BITS: Final = _bits(operator.and_)

RULES: Final[dict[Function, Rule]] = {
    **{function: _ring(function) for function in (operator.add, operator.sub, operator.mul)},
    operator.floordiv: _division(operator.floordiv, floordiv),
    operator.mod: _division(operator.mod, modulo),
    operator.truediv: _division(operator.truediv),
    divmod: _divmod,
    operator.pow: _power,
    pow: _power,
    operator.lshift: _shift(operator.lshift, lambda n, k: n * 2**k),
    operator.rshift: _shift(operator.rshift, lambda n, k: floordiv(n, 2**k)),
    operator.and_: _bit_and,
    operator.or_: _bits(operator.or_),
    operator.xor: _bits(operator.xor),
}


# -- comparisons --------------------------------------------------------------------------------

COMPARISONS: Final[dict[Function, Callable[[Size, Size], Fact]]] = {
    operator.lt: lt,
    operator.le: le,
    operator.gt: gt,
    operator.ge: ge,
    operator.eq: eq,
    operator.ne: ne,
}
SYMBOLS: Final = dict(zip(COMPARISONS, ("<", "<=", ">", ">=", "==", "!="), strict=True))


def compared(tracer: NumberTracer, function: Function, a: Any, b: object) -> bool:
    """`function(a, b)` for a traced `a` and an operand `b`."""
    reason = f"it was compared with {SYMBOLS[function]}"
    if type(a) is TracedFloat or type(b) is TracedFloat:
        if is_of_data(a) or is_of_data(b):
            return recorded(tracer, function, a, b)
        return _compared_floats(tracer, function, a, b, reason)
    if type(b) is float:
        if not math.isfinite(b):
            return function(0, b)  # all integers compare alike
        if not b.is_integer():
            return _compared_with_fraction(tracer, function, a, b, reason)
        b = int(b)
    try:
        fact = COMPARISONS[function](a.expr, _size(b))
    except ExpressionTooLarge:
        return _native(function, a, b, reason)
    return decided(tracer, fact, reason)


def _compared_floats(
    tracer: NumberTracer, function: Function, a: object, b: object, reason: str
) -> bool:
    left, right = quotient_of(a), quotient_of(b)
    try:
        sizes = None if left is None or right is None else crossed(left, right)
        fact = None if sizes is None else COMPARISONS[function](sizes[0], sizes[1])
    except ExpressionTooLarge:
        sizes = fact = None
    if sizes is not None and fact is not None and all_hold(tracer, sizes[2]):
        return decided(tracer, fact, reason) if tracer.active else function(plain(a), plain(b))
    return asked(tracer, function, (a, b), reason)


def asked(tracer: NumberTracer, function: Function, args: tuple[object, ...], reason: str) -> Any:
    """The plain result, with guards of the sizes that it is the same for."""
    if not tracer.active:  # see `made`
        return function(*map(plain, args))
    answer = answered(tracer, function, args, reason)
    if answer is NotImplemented:
        return function(*(specialized(arg, reason) for arg in args))
    return answer


def all_hold(tracer: NumberTracer, quotient: Quotient) -> bool:
    """Whether what is said of a quotient is right, here and wherever the guards made for the answer
    hold."""
    reason = "a float was made of it, which is exact enough up to there"
    return all(not tracer.active or decided(tracer, fact, reason) for fact in needs(quotient))


def _compared_with_fraction(
    tracer: NumberTracer, function: Function, a: TracedInt, b: float, reason: str
) -> bool:
    """An integer is below 2.5 exactly if it is at most 2, and never equal to it."""
    if function is operator.eq or function is operator.ne:
        return function is operator.ne
    below = function is operator.lt or function is operator.le
    fact = le(a.expr, math.floor(b)) if below else ge(a.expr, math.ceil(b))
    return decided(tracer, fact, reason)
