"""Kernels call every mathematical function, on vectors and on single numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.llvm.arithmetic import ROWS
from anyshape.codegen.vector_math import FUNCTIONS, NEAR, WITHIN, supports
from anyshape.loops.expr import constant, fresh_scope, load
from tests.codegen.kernel_samples import AT, op, pointwise
from tests.codegen.llvm_jit import AVX2, NUMPY, compiled
from tests.codegen.one_module import module
from tests.loops.operations import OPERATIONS
from tests.loops.oracle.arithmetic import apply

#: Python has no such function to compare with
WITHOUT_REFERENCE = {"erfinv"}
NAMES = sorted(OPERATIONS.keys() & FUNCTIONS.keys() - WITHOUT_REFERENCE)


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def test_none_is_missing() -> None:
    assert OPERATIONS.keys() - ROWS.keys() - FUNCTIONS.keys() == {"where", "cast"}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_function(name: str, dtype: Any) -> None:
    """On vectors of x and y; and on the first y, which is the same for all lanes."""
    if not supports(name, dtype):
        pytest.skip("lowering calls torch for it")
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.05, 0.95, 37).astype(NUMPY[dtype]) for _ in range(2))
    x[::5] += 1 if name == "acosh" else 0
    one = load("k2", 0, dtype)
    args = [load("k0", AT, dtype), one][: OPERATIONS[name].arity]
    single = op(name, *[one] * OPERATIONS[name].arity)
    result = np.empty_like(x)
    compiled(pointwise(op("add", op(name, *args), single)))([x, result, y], [len(x)])
    first = float(y[0])
    for got, value in zip(result.tolist(), x.tolist(), strict=True):
        arity = OPERATIONS[name].arity
        a = apply(name, (value, first)[:arity], dtype, dtype)
        b = apply(name, (first, first)[:arity], dtype, dtype)
        wanted = float(apply("add", (a, b), dtype, dtype))
        assert got == pytest.approx(wanted, rel=1e-5 if dtype == "f32" else 1e-13, nan_ok=True)


@pytest.mark.parametrize("name", WITHIN)
def test_arguments_that_are_known_to_be_small(name: str) -> None:
    small = op("tanh", load("k0", AT, "f32"))
    assert f"@as.{name}.within.f32" in module({"kernel": pointwise(op(name, small))}, AVX2)
    twice = op("mul", small, constant(2.0, "f32"))
    assert f"@as.{name}.near.f32" in module({"kernel": pointwise(op(name, twice))}, AVX2)


@pytest.mark.parametrize("name", NEAR)
def test_arguments_that_are_known_to_be_near(name: str) -> None:
    """Code without what is for huge arguments, and the same results."""
    near_one = op("mul", op("sin", load("k0", AT, "f32")), constant(1000.0, "f32"))
    text = module({"kernel": pointwise(op(name, near_one))}, AVX2)
    assert f"@as.{name}.near.f32" in text
    anything = pointwise(op(name, load("k0", AT, "f32")))
    assert f"@as.{name}.near.f32" not in module({"kernel": anything}, AVX2)
    x = np.array([0.0, -0.0, 0.5, 1e3, 2.0**17, 1e30, -np.inf, np.nan], np.float32)
    result, wanted = np.empty_like(x), np.empty_like(x)
    compiled(pointwise(op(name, near_one)))([x, result], [len(x)])
    between = np.empty_like(x)
    compiled(pointwise(near_one))([x, between], [len(x)])
    compiled(anything)([between, wanted], [len(x)])
    np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(np.signbit(result[:6]), np.signbit(wanted[:6]))
