"""Remainders, which are exact, and hypot."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import FORMATS, VectorValue
from anyshape.codegen.vector_math.operations import (
    absolute,
    bits,
    cold_branch,
    copysign,
    fma,
    narrow,
    select,
    sqrt,
    truncate,
    widen,
)


def fmod(x: VectorValue, y: VectorValue) -> VectorValue:
    """x - n y, with n truncated: the sign is that of x.

    A quotient below 2^22 (2^51), rounded down or up to an integer, is at most one too large, and
    never too small; then x - n y is a float. Larger ones, and all special cases, are the C
    library's.
    """
    a, b = absolute(x), absolute(y)
    quotient = a / b
    rest = fma(-truncate(quotient), b, a)
    rest = select(rest < 0.0, rest + b, rest)
    usual = (quotient < 2.0 ** (FORMATS[x.kind].mantissa - 1)) & (b < math.inf)
    return cold_branch(~usual, copysign(rest, x), lambda: x.body.call("fmod_rare", x, y))


def fmod_rare(x: VectorValue, y: VectorValue) -> VectorValue:
    return x.body.line(x.kind, f"frem {x.body.typed(x)}, {y.text}")


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
