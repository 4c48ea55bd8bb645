"""Pooling by windows: bit by bit as in eager, for all sizes and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.graph.comparing import check

Function = Callable[[torch.Tensor], Any]

POOLS: dict[str, tuple[int, Function]] = {
    "avg 1d": (1, lambda x: F.avg_pool1d(x, 3, 2, 1)),
    "avg 1d, own stride": (1, lambda x: F.avg_pool1d(x, 2)),
    "avg 2d": (2, lambda x: F.avg_pool2d(x, 2)),
    "avg 2d, padding counts": (2, lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "avg 2d, padding does not count": (
        2,
        lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), count_include_pad=False),
    ),
    "avg 2d, over the end": (2, lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "avg 2d, over the end, no padding": (
        2,
        lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True, count_include_pad=False),
    ),
    "avg 2d, another divisor": (2, lambda x: F.avg_pool2d(x, 2, divisor_override=3)),
    "avg 3d": (3, lambda x: F.avg_pool3d(x, 2, 2, 1)),
    "max 1d": (1, lambda x: F.max_pool1d(x, 3, 2, 1)),
    "max 2d": (2, lambda x: F.max_pool2d(x, 2)),
    "max 2d, padded and spread": (2, lambda x: F.max_pool2d(x, 3, 2, 1, 2)),
    "max 2d, over the end": (2, lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    "max 3d": (3, lambda x: F.max_pool3d(x, 2)),
    "of what is computed": (2, lambda x: F.max_pool2d(x * 2 + x, 2, 1)),
    "a window of a stack": (2, lambda x: F.max_pool2d(x[0], 3, 1, 1)),
}

#: of the last dimensions; the batch may be empty
SIZES = ((2, 3, 8), (1, 1, 5), (0, 2, 6), (3, 1, 9))


def inputs(dims: int, dtype: torch.dtype) -> list[tuple[torch.Tensor]]:
    made: list[tuple[torch.Tensor]] = []
    for number, (batch, channels, size) in enumerate(SIZES):
        shape = (batch, channels, *(size + k for k in range(dims)))
        x = (torch.randn(shape, generator=torch.Generator().manual_seed(number)) * 3).to(dtype)
        if number == 3:
            flat = x.view(-1)
            flat[::7], flat[1::11], flat[2::13] = float("nan"), float("inf"), float("-inf")
            flat[3::5] = -0.0
        made.append((x,))
    return made


@pytest.mark.parametrize("name", POOLS)
def test_windows(name: str) -> None:
    dims, pool = POOLS[name]
    calls = inputs(dims, torch.float32)
    if "stack" in name:
        calls = [call for call in calls if len(call[0])]
    check(pool, calls)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    check(lambda x: F.max_pool2d(x, 3, 2, 1), inputs(2, dtype))
    called = ["avg_pool2d"] if dtype == torch.bfloat16 else []
    check(lambda x: F.avg_pool2d(x, 3, 2, 1), inputs(2, dtype), called=called)


def test_channels_last() -> None:
    x = torch.randn(2, 3, 8, 9).contiguous(memory_format=torch.channels_last)
    y = torch.randn(3, 4, 6, 7).contiguous(memory_format=torch.channels_last)
    check(lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1)), [(x,), (y,)])


def test_means_over_everything() -> None:
    check(lambda x: F.adaptive_avg_pool2d(x, 1), inputs(2, torch.float32), close=True)
    check(lambda x: F.adaptive_avg_pool1d(x, 1), inputs(1, torch.float32), close=True)


def test_equal_windows() -> None:
    calls = [(torch.randn(3, 48),), (torch.randn(1, 96),)]
    check(lambda x: F.adaptive_avg_pool2d(x.reshape(-1, 8, 6), (4, 2)), calls, close=True)


CALLED = {
    "large windows": ("avg_pool2d", lambda x: F.avg_pool2d(x, 6, 1, 3)),
    "positions": ("max_pool2d", lambda x: F.max_pool2d(x, 2, return_indices=True)),
    "unlike sizes": ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3))),
}


@pytest.mark.parametrize("name", CALLED)
def test_torch_is_called(name: str) -> None:
    operator, function = CALLED[name]
    check(function, inputs(2, torch.float32)[:2], called=[operator])
