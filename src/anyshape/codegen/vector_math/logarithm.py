"""Logarithms: x = 2^n (1 + f), with 1 + f between sqrt(1/2) and sqrt(2)."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import FORMATS, VectorValue, bits_of
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS
from anyshape.codegen.vector_math.constants import SPLIT
from anyshape.codegen.vector_math.operations import (
    bits,
    cold_branch,
    even_and_odd,
    fma,
    from_bits,
    is_usual,
    polynomial,
    power_of_two,
    select,
    to_float,
)


def exponent(x: VectorValue) -> VectorValue:
    """n of a positive normal x."""
    return (bits(x) - bits_of(x.kind, math.sqrt(0.5))) >> FORMATS[x.kind].mantissa


def decomposed(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """(n, f) of a positive x; a denormal one is first made normal."""
    layout = FORMATS[x.kind]
    denormal = x < layout.smallest_normal
    shift = layout.mantissa + 1
    x = select(denormal, x * 2.0**shift, x)
    n = exponent(x)
    f = from_bits(bits(x) - (n << layout.mantissa)) - 1.0
    whole = to_float(n)
    return select(denormal, whole - float(shift), whole), f


def log1p_parts(f: VectorValue) -> VectorValue:
    """log(1 + f) - f."""
    if f.kind == "f32":
        square = f * f
        cubic = polynomial(f, POLYNOMIALS["log", f.kind])
        return fma(f * square, cubic, square * -0.5)
    s = f / (f + 2.0)
    z = s * s
    return s * fma(z, polynomial(z, POLYNOMIALS["log_by_s", f.kind]), -f)


def special_cases(x: VectorValue, result: VectorValue, pole: float = 0.0) -> VectorValue:
    """What a logarithm is at its pole, left of it, at infinity and for NaN."""
    result = select(x.equals(math.inf), math.inf, result)
    result = select(x.equals(pole), -math.inf, result)
    return select(x >= pole, result, math.nan)


def log(x: VectorValue) -> VectorValue:
    return cold_branch(~is_usual(x), log_of_normal(x), lambda: x.body.call("log_rare", x))


def log_rare(x: VectorValue) -> VectorValue:
    high, low, *_ = SPLIT["ln2_short", x.kind]
    n, f = decomposed(x)
    rest = fma(n, low, log1p_parts(f))
    return special_cases(x, fma(n, high, f + rest))


def log_of_normal(x: VectorValue) -> VectorValue:
    """Without special cases. Of ln(2), one float is enough: its error is far below half an ulp."""
    n, f = fraction(x)
    if x.kind == "f32":
        result = fma(f * f, even_and_odd(f, POLYNOMIALS["log_of_normal", x.kind]), f)
    else:
        result = f + log1p_parts(f)
    return fma(n, SPLIT["ln2", x.kind][0], result)


def scaled_log(x: VectorValue, base: str, per_octave: tuple[float, ...]) -> VectorValue:
    """log(x) times a constant; n counts `per_octave`."""
    high, low, *_ = SPLIT[base, x.kind]
    n, f = decomposed(x)
    rest = fma(log1p_parts(f), high, fma(f, low, n * per_octave[1]))
    return special_cases(x, fma(n, per_octave[0], fma(f, high, rest)))


def log2_rare(x: VectorValue) -> VectorValue:
    return scaled_log(x, "log2e", (1.0, 0.0))


def log10_rare(x: VectorValue) -> VectorValue:
    return scaled_log(x, "log10e", SPLIT["log10_2_short", x.kind])


def fraction(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """(n, f) of a positive normal x."""
    n = exponent(x)
    return to_float(n), from_bits(bits(x) - (n << FORMATS[x.kind].mantissa)) - 1.0


def log2(x: VectorValue) -> VectorValue:
    if x.kind == "f64":
        return log2_rare(x)
    n, f = fraction(x)
    linear, *higher = POLYNOMIALS["log2_of_normal", x.kind]
    usual = fma(f, linear, fma(f * f, even_and_odd(f, higher), n))
    return cold_branch(~is_usual(x), usual, lambda: x.body.call("log2_rare", x))


def log10(x: VectorValue) -> VectorValue:
    if x.kind == "f64":
        return log10_rare(x)
    n, f = fraction(x)
    linear, *higher = POLYNOMIALS["log10_of_normal", x.kind]
    rest = fma(f, linear, f * f * even_and_odd(f, higher))
    usual = fma(n, SPLIT["log10_2", x.kind][0], rest)
    return cold_branch(~is_usual(x), usual, lambda: x.body.call("log10_rare", x))


def log1p(x: VectorValue) -> VectorValue:
    """With the exponent n of 1 + x, f = (x + 1) / 2^n - 1 is found without rounding 1 + x."""
    shift = FORMATS[x.kind].mantissa
    high, low, *_ = SPLIT["ln2_short", x.kind]
    # Of the largest x, 2^-n would be denormal. Where 1 does not count, it may be scaled with x.
    big = x > 2.0 ** (3 * shift)
    part = select(big, x * 2.0**-shift, x)
    n = exponent(part + 1.0)
    inverse = power_of_two(-1 * n)
    f = fma(part, inverse, inverse - 1.0)
    n = to_float(n)
    n = select(big, n + float(shift), n)
    rest = fma(n, low, log1p_parts(f))
    result = special_cases(x, fma(n, high, f + rest), pole=-1.0)
    # Also the sign of zero.
    return select(x.equals(0.0), x, result)
