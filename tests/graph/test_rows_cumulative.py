"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.graph.comparing import check

SIZES = ((5, 7), (3, 2), (1, 1), (0, 3), (3, 0), (2, 100))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumsum(0),
        lambda x: x.cumsum(-1) * 2,
        lambda x: (x + 1).cumprod(1),
        lambda x: x.cumsum(1, dtype=torch.float64),
        lambda x: x.t().cumsum(0),
        lambda x: x.t().reshape(-1).cumsum(0),
        lambda x: x.cumsum_(1),
        lambda x: x.sum(1).cumsum(0),
        lambda x: x.diff(),
        lambda x: x.diff(dim=0),
    ],
)
def test_floats(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(a, b),) for a, b in SIZES], close=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.long().cumsum(0),
        lambda x: (x > 0).cumsum(1) - 1,
        lambda x: x.int().cumsum(1),
        lambda x: x.to(torch.int32).cumprod(1),
        lambda x: (x > 0).diff(),
    ],
)
def test_integers(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(a, b) * 3,) for a, b in SIZES])


def test_not_finite() -> None:
    check(lambda x: x.cumsum(0), [(torch.tensor([1, float("inf"), 2, float("nan"), 3]),)])


def test_differences_with_ends_and_of_differences() -> None:
    calls = [(torch.randn(n, 6), torch.randn(n, 2)) for n in (4, 1, 0, 9)]
    check(lambda x, y: torch.diff(x, prepend=y), calls)
    check(lambda x, y: torch.diff(x, n=2, append=y, prepend=y[:, :1]), calls)
    check(lambda x, y: torch.diff(x, n=2, dim=0), calls)
    check(lambda x, y: torch.diff(x > 0, prepend=y > 0), calls)
    check(lambda x, y: torch.diff(x, n=3), calls[:1], called=["diff"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("dim", [0, -1])
def test_running_extremes(dim: int, dtype: torch.dtype) -> None:
    calls: list[tuple[torch.Tensor]] = []
    for shape in ((6, 9), (40, 3), (2, 70), (1, 2), (3, 1), (0, 4)):
        x = (torch.randn(shape) * 2).round()  # the same number more than once
        if dtype.is_floating_point and shape[0] == 40:
            x.view(-1)[7::50], x.view(-1)[3::9] = float("nan"), float("inf")
        calls.append((x.to(dtype),))
    check(lambda x: (*torch.cummax(x, dim), *torch.cummin(x, dim)), calls)
