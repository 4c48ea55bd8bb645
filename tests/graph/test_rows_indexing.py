"""Subscripts with tensors, and operators that look positions up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import anyshape
from tests.graph.comparing import check

SIZES = ((5, 7), (3, 2), (1, 1), (4, 19), (2, 0))


def numbers(size: int, *shape: int) -> torch.Tensor:
    """Positions in a size, from both ends."""
    count = torch.arange(torch.Size(shape).numel()).reshape(shape)
    return count * 7 % size


def calls(*shapes: tuple[int, int]) -> list[tuple[Any, ...]]:
    return [
        (torch.randn(a, b), numbers(a, 4), numbers(b, 3) if b else numbers(1, 0))
        for a, b in shapes or SIZES
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, j: x[i],
        lambda x, i, j: x[i] * 2 + 1,
        lambda x, i, j: x[i - 1],
        lambda x, i, j: x[:, j],
        lambda x, i, j: x[..., j],
        lambda x, i, j: x[i.reshape(2, 2)],
        lambda x, i, j: x[i[:, None], j],
        lambda x, i, j: x[None, i],
        lambda x, i, j: x[:, None, j],
        lambda x, i, j: x[i.int()],
        lambda x, i, j: x.t()[:, i],
        lambda x, i, j: (x + 1)[i],
        lambda x, i, j: x.index_select(0, i),
        lambda x, i, j: x.index_select(-1, j),
        lambda x, i, j: x.gather(0, i[:, None].expand(4, x.shape[1])),
        lambda x, i, j: torch.take_along_dim(x, i[:, None], 0),
        lambda x, i, j: functional.embedding(i.reshape(2, 2), x),
        lambda x, i, j: functional.one_hot(i, 5),
        lambda x, i, j: x[i][0],
        lambda x, i, j: x[1:][i[:1] * 0] if x.shape[0] > 1 else x,
    ],
)
def test_look_up(function: Callable[..., Any]) -> None:
    check(function, calls())


def test_take() -> None:
    check(lambda x, i, j: x.take(i), calls(*SIZES[:4]))
    check(lambda x, i, j: x.t().take(i - 1), calls(*SIZES[:4]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, j: x[i, :, j],
        lambda x, i, j: x[:, i, j],
        lambda x, i, j: x[i, j],
        lambda x, i, j: x[i, 1:, j],
        lambda x, i, j: x[0, i * 0, j],
        lambda x, i, j: x[i, None, 0, j],
    ],
)
def test_several_index_tensors(function: Callable[..., Any]) -> None:
    check(
        function,
        [
            (torch.randn(a, 3, b), numbers(min(a, 3), 4, 1), numbers(b, 3))
            for a, b in ((5, 7), (3, 2), (1, 1))
        ],
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(1, i[None]),
        lambda x, i: functional.embedding(i, x),
        lambda x, i: x.add_(1)[i],
    ],
)
@pytest.mark.parametrize("bad", [9, -9])
def test_positions_out_of_range_fail_as_in_eager(function: Callable[..., Any], bad: int) -> None:
    good = (torch.randn(4, 4), torch.tensor([0, 3]))
    check(function, [good, (torch.randn(5, 5), torch.tensor([1, bad]))], fails=True)


def test_data_dependent_sizes_are_called_out() -> None:
    check(lambda x: x[x > 0], [(torch.randn(4),), (torch.randn(9),)], called=["getitem"])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_equal_size(mode: str) -> None:
    def bags(numbers: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(numbers, table, mode=mode)

    calls = [
        (torch.randint(0, 9, shape), torch.randn(9, width))
        for shape, width in (((4, 5), 6), ((1, 1), 33), ((0, 2), 3), ((7, 3), 1))
    ]
    check(bags, calls, close=True)


def test_weighted_bags() -> None:
    def bags(numbers: torch.Tensor, table: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(
            numbers, table, mode="sum", per_sample_weights=shares
        )

    calls = [(torch.randint(0, 9, (n, 3)), torch.randn(9, 6), torch.rand(n, 3)) for n in (4, 1, 0)]
    check(bags, calls, close=True)


def test_a_row_that_the_table_does_not_have() -> None:
    table = torch.randn(9, 6)
    calls = [(torch.randint(0, 9, (4, 5)), table), (torch.full((4, 5), 9), table)]
    # Which of its threads is the first to see it says so in other words.
    check(torch.nn.functional.embedding_bag, calls, fails=True, any_text=True)


def test_places_beyond_the_end_begin_anew() -> None:
    """Where this torch has it so; others refuse them, and so do we."""
    made = torch.Generator().manual_seed(0)
    sizes = ((5, 4), (1, 7), (7, 1), (0, 3), (40, 33))
    shapes = [
        (torch.randn(size, generator=made), torch.randint(-90, 90, size, generator=made))
        for size in sizes
    ]
    check(lambda x, i: torch.take_along_dim(x, i, 0) * 2, shapes)
    compiled = anyshape.compile(lambda x, i: (x.take_along_dim(i, 1) * 2).sin() + 1, dynamic=True)
    for x, i in shapes:
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        ((one.take_along_dim(i, 1) * 2).sin() + 1).sum().backward()
        compiled(other, i).sum().backward()
        torch.testing.assert_close(other.grad, one.grad)
