"""Folds: how exact sums are, what nothing gives, and NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from anyshape.loops.expr import fresh_scope, load
from tests.codegen.kernel_samples import (
    ALONG,
    SAMPLES,
    folded,
    op,
    pointwise,
    running_sum,
    sum_of_all,
    sum_of_columns,
    sum_of_rows,
)
from tests.codegen.llvm_jit import NUMPY, compiled


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def error(found: Any, exact: Any, scale: Any) -> float:
    """Relative to the sum of absolute values, in units of the last place of f32."""
    return float(np.max(np.abs(found - exact) / scale) / 2**-24)


def test_long_sum_is_as_exact_as_eager() -> None:
    x = np.random.default_rng(0).random(10_000_000, np.float32)
    total = np.empty(1, np.float32)
    compiled(sum_of_all())([x, total], [0, len(x)])
    exact = x.astype(np.float64).sum()
    ours = error(total[0], exact, exact)
    assert ours <= max(2.0, error(torch.from_numpy(x).sum().item(), exact, exact))


@pytest.mark.parametrize("shape", [(100_000, 40), (7, 3), (1, 1)])
def test_sum_of_columns(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    total = np.empty(shape[1], np.float32)
    compiled(sum_of_columns())([x, total], [shape[1], shape[0]])
    exact = x.astype(np.float64).sum(0)
    assert error(total, exact, exact) <= 4


def test_running_sum_as_eager() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5000)).astype(np.float32)
    found = np.empty_like(x)
    compiled(running_sum())([x, found], x.shape)
    wanted = torch.from_numpy(x).cumsum(1).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-7, atol=1e-6)


@pytest.mark.parametrize(("fold", "value"), [("sum", 0), ("prod", 1)])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_of_nothing(fold: str, value: int, dtype: Any) -> None:
    result = np.full(1, 7, NUMPY[dtype])
    run = compiled(folded(fold, load("k0", ALONG, dtype), dtype=dtype))
    run([np.empty(0, NUMPY[dtype]), result], [0, 0])
    assert result[0] == value


@pytest.mark.parametrize("length", [1, 5, 16, 17, 64, 65, 1000])
def test_argmax(length: int) -> None:
    """The first of the largest; NaN before all numbers; -inf everywhere."""
    rng = np.random.default_rng(length)
    x = rng.integers(0, 5, (6, length)).astype(np.float32)
    x[1] = -np.inf
    x[2, length // 2 :] = np.nan
    x[3, -1] = 9
    found = np.empty(6, np.int64)
    compiled(SAMPLES["argmax"]())([x, found], x.shape)
    assert found.tolist() == torch.from_numpy(x).argmax(1).tolist()


def test_max_hands_nan_on() -> None:
    x = np.zeros((40, 100), np.float32)
    x[np.arange(40), np.arange(40) * 2] = np.nan
    result = np.empty(40, np.float32)
    place = sum_of_rows().stages[0].folds[0].value
    run = compiled(folded("max", place, sum_of_rows().axes))
    run([x, result], x.shape)
    assert np.isnan(result).all()


def test_every_bf16_is_rounded_as_torch_does() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32)
    edges = np.array([0x7F7FFFFF, 0x7F800000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF, 1, 0x8000])
    x = np.concatenate([bits, edges.astype(np.uint32)]).view(np.float32)
    for dtype, torch_dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        value = op("cast", load("k0", pointwise_at(), "f32"), dtype=dtype)  # pyright: ignore[reportArgumentType] a dtype
        result = np.empty(len(x), np.uint16)
        compiled(pointwise(value))([x, result], [len(x)])
        wanted = torch.from_numpy(x).to(torch_dtype)
        found = torch.from_numpy(result.view(np.int16)).view(torch_dtype)
        assert torch.equal(found.isnan(), wanted.isnan())
        same = found.view(torch.int16) == wanted.view(torch.int16)
        assert bool((same | wanted.isnan()).all())


def pointwise_at() -> Any:
    return SAMPLES["twice and one"]().stages[0].stores[0].address
