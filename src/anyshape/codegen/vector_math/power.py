"""Powers and roots."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import FORMATS, Value
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS
from anyshape.codegen.vector_math.exponential import EXP2_RANGE, scaled
from anyshape.codegen.vector_math.logarithm import exponent
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_least,
    at_most,
    bits,
    fma,
    from_bits,
    narrow,
    narrow_integer,
    nearest_integer,
    polynomial,
    select,
    sign_bit,
    sqrt,
    to_float,
    truncate,
    widen,
)


def rsqrt(x: Value) -> Value:
    return 1.0 / sqrt(x)


def log2_for_power(a: Value) -> Value:
    """log2 of a float32 (not negative), in float64: there its denormals are normal."""
    n = exponent(a)
    f = from_bits(bits(a) - (n << FORMATS["f64"].mantissa)) - 1.0
    result = fma(f, polynomial(f, POLYNOMIALS["log2_for_power", "f64"]), to_float(n))
    # Infinity and NaN stay what they are.
    return select(a.equals(0.0), -math.inf, select(a < math.inf, result, a))


def pow_(x: Value, y: Value) -> Value:
    """|x|^y = 2^(y log2 |x|), the product in float64; then signs and special cases, as in C99."""
    a = absolute(x)
    low, high = EXP2_RANGE["f32"]
    product = at_least(at_most(widen(y) * log2_for_power(widen(a)), high), low)
    whole, n = nearest_integer(product, 1.0)
    r = narrow(product - whole)
    power = fma(r, polynomial(r, POLYNOMIALS["exp2", "f32"]), 1.0)
    return with_special_cases(x, y, scaled(power, narrow_integer(n)))


def with_special_cases(x: Value, y: Value, result: Value) -> Value:
    a = absolute(x)
    # One to the infinite, which is NaN above.
    result = select(a.equals(1.0) & y.equals(y), 1.0, result)
    whole = truncate(y).equals(y)
    odd = whole & (truncate(y * 0.5) * 2.0).differs(y)
    result = select(odd, from_bits(bits(result) | sign_bit(x)), result)
    result = select((x < 0.0) & (a < math.inf) & ~whole, math.nan, result)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, result)
