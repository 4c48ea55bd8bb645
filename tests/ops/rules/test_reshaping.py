"""Reshaping: -1, copies and views, other widths of numbers, resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

SIZES = {"b": 3, "s": 5}

#: Right for all sizes, without a need.
DYNAMIC: dict[str, Callable[..., Any]] = {
    "view": lambda x: x.view(-1),
    "view by a known part": lambda x: x.view(-1, 4),
    "view takes apart": lambda x: x.view(-1, 2, 2),
    "view of a tuple": lambda x: x.view((-1, 2)),
    "view adds ones": lambda x: x.view(1, -1, 1),
    "view_as": lambda x: x.view(-1, 4).view_as(x.reshape(-1, 4)),
    "reshape": lambda x: x.reshape(-1, 8 // 2),
    "reshape by function": lambda x: torch.reshape(x, (-1, 2)),
    "reshape_as": lambda x: x.flatten().reshape_as(x),
    "flatten": lambda x: x.flatten(),
    "flatten some": lambda x: torch.flatten(x, 1),
    "flatten none": lambda x: x.flatten(1, 1),
    "flatten front": lambda x: x.flatten(0, 1),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "unflatten inferred": lambda x: torch.unflatten(x, -1, (2, -1)),
    "unflatten transposed": lambda x: x.transpose(0, 2).unflatten(0, (2, 2)),
    "heads and back": lambda x: x.unflatten(2, (2, 2)).transpose(1, 2).transpose(1, 2).flatten(2),
    "merged heads": lambda x: x.unflatten(2, (2, 2)).transpose(1, 2).transpose(1, 2).reshape_as(x),
    "a copy of a transposed one": lambda x: x.transpose(0, 1).reshape(-1, 4),
    "a view of a transposed one": lambda x: x.permute(2, 0, 1).reshape(2, 2, -1),
    "ravel transposed": lambda x: x.transpose(0, 1).ravel(),
    "ravel with gaps": lambda x: x[..., ::2].ravel(),
    "flatten with gaps": lambda x: x[:, :, ::2].flatten(),
    "resize_": lambda x: x.clone().resize_(2, 3),
    "resize_ larger": lambda x: x.clone().resize_((70, 3)),
    "resize_as_": lambda x: x.clone().resize_as_(torch.zeros(2, 2)),
    "view of a dtype of the same width": lambda x: x.view(torch.int32),
    "view of a smaller dtype": lambda x: x.view(torch.int16),
    "view of bytes": lambda x: x.transpose(0, 1).view(torch.uint8),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], "b s 4", first=SIZES)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


#: A call with what it needs, as text.
NEEDING: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int], list[str]]] = {
    "a batch and the rest": (
        lambda x, b: x.view(b, -1), ("b s 4", Sym("b")), SIZES, ["b != 0"],
    ),
    "heads": (
        lambda x, b, s: x.view(b, s, 2, 2), ("b s 4", Sym("b"), Sym("s")), SIZES, [],
    ),
    "heads of a symbolic number": (
        lambda x, h: x.view(2, 3, h, -1), ("2 3 d", Sym("h")), {"d": 8, "h": 4},
        ["h != 0", "d % h == 0"],
    ),
    "even": (lambda x: x.view(-1, 2), ("b s",), {"b": 3, "s": 4}, ["(b*s) % 2 == 0"]),
    "as many": (lambda x: x.view(2, 6), ("b s",), {"b": 3, "s": 4}, ["b*s == 12"]),
    "unflatten": (
        lambda x, k: x.unflatten(0, (-1, k)), ("b", Sym("k")), {"b": 6, "k": 3},
        ["k != 0", "b % k == 0"],
    ),
    "images as pixels": (
        lambda x: x.permute(0, 2, 3, 1).reshape(-1, 4), ("n 4 h w",), {"n": 2, "h": 3, "w": 5},
        ["n != 1"],
    ),
    "one image as pixels": (
        lambda x: x.permute(0, 2, 3, 1).reshape(-1, 4), ("n 4 h w",), {"n": 1, "h": 3, "w": 5},
        ["n == 1"],
    ),
    "view of a transposed row": (
        lambda x: x.t().view(-1), ("b s",), {"b": 1, "s": 5}, ["b == 1"],
    ),
    "a larger dtype": (
        lambda x: x.view(torch.float64), ("s",), {"s": 6}, ["s % 2 == 0"],
    ),
    "a write to a reshaped tensor": (
        lambda x: x.transpose(1, 2).reshape(-1, 12).add_(1), ("b 4 s 3",), {"b": 2, "s": 5},
        ["s != 1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDING)
def test_needs(case: str) -> None:
    function, specs, first, needs = NEEDING[case]
    outcome = check(function, *specs, first=first)
    assert [str(need.fact) for need in outcome.needs] == needs
    assert first in [*outcome.served, first]


def test_where_a_copy_is_a_view_for_some_sizes_the_result_says_so() -> None:
    outcome = check(lambda x: x.transpose(1, 2).flatten(2), "b 4 s 6", first={"b": 2, "s": 5})
    assert dynamic(outcome)
    assert str(outcome.calls[-1].inferred.value.shares_if) == "s == 1"


#: Calls that torch rejects for a tensor of 3 x 5.
REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "two sizes to infer": lambda x: x.view(-1, -1),
    "too few elements": lambda x: x.view(3, 4),
    "no multiple": lambda x: x.reshape(-1, 4),
    "a size of -2": lambda x: x.view(-2),
    "-1 beside 0": lambda x: x.reshape(-1, 0),
    "a view of a transposed one": lambda x: x.t().view(-1),
    "view_as of a transposed one": lambda x: x.t().view_as(x.flatten()),
    "flatten backwards": lambda x: x.flatten(1, 0),
    "unflatten uneven": lambda x: x.unflatten(1, (2, 2)),
    "unflatten into nothing": lambda x: x.unflatten(1, ()),
    "a larger dtype of odd sizes": lambda x: x.view(torch.float64),
    "a smaller dtype with gaps": lambda x: x[:, ::2].view(torch.int8),
    "a dtype for a scalar": lambda x: x[0, 0].view(torch.int8),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first=SIZES)
