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
