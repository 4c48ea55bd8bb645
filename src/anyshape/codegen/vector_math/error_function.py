"""erf, erfc and the normal distribution."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import VectorValue
from anyshape.codegen.vector_math.coefficients import (
    ERFCX_POLE,
    GELU_POLE,
    NORMAL_TAIL_END,
    POLYNOMIALS,
)
from anyshape.codegen.vector_math.exponential import exp_of_sum, negative_power
from anyshape.codegen.vector_math.logarithm import log_of_normal
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_least,
    at_most,
    bits,
    copysign,
    either,
    even_and_odd,
    fast_two_sum,
    fma,
    horner,
    polynomial,
    power_of_product,
    select,
    sqrt,
    two_product,
)


def erf(x: VectorValue) -> VectorValue:
    """Near zero a polynomial in x^2; beyond 1 one minus a power of two; then 1."""
    a = absolute(x)
    near = fma(a, even_and_odd(a * a, POLYNOMIALS["erf", x.kind]), a)
    b = at_most(a, {"f32": 4.0, "f64": 6.0}[x.kind])
    _, r, power = power_of_product(b, even_and_odd(b, POLYNOMIALS["erf_tail", x.kind]))
    rest = fma(r, even_and_odd(r, POLYNOMIALS["exp2", x.kind]), 1.0)
    return copysign(select(a < 1.0, near, fma(-power, rest, 1.0)), x)


def by_t(t: VectorValue, name: str) -> tuple[VectorValue, VectorValue]:
    """(high, low) of the polynomial in t = (a - pole) / (a + pole)."""
    high, low, *rest = POLYNOMIALS[name, t.kind]
    small = fma(t, polynomial(t, rest), low)
    return fast_two_sum(high, small)


def times_gaussian(
    high: VectorValue, low: VectorValue, square: VectorValue, square_low: VectorValue
) -> tuple[VectorValue, float]:
    """(partial, second): (high + low) exp(-square - square_low) = partial * second.

    The second factor is a power of two that is left to the caller, because the product may be
    denormal.
    """
    r, q, n = exp_of_sum(-square, -square_low)
    first, second = negative_power(n)
    return (high + fma(high, r, fma(high, q, low))) * first, second


ERFC_LIMIT = {"f32": 10.5, "f64": 27.3}


def erfc(x: VectorValue) -> VectorValue:
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


def gelu_f32(x: VectorValue) -> VectorValue:
    """max(x, 0) - |x| normal(-|x|);  normal(-a) = 2^(a P(a) - 1).

    As good as eager where x is negative: the digits of the tail are lost gradually. What comes of
    an `a` beyond the end of the tail is not used, nor what comes of NaN.
    """
    a = absolute(x)
    _, r, half_power = power_of_product(a, even_and_odd(a, POLYNOMIALS["normal_tail", x.kind]), -1)
    tail = fma(r, even_and_odd(r, POLYNOMIALS["exp2", x.kind]), 1.0)
    # Minus infinity gives NaN, as in eager.
    limit = a * either(bits(x) < 0, -0.0, 1.0, x)
    return select(a < NORMAL_TAIL_END, fma(-a * half_power, tail, limit), limit)


# Beyond, gelu of float64 rounds to -0 or to x.
GELU_LIMIT = 38.9


def gelu_f64(x: VectorValue) -> VectorValue:
    """x times the normal distribution. The tail is that of -|x|; gelu(x) = x + gelu(-x)."""
    a = at_most(absolute(x), GELU_LIMIT)
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


def erfinv(x: VectorValue) -> VectorValue:
    """x times a function of w = -log(1 - x^2), which is tame near zero as well as near one."""
    rest = fma(-x, x, 1.0)
    w = -log_of_normal(at_least(rest, 2.0**-24))
    center = horner(w - 2.5, POLYNOMIALS["erfinv", x.kind])
    tail = horner(sqrt(w) - 3.0, POLYNOMIALS["erfinv_tail", x.kind])
    result = x * select(w < 5.0, center, tail)
    a = absolute(x)
    return select(a < 1.0, result, select(a.equals(1.0), copysign(math.inf, x), math.nan))
