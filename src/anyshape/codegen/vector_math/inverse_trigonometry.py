"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import VectorValue
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS, SPLIT
from anyshape.codegen.vector_math.operations import (
    absolute,
    bits,
    copysign,
    either,
    fma,
    narrow,
    polynomial,
    select,
    sqrt,
    widen,
)

TAN_OF_EIGHTH = math.tan(math.pi / 8)


def odd_polynomial(x: VectorValue, name: str) -> VectorValue:
    """x^3 P(x^2): what the function adds to x."""
    z = x * x
    return x * z * polynomial(z, POLYNOMIALS[name, x.kind])


def asin_parts(a: VectorValue) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(far, s, rest): asin(a) is s + rest, or where a > 1/2, pi / 2 - 2 (s + rest)."""
    far = a > 0.5
    z = select(far, fma(a, -0.5, 0.5), a * a)
    s = select(far, sqrt(z), a)
    return far, s, s * z * polynomial(z, POLYNOMIALS["asin", a.kind])


def asin(x: VectorValue) -> VectorValue:
    high, low, *_ = SPLIT["half_pi", x.kind]
    far, s, rest = asin_parts(absolute(x))
    folded = high - (2.0 * s - fma(rest, -2.0, low))
    return copysign(select(far, folded, s + rest), x)


def acos(x: VectorValue) -> VectorValue:
    high, low, *_ = SPLIT["half_pi", x.kind]
    far, s, rest = asin_parts(absolute(x))
    signed, signed_rest = copysign(s, x), copysign(rest, x)
    near = high - (signed - (low - signed_rest))
    twice = 2.0 * (s + rest)
    beyond = 2.0 * (high - (s - (low - rest)))
    return select(far, select(x > 0.0, twice, beyond), near)


def folded_fraction(
    top: VectorValue, bottom: VectorValue
) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(small, large, q): top / bottom = tan(start + atan(q)), |q| <= tan(pi / 8).

    The angle starts from 0 where the fraction is small, from pi / 2 where it is large, otherwise
    from pi / 4.
    """
    small = top < bottom * TAN_OF_EIGHTH
    large = bottom < top * TAN_OF_EIGHTH
    numerator = select(small, top, select(large, -bottom, top - bottom))
    denominator = select(small, bottom, select(large, top, top + bottom))
    return small, large, numerator / denominator


def angle(q: VectorValue, high: VectorValue, low: VectorValue) -> VectorValue:
    """atan(q) + high + low."""
    return high + (q + (odd_polynomial(q, "atan") + low))


def atan(x: VectorValue) -> VectorValue:
    small, large, q = folded_fraction(absolute(x), x.body.number(x.kind, 1.0))
    half, quarter = SPLIT["half_pi", x.kind], SPLIT["quarter_pi", x.kind]
    high, low = (select(small, 0.0, either(large, half[i], quarter[i], x)) for i in range(2))
    return copysign(angle(q, high, low), x)


def atan2(y: VectorValue, x: VectorValue) -> VectorValue:
    """The angle of (|x|, |y|), mirrored. float32 divides in float64, free of overflow."""
    top, bottom = absolute(y), absolute(x)
    both_infinite = top.equals(math.inf) & bottom.equals(math.inf)
    top = select(both_infinite, 1.0, top)
    bottom = select(both_infinite | top.equals(0.0), 1.0, bottom)
    if x.kind == "f32":
        small, large, q = folded_fraction(widen(top), widen(bottom))
        q = narrow(q)
    else:
        # Neither the sum may overflow nor the comparisons be of denormals.
        shrink = either((top > 2.0**1000) | (bottom > 2.0**1000), 2.0**-10, 1.0, x)
        scale = select((top < 2.0**-900) & (bottom < 2.0**-900), 2.0**100, shrink)
        small, large, q = folded_fraction(top * scale, bottom * scale)
    left = bits(x) < 0
    starts = {name: SPLIT[name, x.kind] for name in ("pi", "half_pi", "quarter_pi")}
    over = SPLIT["three_quarters_pi", x.kind]
    high, low = (
        select(
            small,
            either(left, starts["pi"][i], 0.0, x),
            select(large, starts["half_pi"][i], either(left, over[i], starts["quarter_pi"][i], x)),
        )
        for i in range(2)
    )
    result = copysign(angle(select(left, -q, q), high, low), y)
    return select(x.differs(x) | y.differs(y), math.nan, result)
