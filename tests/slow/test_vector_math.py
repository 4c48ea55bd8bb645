"""Unary vector math at 2^22 evenly spaced bit patterns of float32, and at all edges."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.codegen.vector_math import FUNCTIONS
from tests.codegen.accuracy import allowed_error, bit_patterns, reference, special_values, ulp_error
from tests.codegen.jit import compiled

PATTERNS = 2**22
CHUNK = 2**21


def neighbours(values: np.ndarray, reach: int = 64) -> np.ndarray:
    """The floats around each of the values: where overflow, underflow or a branch begins."""
    patterns = values.astype(np.float32).view(np.int32)[:, None] + np.arange(-reach, reach + 1)
    return patterns.astype(np.int32).ravel().view(np.float32)


# Thresholds of overflow, of denormal and of vanishing results, and of branches in our code.
THRESHOLDS = np.array(
    [
        88.72284,
        89.41599,
        -87.33655,
        -103.27893,
        -103.97208,
        128.0,
        -126.0,
        -149.0,
        -150.0,
        9.01,
        8.66,
    ]
    + [
        0.8,
        5.625,
        87.0,
        9.1,
        -125.0,
        1.0,
        0.5,
        4.0,
        3.8,
        10.05,
        9.19,
        -14.4,
        -12.9,
        0.4142,
        2.4142,
        131072.0,
        2.0**64,
        2.0**69,
    ]
    + [i * np.pi / 4 for i in range(1, 40)]
    + [i * np.log(2) / 2 for i in range(-40, 40)]
    + [2.0**e for e in range(-149, 128)]
    + [2.0**e * np.sqrt(2) for e in range(-20, 20)],
    np.float32,
)


@pytest.mark.parametrize("name", [name for name, arity in FUNCTIONS.items() if arity == 1])
def test_whole_range_of_float32(name: str):
    every = bit_patterns("f32", PATTERNS)
    edges = neighbours(np.concatenate([THRESHOLDS, -THRESHOLDS, special_values("f32")]))
    worst, where, allowed = 0.0, np.float32(0), 2.0
    for start in range(0, PATTERNS + 1, CHUNK):
        x = every[start : start + CHUNK] if start < PATTERNS else edges
        error = ulp_error(compiled(name)(x), reference(name, x))
        bound = np.broadcast_to(allowed_error(name, x), error.shape)
        i = (error / bound).argmax()
        if error[i] / bound[i] > worst / allowed:
            worst, where, allowed = error[i], x[i], bound[i]
    print(f"{name}: at most {worst:.3f} ulp of {allowed:.3f}, at {where!r}")
    assert worst <= allowed, f"{name}({where!r}) is {worst} ulp off"
