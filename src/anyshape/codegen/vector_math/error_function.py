"""erf, erfc and the normal distribution."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import (
    Value,
    absolute,
    at_most,
    copysign,
    fma,
    nearest_integer,
    polynomial,
    power_of_two,
    select,
)
from anyshape.codegen.vector_math.coefficients import ERFCX_POLE, NORMAL_POLE, POLYNOMIALS
from anyshape.codegen.vector_math.exponential import exp_parts


def erf(x: Value) -> Value:
    """Near zero a polynomial in x^2; beyond 1 one minus a power of two; then 1."""
    a = absolute(x)
    z = a * a
    near = fma(a, polynomial(z, POLYNOMIALS["erf", x.kind]), a)
    exponent = polynomial(at_most(a, 4.0), POLYNOMIALS["erf_tail", x.kind])
    n, integer = nearest_integer(exponent, 1.0)
    r = exponent - n
    power = power_of_two(integer)
    far = 1.0 - fma(power * r, polynomial(r, POLYNOMIALS["exp2", x.kind]), power)
    return copysign(select(a < 1.0, near, far), x)


def tail_parts(a: Value, name: str, pole: float) -> tuple[Value, Value]:
    """(high, low) of the smooth factor of a tail, for a >= 1."""
    bottom = a + pole
    bottom_low = a - (bottom - pole)
    inverse = 1.0 / bottom
    top = polynomial((a - pole) * inverse, POLYNOMIALS[name, a.kind])
    high = top * inverse
    rest = fma(-high, bottom_low, fma(-high, bottom, top))
    return high, rest * inverse


def times_gaussian(high: Value, low: Value, square: Value, square_low: Value) -> tuple[Value, Value]:
    """(partial, second): (high + low) exp(-square - square_low) = partial * second.

    The second factor is a power of two that is left to the caller, because the product may be
    denormal.
    """
    e, n = exp_parts(-square, -square_low)
    half = n >> 1
    first, second = power_of_two(half), power_of_two(n - half)
    return fma(high, e, low) * first + high * first, second


ERFC_LIMIT = {"f32": 10.5}


def erfc(x: Value) -> Value:
    """Near zero 1 - erf(x), where 1 - |x| is exact when it matters."""
    a = at_most(absolute(x), ERFC_LIMIT[x.kind])
    square = a * a
    near = fma(-x, polynomial(square, POLYNOMIALS["erf", x.kind]), 1.0 - x)
    high, low = tail_parts(a, "erfcx", ERFCX_POLE)
    partial, second = times_gaussian(high, low, square, fma(a, a, -square))
    tail = partial * second
    return select(a < 1.0, near, select(x < 0.0, 2.0 - tail, tail))


# Beyond, gelu rounds to -0 or to x.
GELU_LIMIT = {"f32": 14.9}


def gelu(x: Value) -> Value:
    """x times the normal distribution."""
    a = at_most(absolute(x), GELU_LIMIT[x.kind])
    near = fma(x, polynomial(a * a, POLYNOMIALS["normal", x.kind]), 0.5)
    high, low = tail_parts(a, "normal_tail", NORMAL_POLE)
    half = a * 0.5
    square = half * a
    partial, second = times_gaussian(high, low, square, fma(half, a, -square))
    negative = x < 0.0
    small = a < 1.0
    far = select(negative, partial, 1.0 - partial * second)
    # The tail may be denormal while x times it is not: scale last.
    last = select(negative & ~small, second, 1.0)
    result = copysign(select(x > 0.0, x, a) * select(small, near, far) * last, x)
    # As in eager: infinity times zero.
    return select(x.equals(-math.inf), math.nan, result)
