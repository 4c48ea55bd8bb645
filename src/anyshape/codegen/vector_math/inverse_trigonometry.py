"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import (
    Value,
    absolute,
    bits,
    bits_of,
    copysign,
    fma,
    narrow,
    polynomial,
    select,
    sqrt,
    widen,
)
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS, SPLIT

TAN_OF_EIGHTH = math.tan(math.pi / 8)


def odd_polynomial(x: Value, name: str) -> Value:
    """x^3 P(x^2): what the function adds to x."""
    z = x * x
    return x * z * polynomial(z, POLYNOMIALS[name, x.kind])


def asin_parts(a: Value) -> tuple[Value, Value, Value]:
    """(far, s, rest): asin(a) is s + rest, or where a > 1/2, pi / 2 - 2 (s + rest)."""
    far = a > 0.5
    z = select(far, fma(a, -0.5, 0.5), a * a)
    s = select(far, sqrt(z), a)
    return far, s, s * z * polynomial(z, POLYNOMIALS["asin", a.kind])


def asin(x: Value) -> Value:
    high, low, *_ = SPLIT["half_pi", x.kind]
    far, s, rest = asin_parts(absolute(x))
    folded = high - (2.0 * s - fma(rest, -2.0, low))
    return copysign(select(far, folded, s + rest), x)


def acos(x: Value) -> Value:
    high, low, *_ = SPLIT["half_pi", x.kind]
    far, s, rest = asin_parts(absolute(x))
    signed, signed_rest = copysign(s, x), copysign(rest, x)
    near = high - (signed - (low - signed_rest))
    twice = 2.0 * (s + rest)
    beyond = 2.0 * (high - (s - (low - rest)))
    return select(far, select(x > 0.0, twice, beyond), near)


def atan_of_fraction(top: Value, bottom: Value) -> tuple[Value, Value, Value]:
    """(where it starts, where it is in the middle, q): the angle of top / bottom is q's beyond it."""
    small = top < bottom * TAN_OF_EIGHTH
    large = bottom < top * TAN_OF_EIGHTH
    numerator = select(small, top, select(large, -bottom, top - bottom))
    denominator = select(small, bottom, select(large, top, top + bottom))
    return small, large, numerator / denominator


def angle(small: Value, large: Value, q: Value) -> Value:
    """atan(q) plus 0, pi / 4 or pi / 2."""
    quarter, half = SPLIT["quarter_pi", q.kind], SPLIT["half_pi", q.kind]
    high = select(small, 0.0, select(large, q.body.number(q.kind, half[0]), quarter[0]))
    low = select(small, 0.0, select(large, q.body.number(q.kind, half[1]), quarter[1]))
    return high + (q + (odd_polynomial(q, "atan") + low))


def atan(x: Value) -> Value:
    a = absolute(x)
    return copysign(angle(*atan_of_fraction(a, x.body.number(x.kind, 1.0))), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle of (|x|, |y|), then mirrored. float32 divides in float64, free of overflow."""
    is_nan = x.differs(x) | y.differs(y)
    top, bottom = absolute(y), absolute(x)
    both_infinite = (top.equals(math.inf)) & (bottom.equals(math.inf))
    top = select(both_infinite, 1.0, top)
    bottom = select(both_infinite | top.equals(0.0), 1.0, bottom)
    if x.kind == "f32":
        small, large, q = atan_of_fraction(widen(top), widen(bottom))
        q = narrow(q)
    else:
        big = (top > 2.0**1000) | (bottom > 2.0**1000)
        scale = select(big, x.body.number(x.kind, 2.0**-10), 1.0)
        small, large, q = atan_of_fraction(top * scale, bottom * scale)
    left = bits(x) < 0
    q = select(left, -q, q)
    starts = {
        name: [select(left, x.body.number(x.kind, over), plain) for over, plain in zip(*pair)]
        for name, pair in {
            "small": (SPLIT["pi", x.kind], (0.0, 0.0)),
            "middle": (SPLIT["three_quarters_pi", x.kind], SPLIT["quarter_pi", x.kind]),
        }.items()
    }
    high, low = (
        select(small, start, select(large, SPLIT["half_pi", x.kind][i], middle))
        for i, (start, middle) in enumerate(zip(starts["small"][:2], starts["middle"][:2]))
    )
    result = high + (q + (odd_polynomial(q, "atan") + low))
    return select(is_nan, math.nan, copysign(result, y))


assert bits_of("f32", -0.0) < 0
