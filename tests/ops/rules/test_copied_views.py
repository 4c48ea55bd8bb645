"""Copies of views, views written into copies, diagonals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

FIRST = {"b": 3, "s": 5}

DYNAMIC: dict[str, Callable[..., Any]] = {
    "permute_copy": lambda x: torch.permute_copy(x, (2, 0, 1)),
    "transpose_copy": lambda x: torch.transpose_copy(x, 0, 1),
    "t_copy": lambda x: torch.t_copy(x.flatten(1)),
    "view_copy": lambda x: torch.view_copy(x, (-1, 2)),
    "view_copy of a dtype": lambda x: torch.view_copy(x, torch.int16),
    "expand_copy": lambda x: torch.expand_copy(x, (2, -1, -1, -1)),
    "unsqueeze_copy": lambda x: torch.unsqueeze_copy(x, 1),
    "squeeze_copy": lambda x: torch.squeeze_copy(x, 2),
    "select_copy": lambda x: torch.select_copy(x, 2, 1),
    "slice_copy": lambda x: torch.slice_copy(x, 1, 1, -1, 2),
    "narrow_copy": lambda x: x.narrow_copy(2, 1, 2),
    "diagonal_copy": lambda x: torch.diagonal_copy(x, 1),
    "unfold_copy": lambda x: torch.unfold_copy(x, 2, 2, 2),
    "unbind_copy": lambda x: torch.unbind_copy(x, 2),
    "split_copy": lambda x: torch.split_copy(x, 2, 2),
    "split_with_sizes_copy": lambda x: torch.split_with_sizes_copy(x, [1, 3], 2),
    "as_strided_copy": lambda x: torch.as_strided_copy(x.sum((0, 1)), (2, 2), (1, 2)),
    "view_as_complex_copy": lambda x: torch.view_as_complex_copy(x.unflatten(2, (2, 2))),
    "diag": lambda x: torch.diag(x.flatten()),
    "diag of a matrix": lambda x: torch.diag(x.flatten(1).t(), -1),
    "diag_embed": lambda x: torch.diag_embed(x, 1, 0, 2),
    "diag_embed below": lambda x: x.diag_embed(-2),
    "diagflat": lambda x: torch.diagflat(x.transpose(0, 1), 2),
    "select_scatter": lambda x: torch.select_scatter(x, x.select(2, 0), 2, 1),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, 1:], 1, 0, -1),
    "slice_scatter transposed": lambda x: x.transpose(0, 1).slice_scatter(x.transpose(0, 1)),
    "slice_scatter with gaps": lambda x: torch.slice_scatter(x[..., ::2], x[..., 1::2]),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x.diagonal(1) * 2, 1),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], "b s 4", first=FIRST)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


def test_symbolic_diagonals() -> None:
    first = {"b": 4, "k": 2}
    assert dynamic(check(lambda x, k: torch.diag_embed(x, k), "b 3", Sym("k"), first=first))
    assert dynamic(check(lambda x, k: torch.diag(x, k), "b", Sym("k"), first=first))


def test_a_source_has_the_sizes_of_what_it_replaces() -> None:
    outcome = check(
        lambda x, y: torch.slice_scatter(x, y, 0, 1), "b 2", "c 2", first={"b": 4, "c": 3}
    )
    assert {"b": 6, "c": 6} in outcome.guarded
    outcome = check(
        lambda x, y: x.expand(4, -1).select_scatter(y, 0, 1), "1 s", "s", first={"s": 3}
    )
    assert dynamic(outcome)


REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a source that is too small": lambda x: torch.select_scatter(x, x[0, :1], 0, 0),
    "a source of other rank": lambda x: torch.select_scatter(x, x, 0, 0),
    "a diagonal that is too small": lambda x: torch.diagonal_scatter(x, x[0, :2]),
    "diag of a scalar": lambda x: torch.diag(x[0, 0]),
    "diag of 3 dimensions": lambda x: torch.diag(x[None]),
    "diag_embed into one dimension": lambda x: torch.diag_embed(x, 0, 1, 1),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first=FIRST)
