"""Powers and roots."""

from __future__ import annotations

from anyshape.codegen.vector_math.builder import Value, sqrt


def rsqrt(x: Value) -> Value:
    return 1.0 / sqrt(x)


def pow_(x: Value, y: Value) -> Value:
    return x * y
