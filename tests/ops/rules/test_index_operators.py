"""Operators that take index tensors or masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check

FIRST = {"b": 3, "s": 5, "k": 2}
LONG, BOOL = torch.int64, torch.bool

#: name -> (function of x (b s), indices (k) of zeros and others, specs of the others, dtypes)
CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...], dict[int, Any]]] = {
    "index_select": (lambda x, i: x.index_select(0, i), ("k",), {}),
    "index_select last": (lambda x, i: torch.index_select(x.t(), -1, i), ("k",), {}),
    "index_select int32": (lambda x, i: x.index_select(1, i.int()), ("k",), {}),
    "take": (lambda x, i: torch.take(x, i), ("k",), {}),
    "take transposed": (lambda x, i: x.take(i.t()), ("k 3",), {}),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 0), ("k s",), {}),
    "take_along_dim broadcast": (lambda x, i: x.take_along_dim(i, 0), ("k 1",), {}),
    "take_along_dim flat": (lambda x, i: torch.take_along_dim(x, i), ("k",), {}),
    "index_put": (lambda x, i, v: torch.index_put(x, (i,), v), ("k", "k s"), {}),
    "index_put row": (lambda x, i, v: x.index_put((i,), v), ("k", "s"), {}),
    "index_put transposed": (lambda x, i, v: x.t().index_put((i,), v), ("k", "1"), {}),
    "index_put_": (lambda x, i, v: x.index_put_((i, i), v), ("k", "k"), {}),
    "index_put mask": (lambda x, m, v: x.index_put((m,), v), ("b s", "1"), {1: BOOL}),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.5), ("k",), {}),
    "index_fill transposed": (lambda x, i: x.t().index_fill(0, i, 1), ("k",), {}),
    "index_fill_": (lambda x, i: x.index_fill_(1, i, -1), ("k",), {}),
    "index_copy": (lambda x, i, v: x.index_copy(0, i, v), ("k", "k s"), {}),
    "index_copy transposed": (lambda x, i, v: x.t().index_copy(1, i, v), ("k", "s k"), {}),
    "index_copy_": (lambda x, i, v: x.index_copy_(0, i, v), ("k", "k s"), {}),
    "put": (lambda x, i, v: torch.put(x, i, v), ("k", "k"), {}),
    "put_": (lambda x, i, v: x.put_(i, v), ("k", "k 1"), {}),
    "masked_scatter": (lambda x, m, v: x.masked_scatter(m, v), ("b s", "b s"), {1: BOOL}),
    "masked_scatter row": (lambda x, m, v: torch.masked_scatter(x, m, v), ("s", "b s"), {1: BOOL}),
    "masked_scatter_": (lambda x, m, v: x.masked_scatter_(m, v), ("b s", "b s"), {1: BOOL}),
}


@pytest.mark.parametrize("case", CASES)
def test_served_wherever_there_is_something_to_look_up(case: str) -> None:
    function, specs, dtypes = CASES[case]

    def rule(x: torch.Tensor, i: torch.Tensor, *others: torch.Tensor) -> Any:
        return function(x, i if i.dtype is BOOL else i * 0, *others)

    outcome = check(rule, "b s", *specs, first=FIRST, dtypes={1: LONG, **dtypes})
    for sizes in outcome.guarded:
        assert 0 in sizes.values(), (sizes, outcome.needs)


REJECTED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "select with a matrix": lambda x, i: x.index_select(0, i[None]),
    "select with int8": lambda x, i: x.index_select(0, i.char()),
    "take with int32": lambda x, i: x.take(i.int()),
    "take_along_dim of other rank": lambda x, i: x.take_along_dim(i, 0),
    "put values that do not fit": lambda x, i: x.index_put((i,), torch.ones(4)),
    "put values of another dtype": lambda x, i: x.index_put((i,), torch.ones(2, 5).double()),
    "fill with a vector": lambda x, i: x.index_fill(0, i, torch.ones(1)),
    "fill with a complex number": lambda x, i: x.index_fill(0, i, 1j),
    "copy too few": lambda x, i: x.index_copy(0, i, torch.ones(1, 5)),
    "copy another width": lambda x, i: x.index_copy(0, i, torch.ones(2, 4)),
    "copy of another dtype": lambda x, i: x.index_copy(0, i, torch.ones(2, 5).double()),
    "put too few": lambda x, i: torch.put(x, i, torch.ones(1)),
    "scatter by an integer mask": lambda x, i: x.masked_scatter(i, x),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        REJECTED[case](torch.randn(3, 5), torch.zeros(2, dtype=LONG))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", "k", first=FIRST, dtypes={1: LONG})
