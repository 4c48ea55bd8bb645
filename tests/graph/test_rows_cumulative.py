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
