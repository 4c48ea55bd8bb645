"""Functions of float32 by the instructions that GPUs have for parts of them.

A power of two, a reciprocal and the reciprocal of a root take one instruction each, within one or
two units in the last place. Ranges are kept by arithmetic rather than by branches: the threads of a
warp share them.
"""

from __future__ import annotations

from anyshape.codegen.vector_math.builder import FORMATS, VectorValue
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS, SIN_ON_GPU
from anyshape.codegen.vector_math.constants import SPLIT
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_most,
    bits,
    copysign,
    either,
    even_and_odd,
    fma,
    from_bits,
    horner,
    lesser,
    nearest_integer,
    quotient,
    select,
)
from anyshape.codegen.vector_math.trigonometry import unless_huge


def power(x: VectorValue) -> VectorValue:
    """2^x, for results that are 0 or normal."""
    return x.body.by_lanes("ex2.approx.ftz.f32", x)


def exp2(x: VectorValue) -> VectorValue:
    return x.body.by_lanes("ex2.approx.f32", x)


def rsqrt(x: VectorValue) -> VectorValue:
    return x.body.by_lanes("rsqrt.approx.f32", x)


#: Exponents of the factor that `exp` takes apart.
_LEAST, _MOST = -126, 127


def exp(x: VectorValue) -> VectorValue:
    """2^n 2^r with x log2(e) = n + r. Where that is far from 0, n stops and r goes on: what is
    denormal is rounded by the last product, what is too large or too small becomes infinity or 0.
    """
    high, low, *_ = SPLIT["log2e", x.kind]
    range_ = float(_MOST - _LEAST)
    # From 0 to 1, and 0 for NaN, which r has as well.
    place = x.body.by_lanes("cvt.sat.f32.f32", fma(x, high / range_, -_LEAST / range_))
    layout = FORMATS[x.kind]
    magic = 1.5 * 2.0**layout.mantissa + layout.bias
    sum_ = fma(place, range_, magic + _LEAST)
    n = sum_ - magic
    r = fma(x, low, fma(x, high, -n))
    return power(r) * from_bits(bits(sum_) << layout.mantissa)


def sigmoid(x: VectorValue) -> VectorValue:
    """1 / (1 + e) or e / (1 + e), e = exp(-|x|): neither overflows."""
    e = exp(-absolute(x))
    return quotient(select(x < 0.0, e, 1.0), e + 1.0)


def times_sigmoid(x: VectorValue, u: VectorValue) -> VectorValue:
    """x sigmoid(u)."""
    e = exp(-absolute(u))
    top = select(u < 0.0, x * e, x)
    # Infinity stays what it is; the zeros, too.
    return select(absolute(top) < 2.0**126, copysign(quotient(top, e + 1.0), x), top)


def silu(x: VectorValue) -> VectorValue:
    return times_sigmoid(x, x)


def gelu_tanh(x: VectorValue) -> VectorValue:
    """As the function of all machines has it; minus infinity gives NaN."""
    linear, cubic = SPLIT["gelu_linear", x.kind][0], SPLIT["gelu_cubic", x.kind][0]
    return times_sigmoid(x, x * fma(x * x, cubic, linear))


def gelu(x: VectorValue) -> VectorValue:
    """max(x, 0) - |x| 2^(|x| P(|x|) - 1), as the function of all machines has it. Behind the end of
    the tail P goes on to fall, until the power is 0."""
    a = absolute(x)
    b = lesser(a, 10.0)
    tail = power(fma(b, horner(b, POLYNOMIALS["normal_tail", x.kind]), -1.0))
    # Minus infinity gives NaN, as in eager. To compare for a number is one instruction.
    return fma(-b, tail, x * either(x >= 0.0, 1.0, 0.0, x))


def erf(x: VectorValue) -> VectorValue:
    """Near zero a polynomial in x^2; beyond 1 one minus a power of two; then 1."""
    a = absolute(x)
    near = fma(a, even_and_odd(a * a, POLYNOMIALS["erf", x.kind]), a)
    b = at_most(a, 4.0)
    far = 1.0 - power(b * even_and_odd(b, POLYNOMIALS["erf_tail", x.kind]))
    return copysign(select(a < 1.0, near, far), x)


def sin(x: VectorValue) -> VectorValue:
    """By half turns. The polynomial is so little less than the best one that nothing is beyond 1,
    and nothing has to be done about it."""
    if x.body.is_within:
        return copysign(_size_of_sin(x), x)
    first, second, third = SPLIT["pi_from_below", x.kind]
    k, integer = nearest_integer(x, SPLIT["two_over_pi", x.kind][0] / 2)
    r = fma(k, -third, fma(k, -second, fma(k, -first, x)))
    # To add to the sign is to flip it, and shifts and adds at once.
    sign = from_bits(bits(r) + (integer << 31))
    return unless_huge("sin", x, copysign(_size_of_sin(r), sign))


def _size_of_sin(r: VectorValue) -> VectorValue:
    z, a = r * r, absolute(r)
    return fma(a * z, horner(z, SIN_ON_GPU), a)
