"""Floats that are quotients of sizes, up to rounding, and what can be said of them exactly.

`n / 3` is no size, but what programs ask of it is: `math.ceil(n / 3)` is `-(-n // 3)`. Python
computes the float with rounding, and this module knows when that makes no difference.

A `Quotient` of a float v stands for the rational r = numerator / denominator, and promises, where
what it needs holds (all numerators `within` +-LIMIT = 2**48, all of `positive` above 0):

    near    |v - r| <= roundings / (32 * denominator), which is at most 1/4 of 1/denominator
    whole   v = r wherever r is an integer
    0       v = r everywhere, if `roundings` is 0; the denominator is a power of two then
    1       v is r rounded to the nearest double, if `roundings` is 1

A rounding is an error of at most 2**-53 of what is rounded, whose size is at most
2**48 / denominator: 1 / (32 * denominator). An r that is no integer is at least 1/denominator away
from any: so v lies between the same two integers as r does, and compares with integers alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.numbers.traced import Function, TracedFloat, TracedInt
from anyshape.errors import ExpressionTooLarge
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import (
    Expr,
    Fact,
    Size,
    absolute,
    ceildiv,
    eq,
    floordiv,
    ge,
    gt,
    le,
    modulo,
    ne,
)

#: Numerators beyond it are not followed: no tensor has as many elements.
LIMIT: Final = 2**48
#: With more roundings than these a quotient is not followed: see `near`.
_MOST_ROUNDINGS: Final = 8
#: Constants of the program are quotients of numbers up to it: 0.1 is 1/10.
_MOST_OF_CONSTANTS: Final = 10_000
_NONE: Final[frozenset[Expr]] = frozenset()


@dataclass(frozen=True, slots=True)
class Quotient:
    """What a float is up to rounding, and what has to hold for it to be so: see above."""

    numerator: Size
    denominator: Size
    roundings: int
    within: frozenset[Expr]
    positive: frozenset[Expr] = _NONE

    @property
    def is_integer(self) -> bool:
        return self.denominator == 1 and self.roundings == 0


def quotient_of(value: Any) -> Quotient | None:
    """The quotient that an operand is, if it is one."""
    kind = type(value)
    if kind is TracedFloat:
        return value.quotient
    if kind is TracedInt:
        return _of_size(value.expr)
    if kind is int:
        return _checked(value, 1, 0)
    return _of_constant(value) if kind is float and math.isfinite(value) else None


def _of_size(size: Expr) -> Quotient | None:
    # What depends on data has no guards: the graph computes floats of it.
    return _checked(size, 1, 0) if all(s.backed for s in size.symbols) else None


def _of_constant(value: float) -> Quotient | None:
    from fractions import Fraction

    exact = Fraction(value)
    if exact.denominator <= _MOST_OF_CONSTANTS:
        return _checked(exact.numerator, exact.denominator, 0)
    near = exact.limit_denominator(_MOST_OF_CONSTANTS)
    if near.numerator / near.denominator == value:
        return _checked(near.numerator, near.denominator, 1)
    return None


def _checked(
    numerator: Size, denominator: Size, roundings: int, *of: Quotient, also: tuple[Size, ...] = ()
) -> Quotient | None:
    """A quotient that is made of others, and of `also`; None if it is beyond the limits."""
    sizes = (numerator, *also)
    if any(type(size) is int and abs(size) > LIMIT for size in (*sizes, denominator)):
        return None
    if roundings > _MOST_ROUNDINGS:
        return None
    within = _NONE.union(*(each.within for each in of))
    within |= {size for size in (*sizes, denominator) if isinstance(size, Expr)}
    positive = _NONE.union(*(each.positive for each in of))
    if isinstance(denominator, Expr):
        positive |= {denominator}
    return Quotient(numerator, denominator, roundings, within, positive)


def _is_power_of_two(size: Size) -> bool:
    return type(size) is int and size > 0 and size & (size - 1) == 0


# -- arithmetic ---------------------------------------------------------------------------------


def _over_common(a: Quotient, b: Quotient) -> tuple[Size, Size, int]:
    """The numerators of two exact quotients over one denominator. Theirs are powers of two."""
    assert type(a.denominator) is int, "an exact quotient has a number as denominator"
    assert type(b.denominator) is int, "an exact quotient has a number as denominator"
    common = max(a.denominator, b.denominator)
    return (
        a.numerator * (common // a.denominator),
        b.numerator * (common // b.denominator),
        common,
    )


def _sum(a: Quotient, b: Quotient) -> Quotient | None:
    if a.roundings < b.roundings:
        a, b = b, a
    if b.roundings:
        return None  # both are near: 1/3 + 2/3 need not be whole
    if a.roundings == 0:
        left, right, common = _over_common(a, b)
        return _checked(left + right, common, 0, a, b, also=(left, right))
    assert type(b.denominator) is int, "an exact quotient has a number as denominator"
    if a.roundings > 1 and b.denominator != 1:
        return None
    # Where the sum is an integer, a is an integer less b: a is exact there, as a double that was
    # rounded once, or as an integer if b is one. So is the sum.
    left, right = a.numerator * b.denominator, b.numerator * a.denominator
    roundings = a.roundings * b.denominator + 1
    return _checked(left + right, a.denominator * b.denominator, roundings, a, b, also=(left,))


def _difference(a: Quotient, b: Quotient) -> Quotient | None:
    return _sum(a, _negated(b))


def _negated(a: Quotient) -> Quotient:
    return Quotient(-a.numerator, a.denominator, a.roundings, a.within, a.positive)


def _absolute(a: Quotient) -> Quotient:
    return Quotient(absolute(a.numerator), a.denominator, a.roundings, a.within, a.positive)


def _product(a: Quotient, b: Quotient) -> Quotient | None:
    if a.roundings < b.roundings:
        a, b = b, a
    if b.roundings:
        return None
    numerator, denominator = a.numerator * b.numerator, a.denominator * b.denominator
    if a.roundings == 0:
        return _checked(numerator, denominator, 0, a, b)
    if type(a.numerator) is int and type(a.denominator) is int and a.roundings == 1:
        return _times_decimal(b, a)
    if type(b.numerator) is not int or type(a.denominator) is not int:
        return None
    if a.roundings == 1 and _is_power_of_two(abs(b.numerator)):
        return _checked(numerator, denominator, 1, a, b)  # nothing is rounded but the exponent
    if math.gcd(b.numerator, a.denominator) != 1:
        return None
    # The product with b.numerator is an integer only where a is one; what its denominator divides
    # by is a power of two.
    return _checked(numerator, denominator, abs(b.numerator) * a.roundings + 1, a, b)


def _times_decimal(a: Quotient, constant: Quotient) -> Quotient | None:
    """`a * 0.1` for an exact a.

    The constant is c = (1 + d) * p/q. Where a * p/q is an integer m, the product is m * (1 + d)
    rounded. Doubles around m are at least m * 2**-53 apart, so it is m if |d| <= 2**-54: half of
    that, and in the case of a tie m is a power of two, which is even. Elsewhere the error is of
    half a rounding more.
    """
    from fractions import Fraction

    p, q = constant.numerator, constant.denominator
    assert type(p) is int, "a constant has numbers"
    assert type(q) is int, "a constant has numbers"
    exact = Fraction(p, q)
    if abs(Fraction(p / q) - exact) * 2**54 > abs(exact):
        return None
    return _checked(a.numerator * p, a.denominator * q, 2, a)


def _divided(a: Quotient, b: Quotient) -> Quotient | None:
    if b.roundings:
        return None
    above, below = a.numerator * b.denominator, a.denominator * b.numerator
    if type(b.numerator) is int and b.numerator < 0:
        above, below = -above, -below
    if a.roundings == 0:
        # Both are exact, so that the result is the rational itself, rounded once.
        return _checked(above, below, 0 if _is_power_of_two(below) else 1, a, b)
    if b.denominator != 1 or type(b.numerator) is not int:
        return None
    # Where the result is an integer, a is one.
    is_scaling = a.roundings == 1 and _is_power_of_two(abs(b.numerator))
    return _checked(above, below, 1 if is_scaling else a.roundings + 1, a, b)


def _floor_divided(a: Quotient, b: Quotient) -> Quotient | None:
    """Python takes the exact remainder away before it divides, so that the result is exact: what
    is left is a multiple of b."""
    if b.roundings or type(b.numerator) is not int or not b.numerator:
        return None
    above, below = a.numerator * b.denominator, a.denominator * b.numerator
    if a.roundings and (b.denominator != 1 or b.numerator < 0):
        return None  # an a that is near is only known to compare with integers
    return _checked(floordiv(above, below), 1, 0, a, b, also=(above,))


def _remainder(a: Quotient, b: Quotient) -> Quotient | None:
    if a.roundings or b.roundings or type(b.numerator) is not int or not b.numerator:
        return None
    left, right, common = _over_common(a, b)
    return _checked(modulo(left, right), common, 0, a, b, also=(left,))


#: Functions that give a float of floats, or of sizes.
_RULES: Final[dict[Function, Callable[..., Quotient | None]]] = {
    operator.add: _sum,
    operator.sub: _difference,
    operator.mul: _product,
    operator.truediv: _divided,
    operator.floordiv: _floor_divided,
    operator.mod: _remainder,
    operator.neg: _negated,
    abs: _absolute,
    float: lambda a: a,
}


def combined(function: Function, args: tuple[object, ...]) -> Quotient | None:
    """The quotient that a function gives of operands, if it is one."""
    rule = _RULES.get(function)
    if rule is None:
        return None
    operands = [quotient_of(arg) for arg in args]
    if any(operand is None for operand in operands):
        return None
    try:
        return rule(*operands)
    except ExpressionTooLarge:
        return None


# -- questions ----------------------------------------------------------------------------------


def needs(*quotients: Quotient) -> list[Fact]:
    """What has to hold for an answer to be right."""
    within = _NONE.union(*(each.within for each in quotients))
    positive = _NONE.union(*(each.positive for each in quotients))
    sizes = sorted(within, key=str)
    facts = [fact for size in sizes for fact in (le(size, LIMIT), ge(size, -LIMIT))]
    return facts + [gt(size, 0) for size in sorted(positive, key=str)]


def crossed(a: Quotient, b: Quotient) -> tuple[Size, Size, Quotient] | None:
    """Two sizes that compare as the floats do, and what has to hold for it.

    Two rationals differ by at least 1 / (the product of the denominators), or not at all. Rounded
    once each, they keep their order: the errors are 2**-5 of that. If they are equal, so are the
    doubles. With an integer all quotients compare alike.
    """
    if (a.roundings > 1 or b.roundings > 1) and not a.is_integer and not b.is_integer:
        return None
    left, right = a.numerator * b.denominator, b.numerator * a.denominator
    made = _checked(left, a.denominator * b.denominator, 0, a, b, also=(right,))
    return None if made is None else (left, right, made)


def floor(a: Quotient) -> Size:
    return floordiv(a.numerator, a.denominator)


def ceil(a: Quotient) -> Size:
    return ceildiv(a.numerator, a.denominator)


def nearest(a: Quotient) -> Size | None:
    """`round` of it: to the nearest integer, and to the even one of two that are as near.

    An r that is no half of an integer is at least 1 / (2 * denominator) away from any such, and v
    is nearer; at halves a v that was rounded once is exact.
    """
    p, q = a.numerator, a.denominator
    if a.roundings > 1 or type(q) is not int:
        return None
    if q % 2:
        return floordiv(2 * p + q, 2 * q)  # there are no halves
    # Over two integers: down up to q/2, one up from there, two from 3q/2.
    rest = modulo(p, 2 * q)
    return 2 * floordiv(p, 2 * q) + floordiv(rest + q // 2 - 1 + floordiv(2 * rest, 3 * q), q)


def is_whole(a: Quotient) -> Fact:
    return eq(modulo(a.numerator, a.denominator), 0)


def is_not_zero(a: Quotient) -> Fact:
    return ne(a.numerator, 0)
