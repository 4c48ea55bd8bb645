"""Powers and roots, remainders, which are exact, and hypot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from anyshape.codegen.vector_math.builder import FORMATS, VectorValue
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS
from anyshape.codegen.vector_math.constants import SPLIT
from anyshape.codegen.vector_math.exponential import EXP2_RANGE, scaled
from anyshape.codegen.vector_math.logarithm import decomposed, exponent
from anyshape.codegen.vector_math.operations import (
    absolute,
    between,
    bits,
    cold_branch,
    copysign,
    estimated_inverse,
    fast_two_sum,
    fma,
    from_bits,
    is_usual,
    narrow,
    narrow_integer,
    nearest_integer,
    polynomial,
    repeated,
    select,
    sign_bit,
    sqrt,
    to_float,
    truncate,
    two_product,
    widen,
)


def rsqrt(x: VectorValue) -> VectorValue:
    """From an estimate, where the machine has one: LLVM's step of Newton's and one more."""
    if x.kind == "f64":
        return rsqrt_rare(x)
    estimate = estimated_inverse(sqrt(x))
    rest = fma(-x * estimate, estimate, 1.0)
    usual = fma(estimate * 0.5, rest, estimate)
    return cold_branch(~is_usual(x), usual, lambda: x.body.call("rsqrt_rare", x))


def rsqrt_rare(x: VectorValue) -> VectorValue:
    return 1.0 / sqrt(x)


def log2_for_power(a: VectorValue) -> VectorValue:
    """log2 of a float32 (not negative), in float64: there its denormals are normal."""
    n = exponent(a)
    f = from_bits(bits(a) - (n << FORMATS["f64"].mantissa)) - 1.0
    result = fma(f, polynomial(f, POLYNOMIALS["log2_for_power", "f64"]), to_float(n))
    # Infinity and NaN stay what they are.
    return select(a.equals(0.0), -math.inf, select(a < math.inf, result, a))


def log2_in_two(a: VectorValue) -> tuple[VectorValue, VectorValue]:
    """log2 of a float64 (not negative) as a sum of two, within 2^-64 of itself."""
    linear, linear_low, *_ = SPLIT["log2_linear", a.kind]
    cubic, cubic_low, *_ = SPLIT["log2_cubic", a.kind]
    n, f = decomposed(a)
    bottom = f + 2.0
    inverse = 1.0 / bottom
    s = f * inverse
    s_low = fma(-s, f - (bottom - 2.0), fma(-s, bottom, f)) * inverse
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    # z (cubic + z P(z))
    rest = fma(z, polynomial(z, POLYNOMIALS["log2_in_two", a.kind]), cubic_low)
    inner, inner_low = fast_two_sum(cubic, rest)
    term, term_low = two_product(z, inner)
    term_low = term_low + fma(z, inner_low, z_low * inner)
    factor, factor_low = fast_two_sum(linear, term)
    factor_low = factor_low + (term_low + linear_low)
    part, part_low = two_product(s, factor)
    part_low = part_low + fma(s, factor_low, s_low * factor)
    high, low = fast_two_sum(n, part)
    # Infinity and NaN stay what they are.
    high = select(a.equals(0.0), -math.inf, select(a < math.inf, high, a))
    return high, low + part_low


def power_of_f32(a: VectorValue, y: VectorValue) -> VectorValue:
    """The product and its whole part in float64, the rest in float32."""
    product = between(widen(y) * log2_for_power(widen(a)), *EXP2_RANGE["f32"])
    whole, n = nearest_integer(product, 1.0)
    r = narrow(product - whole)
    power = fma(r, polynomial(r, POLYNOMIALS["exp2", "f32"]), 1.0)
    return scaled(power, narrow_integer(n))


def power_of_f64(a: VectorValue, y: VectorValue) -> VectorValue:
    """The product as a sum of two float64."""
    low, high = EXP2_RANGE["f64"]
    log, log_low = log2_in_two(a)
    product = y * log
    product_low = fma(y, log_low, fma(y, log, -product))
    product_low = select(absolute(product) > 2.0 * high, 0.0, product_low)
    product = between(product, low, high)
    whole, n = nearest_integer(product, 1.0)
    r = (product - whole) + product_low
    return scaled(fma(r, polynomial(r, POLYNOMIALS["exp2", "f64"]), 1.0), n)


def pow_(x: VectorValue, y: VectorValue) -> VectorValue:
    """|x|^y = 2^(y log2 |x|); then signs and special cases, as in C99."""
    magnitude = {"f32": power_of_f32, "f64": power_of_f64}[x.kind]
    return with_special_cases(x, y, magnitude(absolute(x), y))


def with_special_cases(x: VectorValue, y: VectorValue, result: VectorValue) -> VectorValue:
    a = absolute(x)
    # One to the infinite, which is NaN above.
    result = select(a.equals(1.0) & y.equals(y), 1.0, result)
    whole = truncate(y).equals(y)
    odd = whole & (truncate(y * 0.5) * 2.0).differs(y)
    result = select(odd, from_bits(bits(result) | sign_bit(x)), result)
    result = select((x < 0.0) & (a < math.inf) & ~whole, math.nan, result)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def fmod(x: VectorValue, y: VectorValue) -> VectorValue:
    """x - n y, with n truncated: the sign is that of x.

    A quotient below 2^22 (2^51), rounded down or up to an integer, is at most one too large, and
    never too small; then x - n y is a float. Larger ones, and all special cases, take steps.
    """
    a, b = absolute(x), absolute(y)
    quotient = a / b
    rest = fma(-truncate(quotient), b, a)
    rest = select(rest < 0.0, rest + b, rest)
    usual = (quotient < 2.0 ** (FORMATS[x.kind].mantissa - 1)) & (b < math.inf)
    return cold_branch(~usual, copysign(rest, x), lambda: x.body.call("fmod_rare", x, y))


#: Powers of two that a divisor is multiplied by where the quotient overflows, once and once more.
_SCALES: Final = {"f32": (2.0**120, 2.0**100), "f64": (2.0**1000, 2.0**1000)}


def fmod_rare(x: VectorValue, y: VectorValue) -> VectorValue:
    """Of any quotient, in steps that take all bits which a float has of it.

    What is left of a number and its rounded quotient by another is a float, of either sign: below 0
    it is what is missing, and is divided in its turn. A multiple of the divisor does as well as the
    divisor, until what is left is less.
    """
    b = absolute(y)
    whole = 2.0 ** FORMATS[x.kind].mantissa

    def step(states: Sequence[VectorValue]) -> tuple[Sequence[VectorValue], VectorValue]:
        r, missing = states
        divisor = b
        for scale in _SCALES[x.kind]:
            divisor = select((r / divisor).equals(math.inf), divisor * scale, divisor)
        quotient = r / divisor
        n = select(quotient < whole, truncate(quotient), quotient)
        left = fma(-n, divisor, r)
        more = r >= b
        rest = select(more, absolute(left), r)
        return (rest, missing ^ (more & (left < 0.0))), rest >= b

    rest, missing = repeated((absolute(x), x.body.number("b1", 0)), step)
    rest = select(missing & rest.differs(0.0), b - rest, rest)
    # What is no number is neither less nor more.
    nothing = b.equals(0.0) | y.differs(y) | absolute(x).equals(math.inf)
    return copysign(select(nothing, math.nan, rest), x)


def remainder(x: VectorValue, y: VectorValue) -> VectorValue:
    """x - n y, with n rounded down: the sign is that of y, but a zero keeps that of x."""
    rest = fmod(x, y)
    wrong = rest.differs(0.0) & ((bits(rest) ^ bits(y)) < 0)
    return select(wrong, rest + y, rest)


def hypot(x: VectorValue, y: VectorValue) -> VectorValue:
    """Of float32, in float64: squares neither overflow nor vanish."""
    wide_x, wide_y = widen(x), widen(y)
    result = narrow(sqrt(fma(wide_x, wide_x, wide_y * wide_y)))
    infinite = absolute(x).equals(math.inf) | absolute(y).equals(math.inf)
    return select(infinite, math.inf, result)
