"""Long bodies: functions that are used again and again are called for several vectors at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from anyshape.loops.expr import Scalar, fresh_scope, load
from tests.codegen.kernel_samples import AT, op, pointwise
from tests.codegen.llvm_jit import AVX2, NEON, NUMPY, compiled
from tests.codegen.one_module import module
from tests.codegen.test_llvm_targets import AVX512


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def sines(count: int, dtype: Any = "f32") -> Scalar:
    value = load("k0", AT, dtype)
    for _ in range(count):
        value = op("sin", value)
    return value


def powers(count: int) -> Scalar:
    """Two arguments; one is needed to the end, the other is the same for all lanes."""
    first = value = load("k0", AT, "f32")
    for number in range(count):
        value = op("pow", value, first if number % 2 else load("k2", 0, "f32"))
    return op("add", value, first)


def test_there_is_one_function_for_all_vectors_of_a_round() -> None:
    text = module({"f": pointwise(sines(10)), "g": pointwise(sines(10))}, AVX512)
    for name in "fg":
        # The first one alone may have huge arguments.
        assert text.count(f"@{name}.sin.within.f32.v16x4(<16 x float> %x0") == 1
        assert text.count(f" @{name}.sin.within.f32.v16x4(") == 10


def test_short_bodies_have_their_functions_in_place() -> None:
    assert ".v16x" not in module({"f": pointwise(sines(3))}, AVX512)


def test_a_function_alone_is_computed_on_two_registers() -> None:
    assert "@as.sin.f32.v32(" in module({"f": pointwise(sines(1))}, AVX512)
    assert "@as.sin.f32.v16(" in module({"f": pointwise(sines(1))}, AVX2)
    assert "@as.sin.f32.v16(" in module({"f": pointwise(sines(10))}, AVX512)
    assert "@as.sin.f64.v8(" in module({"f": pointwise(sines(1, "f64"))}, AVX512)


@pytest.mark.parametrize("target", [AVX2, NEON], ids=["avx2", "neon"])
def test_other_machines_need_none(target: Any) -> None:
    assert ".v16x" not in module({"f": pointwise(sines(5))}, target)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 63, 64, 65, 129, 1000])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_sines(dtype: Any, count: int) -> None:
    x = np.random.default_rng(0).normal(0, 3, count).astype(NUMPY[dtype])
    result = np.full(count + 1, 7, NUMPY[dtype])
    compiled(pointwise(sines(6, dtype)))([x, result[:-1]], [count])
    wanted = x
    for _ in range(6):
        wanted = np.sin(wanted.astype(np.float64)).astype(NUMPY[dtype])
    np.testing.assert_allclose(result[:-1], wanted, rtol=2e-3 if dtype == "f16" else 1e-6)
    assert result[-1] == 7


@pytest.mark.parametrize("count", [1, 16, 67, 130])
def test_powers(count: int) -> None:
    x = np.random.default_rng(0).uniform(0.3, 1.2, count).astype(np.float32)
    y = np.array([1.25], np.float32)
    result = np.empty_like(x)
    compiled(pointwise(powers(6)))([x, result, y], [count])
    wanted = x.astype(np.float64)
    for number in range(6):
        wanted = wanted ** (x if number % 2 else 1.25)
    np.testing.assert_allclose(result, wanted + x, rtol=1e-5)
