"""gather and scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, checks_only, dynamic
from tests.ops.laid_out import inside_out

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about old options
SIZES = {"b": 3, "s": 5}
LONG = {1: torch.int64}


def at_zero(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call with positions that are in range whatever the sizes."""
    return lambda x, i, *rest: call(x, i - i, *rest)


SAME_SHAPE: list[Callable[..., Any]] = [
    lambda x, i: torch.gather(x, 1, i),
    lambda x, i: x.gather(0, i),
    lambda x, i: x.scatter(0, i, x),
    lambda x, i: x.scatter(1, i, 2.0),
    lambda x, i: x.scatter(1, i, value=2.0),
    lambda x, i: x.scatter(1, i, x, reduce="add"),
    lambda x, i: torch.scatter(x, dim=0, index=i, src=x),
    lambda x, i: x.scatter_add(0, i, x),
    lambda x, i: torch.scatter_reduce(x, 1, i, x, "amax"),
    lambda x, i: x.scatter_reduce(1, i, x, reduce="mean", include_self=False),
    lambda x, i: x.scatter_(0, i, 1.0),
    lambda x, i: x.scatter_(0, i, x.clone()),
    lambda x, i: x.scatter_add_(0, i, x.clone()),
    lambda x, i: x.scatter_reduce_(0, i, x.clone(), "sum"),
    lambda x, i: torch.gather(x, 1, i, out=torch.empty(0)),
]


@pytest.mark.parametrize("call", SAME_SHAPE)
def test_a_position_for_each_element(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        assert dynamic(
            check(at_zero(call), "b s", "b s", first=SIZES, dtypes=LONG, prepare=prepare)
        )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_fewer_positions(dtype: torch.dtype):
    first = {"b": 4, "s": 5, "m": 3, "n": 2}
    outcome = check(
        at_zero(lambda x, i: x.gather(1, i)), "b s", "m n", first=first, dtypes={1: dtype}
    )
    assert checks_only(outcome)
    assert {**first, "b": 1} in outcome.guarded  # three rows of positions do not fit
    assert {**first, "m": 0} in outcome.served
    assert {**first, "s": 0} in outcome.guarded
    assert {**first, "n": 9} not in outcome.guarded
    outcome = check(
        at_zero(lambda x, i, y: x.scatter(1, i, y)), "b s", "m n", "m n", first=first, dtypes=LONG
    )
    assert checks_only(outcome)
    outcome = check(
        at_zero(lambda x, i, y: x.scatter_add(0, i, y)),
        "b s",
        "m n",
        "b s",
        first=first,
        dtypes=LONG,
    )
    assert checks_only(outcome)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: x.scatter(0, i, 1.0),
        lambda x, i: x.scatter_add(0, i, x),
        lambda x, i: x.index_add(0, i, x),
    ],
)
def test_without_dimensions(call: Callable[..., Any]):
    assert dynamic(check(at_zero(call), "", "", first={}, dtypes=LONG))
    assert check(at_zero(lambda x, i: x.gather(0, i)), "", "s", first={"s": 3}, dtypes=LONG).served
    assert check(at_zero(lambda x, i: x.gather(0, i)), "s", "", first={"s": 3}, dtypes=LONG).served


SLICES: list[Callable[..., Any]] = [
    lambda x, i, y: torch.index_add(x, 1, i, y),
    lambda x, i, y: x.index_add(1, i, y, alpha=2),
    lambda x, i, y: x.index_add_(1, i, y),
    lambda x, i, y: torch.index_reduce(x, 1, i, y, "prod"),
    lambda x, i, y: x.index_reduce(1, i, y, "amax", include_self=False),
    lambda x, i, y: x.index_reduce_(1, i, y, "mean"),
]


@pytest.mark.parametrize("call", SLICES)
def test_slices(call: Callable[..., Any]):
    first = {"b": 3, "s": 5, "n": 2}
    for prepare in (None, inside_out):
        outcome = check(
            at_zero(call), "b s 4", "n", "b n 4", first=first, dtypes=LONG, prepare=prepare
        )
        assert checks_only(outcome)
        assert outcome.guarded == [{"b": 3, "s": 0, "n": 2}]


def test_positions_of_no_elements_may_be_anything():
    assert check(
        at_zero(lambda x, i: x.gather(0, i)), "s", "0", first={"s": 3}, dtypes={1: torch.uint8}
    ).served
    assert check(at_zero(lambda x, i: x.gather(0, i)), "b s", "0", first=SIZES, dtypes=LONG).served
    assert check(
        at_zero(lambda x, i: x.scatter(0, i, 1.0)), "b s", "0", first=SIZES, dtypes=LONG
    ).served


@pytest.mark.parametrize(
    ("call", "specs", "dtypes"),
    [
        (lambda x, i: x.gather(1, i), ("b s", "s s"), LONG),
        (lambda x, i: x.gather(1, i), ("b s", "s"), LONG),
        (lambda x, i: x.gather(1, i), ("b s", "b s"), {}),
        (lambda x, i: x.gather(0, i), ("0 s", "b s"), LONG),
        (lambda x, i: x.scatter(1, i, x.double()), ("b s", "b s"), LONG),
        (lambda x, i: x.index_add(0, i, x), ("b s", "s"), LONG),
        (lambda x, i: x.index_add(0, i, x), ("b s", "b s"), LONG),
        (lambda x, i: x.index_add(0, i, x.double()), ("b s", "b"), LONG),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...], dtypes: dict[int, torch.dtype]):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES, dtypes=dtypes)
