"""Writes to a part of a tensor that reads another part: where they overlap, eager's own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from tests.native.plans import watched


def add_shifted(x: torch.Tensor, k: int) -> torch.Tensor:
    x[k:].add_(x[: x.shape[0] - k])
    return x * 2


def copy_shifted(x: torch.Tensor, k: int) -> torch.Tensor:
    x[k:] = x[: x.shape[0] - k]
    return x * 2


def add_columns(x: torch.Tensor, k: int) -> torch.Tensor:
    x[:, k:].mul_(x[:, : x.shape[1] - k])
    return x * 2


def scatter_into_itself(x: torch.Tensor, k: int) -> torch.Tensor:
    positions = torch.arange(x.shape[0] - k)
    x[k:].index_add_(0, positions, x[: x.shape[0] - k])
    return x * 2


def where_it_reads(x: torch.Tensor, k: int) -> torch.Tensor:
    x[k:].add_(x[k:])
    return x * 2


def through_a_new_tensor(x: torch.Tensor, k: int) -> torch.Tensor:
    shifted = x[: x.shape[0] - k] * 3
    x[k:].add_(shifted)
    return x * 2


def halves(x: torch.Tensor, k: int) -> torch.Tensor:
    half = x.shape[1] // 2
    x[:, :half].add_(x[:, half : 2 * half])
    return x * 2


def rows(x: torch.Tensor, k: int) -> torch.Tensor:
    x[0].add_(x[1])
    return x * 2


def expanded(x: torch.Tensor, k: int) -> torch.Tensor:
    x[:1].expand(x.shape[0] - k, -1).add_(1)
    return x * 2


def windows(x: torch.Tensor, k: int) -> torch.Tensor:
    x.unfold(0, 3, 1).mul_(2)
    return x * 2


def strided(x: torch.Tensor, k: int) -> torch.Tensor:
    x.as_strided((3, 3), (1, 1)).copy_(torch.arange(9.0).view(3, 3))
    return x * 2


#: sizes and shifts: apart at first, then by one element, then not at all
CALLS = [((8, 8), 4), ((8, 8), 4), ((8, 8), 5), ((8, 8), 3), ((9, 7), 1), ((6, 8), 5)]
FUNCTIONS = [
    add_shifted,
    copy_shifted,
    add_columns,
    scatter_into_itself,
    where_it_reads,
    through_a_new_tensor,
    halves,
    rows,
    expanded,
    windows,
    strided,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_overlaps_are_as_in_eager(function: Callable[..., Any]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    with watched(), torch.no_grad():
        for shape, k in CALLS:
            x = torch.arange(1.0, 1 + shape[0] * shape[1]).view(shape)
            here, there = x.clone(), x.clone()
            try:
                wanted = function(here, k)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)[:30]):
                    compiled(there, k)
                assert torch.equal(here, there)
                continue
            assert torch.equal(compiled(there, k), wanted), (shape, k)
            assert torch.equal(here, there), (shape, k)


@pytest.mark.parametrize("function", [where_it_reads, through_a_new_tensor, rows])
def test_what_never_overlaps_is_native(function: Callable[..., Any]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    with watched() as plans, torch.no_grad():
        compiled(torch.ones(8, 8), 4)
        compiled(torch.ones(8, 8), 4)
    assert not plans.called, plans.called
