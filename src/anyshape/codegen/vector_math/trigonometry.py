"""Trigonometric and hyperbolic functions, and their inverses. (tanh is beside expm1.)

sin, cos and tan: x = k pi / 2 + r, |r| <= pi / 4, and the last two bits of k say which of the four
quarters x is in.
"""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import FORMATS, VectorValue
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS
from anyshape.codegen.vector_math.constants import SPLIT, TWO_OVER_PI_BY_EXPONENT
from anyshape.codegen.vector_math.exponential import exp_parts, scaled
from anyshape.codegen.vector_math.logarithm import log, log1p
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_most,
    bits,
    cold_branch,
    copysign,
    either,
    fast_two_sum,
    flip_sign,
    floor,
    fma,
    horner,
    narrow,
    narrow_integer,
    nearest_integer,
    polynomial,
    round_even,
    select,
    sqrt,
    two_product,
    two_sum,
    widen,
)

# Up to here, subtracting k pi / 2 in three pieces leaves r within an ulp.
CODY_WAITE_LIMIT = {"f32": 2.0**17, "f64": 2.0**25}
# Less than pi / 2 by more than ranges leave out of rounding.
HALF_TURN_LIMIT = 1.5


def reduced(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """(k, r). The first of the three steps is exact."""
    multiple, k = nearest_integer(x, SPLIT["two_over_pi", x.kind][0])
    r = x
    for piece in SPLIT["half_pi", x.kind][:3]:
        r = fma(multiple, -piece, r)
    return k, r


def reduced_in_two(x: VectorValue) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(k, r, error of r)."""
    first, second, third, *_ = SPLIT["half_pi", x.kind]
    multiple, k = nearest_integer(x, SPLIT["two_over_pi", x.kind][0])
    product, product_low = two_product(multiple, -second)
    near, error = two_sum(fma(multiple, -first, x), product)
    return k, *fast_two_sum(near, fma(multiple, -third, error + product_low))


def sin_of_reduced(r: VectorValue) -> VectorValue:
    z = r * r
    return fma(r * z, polynomial(z, POLYNOMIALS["sin", r.kind]), r)


def cos_of_reduced(r: VectorValue) -> VectorValue:
    z = r * r
    return fma(z, fma(z, polynomial(z, POLYNOMIALS["cos", r.kind]), -0.5), 1.0)


def sin_in_quarter(k: VectorValue, r: VectorValue) -> VectorValue:
    """sin(k pi / 2 + r)."""
    width = 32 if k.kind == "i32" else 64
    value = select((k & 1).equals(0), sin_of_reduced(r), cos_of_reduced(r))
    return flip_sign(value, (k & 2) << (width - 2))


def sin_f32(x: VectorValue) -> VectorValue:
    """By half turns, x = k pi + r, |r| <= pi / 2: one polynomial, where quarters need two.

    Rounding must not take it beyond 1.
    """
    if x.body.is_within:
        return _sin_of_half_turn(x, x)
    first, second, third = SPLIT["pi_from_below", x.kind]
    k, integer = nearest_integer(x, SPLIT["two_over_pi", x.kind][0] / 2)
    # As with quarters, the first step is exact. Nothing positive is added to -0.
    r = fma(k, -third, fma(k, -second, fma(k, -first, x)))
    return unless_huge("sin", x, _sin_of_half_turn(r, flip_sign(r, integer << 31)))


def _sin_of_half_turn(r: VectorValue, sign: VectorValue) -> VectorValue:
    z, a = r * r, absolute(r)
    size = fma(a * z, horner(z, POLYNOMIALS["sin_of_half_turn", r.kind]), a)
    return copysign(at_most(size, 1.0), sign)


def sin_f64(x: VectorValue) -> VectorValue:
    usual = sin_in_quarter(*reduced(x))
    # Keeps the sign of zero.
    tiny = absolute(x) < 2.0 ** -(FORMATS[x.kind].mantissa // 2 + 2)
    return unless_huge("sin", x, select(tiny, x, usual))


def cos(x: VectorValue) -> VectorValue:
    k, r = reduced(x)
    return unless_huge("cos", x, sin_in_quarter(k + 1, r))


def tan(x: VectorValue) -> VectorValue:
    tiny = absolute(x) < 2.0 ** -(FORMATS[x.kind].mantissa // 2 + 2)
    return unless_huge("tan", x, select(tiny, x, tan_in_quarter(*reduced_in_two(x))))


def tan_in_quarter(k: VectorValue, r: VectorValue, low: VectorValue) -> VectorValue:
    """tan(k pi / 2 + r + low): that of r + low, or -1 over it."""
    z = r * r
    value = r + fma(r * z, polynomial(z, POLYNOMIALS["tan", r.kind]), fma(z, low, low))
    return select((k & 1).equals(0), value, -1.0 / value)


def unless_huge(name: str, x: VectorValue, usual: VectorValue) -> VectorValue:
    """NaN takes the usual way, infinity (whose result is NaN) the rare one.

    There is none where arguments are known not to be huge.

    Nobody takes the sine of a float64 beyond 2^25 in earnest: there it is the C library's.
    """
    if x.body.is_near:
        return usual
    huge = absolute(x) > CODY_WAITE_LIMIT[x.kind]
    if x.kind == "f64":
        return cold_branch(huge, usual, lambda: x.body.intrinsic(name, x))
    return cold_branch(huge, usual, lambda: x.body.call(f"{name}_huge", x))


def reduced_huge(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """(k, r) of a huge float32, r in float64.

    For a range of exponents, x = m 2^s where m fits 40 bits, and 2^s 2 / pi modulo 4 is a constant
    of two doubles. Their products with m are exact to some 2^-60, while no float32 is nearer than
    2^-30 to a multiple of pi / 2. An infinite x makes r NaN.
    """
    wide, size = widen(x), absolute(x)
    scale, high, low = (wide.body.number("f64", number) for number in TWO_OVER_PI_BY_EXPONENT[0])
    for step, row in enumerate(TWO_OVER_PI_BY_EXPONENT[1:], start=1):
        beyond = size >= 2.0 ** (16 * step + 24)
        scale, high, low = (
            select(beyond, number, old) for number, old in zip(row, (scale, high, low), strict=True)
        )
    m = wide * scale
    product = m * high
    error = fma(m, low, fma(m, high, -product))
    turns = product - floor(product * 0.25) * 4.0
    k = round_even(turns + error)
    # The integer is in the last bits of a sum with a power of two.
    integer = narrow_integer(bits(k + 1.5 * 2.0**52))
    return integer, ((turns - k) + error) * SPLIT["half_pi", "f64"][0]


def sin_huge(x: VectorValue) -> VectorValue:
    k, r = reduced_huge(x)
    return sin_in_quarter(k, narrow(r))


def cos_huge(x: VectorValue) -> VectorValue:
    k, r = reduced_huge(x)
    return sin_in_quarter(k + 1, narrow(r))


def tan_huge(x: VectorValue) -> VectorValue:
    k, r = reduced_huge(x)
    return tan_in_quarter(k, narrow(r), narrow(r - widen(narrow(r))))


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


# Beyond, cosh is infinite.
LIMIT = {"f32": 90.0, "f64": 711.0}


def half_exp(a: VectorValue) -> VectorValue:
    """exp(a) / 2, which may be finite where exp(a) is not."""
    e, n = exp_parts(at_most(a, LIMIT[a.kind]))
    return scaled(1.0 + e, n - 1)


def sinh(x: VectorValue) -> VectorValue:
    a = absolute(x)
    half = half_exp(a)
    far = half - 0.25 / half
    return copysign(select(a < 1.0, a + odd_polynomial(a, "sinh"), far), x)


def cosh(x: VectorValue) -> VectorValue:
    half = half_exp(absolute(x))
    return half + 0.25 / half


def asinh(x: VectorValue) -> VectorValue:
    """In float64, where float32 has neither overflow nor rounding to fear."""
    a = absolute(widen(x))
    square = a * a
    result = narrow(log1p(a + square / (1.0 + sqrt(square + 1.0))))
    return select(absolute(x) < math.inf, copysign(result, x), x)


def acosh(x: VectorValue) -> VectorValue:
    t = widen(x) - 1.0
    return select(x >= 1.0, narrow(log1p(t + sqrt(t * (t + 2.0)))), math.nan)


def atanh(x: VectorValue) -> VectorValue:
    a = absolute(x)
    far = log((a + 1.0) / (1.0 - a)) * 0.5
    return copysign(select(a < 0.5, a + odd_polynomial(a, "atanh"), far), x)
