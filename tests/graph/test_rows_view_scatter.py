"""Copies of a tensor in which a view has been written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.graph.comparing import check

SIZES = ((5, 7), (3, 2), (1, 1), (2, 33), (9, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.select_scatter(x, x[0] * 2, 0, x.shape[0] - 1),
        lambda x: torch.select_scatter(x, x.sum(1), 1, -1) + 1,
        lambda x: x.sin().select_scatter(torch.softmax(x, 0)[:, 0], dim=-1, index=0).cos(),
        lambda x: torch.select_scatter(x, x[0].double(), 0, 0),
        lambda x: torch.select_scatter(x.t(), x[:, 0] + 1, 0, 0),
        lambda x: torch.select_scatter(x.long(), x[0] * 3, 0, -1),
        lambda x: torch.slice_scatter(x, x * 2),
        lambda x: torch.slice_scatter(x, x[:-1].cos(), 0, 1),
        lambda x: torch.slice_scatter(x, x[1:] + 1, 0, end=-1),
        lambda x: torch.slice_scatter(x, x[-1:].exp(), 0, -1),
        lambda x: torch.slice_scatter(x, x[-2:] + 1, 0, -2),
        lambda x: torch.slice_scatter(x, x[:, ::2].sin(), 1, step=2) * 2,
        lambda x: torch.slice_scatter(x, x[:, 1::3].sin(), 1, 1, x.shape[1], 3),
        lambda x: torch.slice_scatter(x, x[x.shape[0] :], 0, x.shape[0] + 3),
        lambda x: torch.slice_scatter(x, x.cumsum(1)[:, : x.shape[1] // 2], 1, 0, x.shape[1] // 2),
        lambda x: torch.slice_scatter(x.relu(), torch.exp(x * x + x.sin())[1:], 0, 1) * x,
        lambda x: torch.diagonal_scatter(x, x.diagonal() * 2),
        lambda x: torch.diagonal_scatter(x, x.diagonal(1).exp(), 1) + x,
        lambda x: torch.diagonal_scatter(x, x.diagonal(-1) + 1, -1, 0, 1),
        lambda x: torch.diagonal_scatter(x, x.diagonal(1, 1, 0) + 1, 1, 1, 0),
        lambda x: torch.stack([x, x]).diagonal_scatter(
            torch.stack([x, x]).diagonal(0, 1, 2) * 2, 0, 1, -1
        ),
        lambda x: torch.diagonal_scatter(x, x.diagonal(40), 40),
    ],
)
def test_it_is_native(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(a, b),) for a, b in SIZES], close=True)


def test_empty() -> None:
    calls = [(torch.randn(a, b),) for a, b in ((3, 2), (0, 3), (3, 0), (0, 0))]
    check(lambda x: torch.slice_scatter(x, x[:2] + 1, 0, 0, 2), calls)
    check(lambda x: torch.diagonal_scatter(x, x.diagonal() + 1), calls)


def test_a_position_that_is_given() -> None:
    calls = [(torch.randn(6, 4), n) for n in (0, 3, 5)]
    check(lambda x, n: torch.select_scatter(x, x[0] + 1, 0, n), calls)
    calls = [(torch.randn(6, 4), -n) for n in (1, 3, 6)]
    check(lambda x, n: torch.select_scatter(x, x[0] + 1, 0, n), calls)


def test_of_a_storage_with_gaps() -> None:
    """Eager's copy has the strides of the input, and its offset."""
    whole = torch.randn(6, 8)
    for part in (whole[:, ::2], whole[1:], whole[:, 1:]):
        check(
            lambda x: torch.select_scatter(x, x[0] + 1, 0, 1),
            [(part,), (part[:-1],)],
            called=["select_scatter"],
        )


def test_the_result_is_no_view() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.select_scatter(x, x[0], 0, 0)
        y.add_(1)
        return x * 1, y

    check(function, [(torch.randn(a, 3),) for a in (1, 4, 5)])
