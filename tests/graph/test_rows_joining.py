"""cat, stack and their relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.graph.comparing import check

SIZES = ((5, 7), (3, 2), (1, 1), (0, 3), (3, 0), (2, 33))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.cat([x, y], 0),
        lambda x, y: torch.cat([x, y + 1, x], -1),
        lambda x, y: torch.cat([x, y], 1) * 2,
        lambda x, y: torch.cat([x * 2, y.double()], 1),
        lambda x, y: torch.cat([x, y], 1).t(),
        lambda x, y: torch.cat([x.t(), y.t()], 0),
        lambda x, y: torch.cat([x]),
        lambda x, y: torch.stack([x, y]),
        lambda x, y: torch.stack([x, y, x + y], 1),
        lambda x, y: torch.stack([x, y], -1).sum(-1),
        lambda x, y: torch.hstack([x, y]),
        lambda x, y: torch.vstack([x, y]),
        lambda x, y: torch.dstack([x, y]),
        lambda x, y: torch.column_stack([x, y]),
        lambda x, y: torch.cat([x.sum(1, keepdim=True), y], 1),
        lambda x, y: torch.cat([x, x], 0)[: x.shape[0]],
    ],
)
def test_join(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(a, b), torch.randn(a, b)) for a, b in SIZES], close=True)


def test_join_other_sizes() -> None:
    calls = [(torch.randn(a, b), torch.randn(a, 4)) for a, b in SIZES]
    check(lambda x, y: torch.cat([-y, x], -1) + 1, calls)


def test_joined_vectors() -> None:
    calls = [(torch.randn(a), torch.randn(a)) for a in (0, 1, 5)]
    check(
        lambda x, y: (torch.hstack([x, y]), torch.vstack([x, y]), torch.column_stack([x, y])), calls
    )


def test_a_joined_tensor_is_written_to() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        both = torch.cat([x, x], 0)
        both[1:] += 1
        x.add_(1)
        return both

    check(function, [(torch.randn(a, 3),) for a in (0, 1, 5)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.cat([-x, y], -1) * 2,
        lambda x, y: torch.cat([x, y, x], 0).relu(),
        lambda x, y: torch.cat([x, x * y, y], 1) + 1,
        lambda x, y: (torch.cat([x, y], 1) * 2).sum(1),
        lambda x, y: torch.cat([x.double(), y], 1) - 1,
        lambda x, y: torch.stack([x, y], 1).exp(),
        lambda x, y: torch.cat([x[:, 1:], x[:, :1]], 1) * y,
        lambda x, y: torch.cat([x.t(), y.t()], 1) * 2,
        lambda x, y: torch.cat([x, y], 0).add_(1),
        lambda x, y: torch.cat([x, y], 1).mul(3).flip(1),
        lambda x, y: torch.cat([x, y], 1).view(-1) * 2,
    ],
)
def test_parts_are_read_where_they_are(function: Callable[..., Any]) -> None:
    sizes = (*SIZES[:3], (4, 16), (3, 17), (2, 130))
    check(function, [(torch.randn(a, b), torch.randn(a, b)) for a, b in sizes], close=True)


def test_parts_are_not_stored_for_one_user() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x + torch.cat((-second, first), -1)

    plans = check(function, [(torch.randn(3, n),) for n in (8, 2, 7, 64, 130)])
    (plan,) = plans.made
    assert sum(not held.given for held in plan.held.values()) == 1


def test_parts_change_before_they_are_read() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        both = torch.cat([x, y], 1)
        x.add_(1)
        return both * 2

    check(function, [(torch.randn(3, n), torch.randn(3, 2)) for n in (5, 1, 20)])


def test_a_joined_tensor_has_two_users() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.cat([x, y], 1)
        return both * 2, both

    check(function, [(torch.randn(3, n), torch.randn(3, 2)) for n in (5, 1, 20)])
