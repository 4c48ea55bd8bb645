"""erf, erfc and the normal distribution."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import Value
from anyshape.codegen.vector_math.coefficients import ERFCX_POLE, GELU_POLE, POLYNOMIALS
from anyshape.codegen.vector_math.exponential import exp_of_sum, negative_power
from anyshape.codegen.vector_math.logarithm import log_of_normal
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_least,
    at_most,
    copysign,
    fast_two_sum,
    fma,
    horner,
    nearest_integer,
    polynomial,
    power_of_two,
    select,
    sqrt,
    two_product,
)


def erf(x: Value) -> Value:
    """Near zero a polynomial in x^2; beyond 1 one minus a power of two; then 1."""
    a = absolute(x)
    z = a * a
    near = fma(a, polynomial(z, POLYNOMIALS["erf", x.kind]), a)
    exponent = polynomial(
        at_most(a, {"f32": 4.0, "f64": 6.0}[x.kind]), POLYNOMIALS["erf_tail", x.kind]
    )
    n, integer = nearest_integer(exponent, 1.0)
    r = exponent - n
    power = power_of_two(integer)
    far = 1.0 - fma(power * r, polynomial(r, POLYNOMIALS["exp2", x.kind]), power)
    return copysign(select(a < 1.0, near, far), x)


def by_t(t: Value, name: str) -> tuple[Value, Value]:
    """(high, low) of the polynomial in t = (a - pole) / (a + pole)."""
    high, low, *rest = POLYNOMIALS[name, t.kind]
    small = fma(t, polynomial(t, rest), low)
    return fast_two_sum(high, small)


def times_gaussian(
    high: Value, low: Value, square: Value, square_low: Value
) -> tuple[Value, float]:
    """(partial, second): (high + low) exp(-square - square_low) = partial * second.

    The second factor is a power of two that is left to the caller, because the product may be
    denormal.
    """
    r, q, n = exp_of_sum(-square, -square_low)
    first, second = negative_power(n)
    return (high + fma(high, r, fma(high, q, low))) * first, second


ERFC_LIMIT = {"f32": 10.5, "f64": 27.3}


def erfc(x: Value) -> Value:
    """Near zero 1 - erf(x), where 1 - |x| is exact when it matters."""
    a = at_most(absolute(x), ERFC_LIMIT[x.kind])
    square = a * a
    near = fma(-x, polynomial(square, POLYNOMIALS["erf", x.kind]), 1.0 - x)
    bottom = a + ERFCX_POLE
    inverse = 1.0 / bottom
    # 1 / (a + pole) = inverse (1 + deficit)
    deficit = fma(-inverse, a - (bottom - ERFCX_POLE), fma(-inverse, bottom, 1.0))
    t = (a - ERFCX_POLE) * inverse
    top, top_low = by_t(fma(t, deficit, t), "erfcx")
    high, high_low = two_product(top, inverse)
    low = fma(high, deficit, fma(top_low, inverse, high_low))
    partial, second = times_gaussian(high, low, square, fma(a, a, -square))
    tail = partial * second
    return select(a < 0.8, near, select(x < 0.0, 2.0 - tail, tail))


# Beyond, gelu rounds to -0 or to x.
GELU_LIMIT = {"f32": 14.9, "f64": 38.9}


def gelu(x: Value) -> Value:
    """x times the normal distribution. The tail is that of -|x|; gelu(x) = x + gelu(-x)."""
    a = at_most(absolute(x), GELU_LIMIT[x.kind])
    near = x * fma(x, polynomial(a * a, POLYNOMIALS["normal", x.kind]), 0.5)
    half = a * 0.5
    square = half * a
    partial, second = times_gaussian(
        *by_t((a - GELU_POLE) / (a + GELU_POLE), "gelu"), square, fma(half, a, -square)
    )
    far = select(x > 0.0, x, 0.0) - partial * second
    result = copysign(select(a < 0.8, near, far), x)
    # As in eager: infinity times zero.
    return select(x.equals(-math.inf), math.nan, result)


def erfinv(x: Value) -> Value:
    """x times a function of w = -log(1 - x^2), which is tame near zero as well as near one."""
    rest = fma(-x, x, 1.0)
    w = -log_of_normal(at_least(rest, 2.0**-24))
    center = horner(w - 2.5, POLYNOMIALS["erfinv", x.kind])
    tail = horner(sqrt(w) - 3.0, POLYNOMIALS["erfinv_tail", x.kind])
    result = x * select(w < 5.0, center, tail)
    a = absolute(x)
    return select(a < 1.0, result, select(a.equals(1.0), copysign(math.inf, x), math.nan))
