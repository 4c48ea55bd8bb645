"""Views of several tensors at once: grids, and tensors stretched to one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from tests.graph.comparing import check

PAIRS = ((3, 4), (1, 1), (5, 1), (0, 2), (7, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.meshgrid(x, y, indexing="ij"),
        lambda x, y: torch.meshgrid([x * 2, y], indexing="xy"),
        lambda x, y: [each * 2 for each in torch.meshgrid(x + 1, y, x, indexing="ij")],
        lambda x, y: torch.stack(torch.meshgrid(x.long(), y.long(), indexing="xy")).flatten(1),
        lambda x, y: torch.meshgrid(x, y.max(), indexing="ij"),
    ],
)
def test_grids(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(n), torch.randn(m)) for n, m in PAIRS])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.broadcast_tensors(x, y),
        lambda x, y: [each + 1 for each in torch.broadcast_tensors(x * 2, y, x)],
    ],
)
def test_stretched_to_one_size(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(n, 1), torch.randn(m)) for n, m in ((3, 4), (2, 2), (0, 3))])


def written_before(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = torch.meshgrid(x, y, indexing="ij")
    x.add_(1)
    return a + b


def written_through(x: torch.Tensor, y: torch.Tensor) -> Any:
    (a,) = torch.meshgrid(x * 2, indexing="ij")
    a.add_(y)
    return a * 2


def stretched_then_written(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x * 2
    a, b = torch.broadcast_tensors(z, y[:, None])
    z.add_(1)
    return a * b


@pytest.mark.parametrize("function", [written_before, written_through, stretched_then_written])
def test_they_show_what_is_written_later(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(n), torch.randn(n)) for n in (4, 2, 6)])


def test_an_expanded_grid_is_not_written_to() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        a, _ = torch.meshgrid(x, y, indexing="ij")
        return a.add_(1)

    check(function, [(torch.randn(4), torch.randn(3))], fails=True)


def test_grids_share_the_memory_of_what_was_given() -> None:
    @anyshape.compile(dynamic=True)
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.meshgrid(x, y, indexing="ij")

    with torch.no_grad():
        for n in (3, 5):
            x, y = torch.randn(n), torch.randn(4)
            a, b = function(x, y)
            x.add_(1)
            y.mul_(2)
            assert torch.equal(a, x[:, None].expand(n, 4))
            assert torch.equal(b, y.expand(n, 4))
