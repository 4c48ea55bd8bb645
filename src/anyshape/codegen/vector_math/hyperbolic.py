"""sinh, cosh and the inverse hyperbolic functions. (tanh is beside expm1.)"""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import VectorValue
from anyshape.codegen.vector_math.exponential import exp_parts, scaled
from anyshape.codegen.vector_math.inverse_trigonometry import odd_polynomial
from anyshape.codegen.vector_math.logarithm import log, log1p
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_most,
    copysign,
    narrow,
    select,
    sqrt,
    widen,
)

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
