"""Sorting, the largest few, search in what is sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import inside_out

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about copies it makes
SIZES = {"b": 3, "s": 5}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.sort(x),
        lambda x: x.sort(0, True),
        lambda x: torch.sort(x, stable=True, dim=1, descending=True),
        lambda x: torch.argsort(x, 1),
        lambda x: x.argsort(dim=0, descending=True, stable=True),
        lambda x: torch.msort(x),
        lambda x: x.msort(),
        lambda x: x.topk(2),
        lambda x: torch.topk(x, 0, 1),
        lambda x: torch.topk(x, k=4, dim=-1, largest=False, sorted=False),
        lambda x: torch.bucketize(x, torch.tensor([0.0, 1.0])),
        lambda x: torch.bucketize(x, torch.tensor([0.0, 1.0]), out_int32=True, right=True),
        lambda x: torch.searchsorted(torch.tensor([0.0, 1.0]), x),
        lambda x: torch.searchsorted(x, x, out_int32=True, side="right"),
        lambda x: torch.searchsorted(x, x, sorter=x.argsort()),
        lambda x: x.sort(1).values.transpose(0, 1).sort(0),
    ],
)
def test_any_size(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        assert dynamic(check(call, "b s 4", first=SIZES, prepare=prepare))


def test_layout_of_views():
    assert check(lambda x: x[:, ::2].sort(0), "b s 4", first=SIZES).served
    assert check(lambda x: x.transpose(0, 2)[1:].sort(0), "b s 4", first=SIZES).served


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sort(),
        lambda x: x.sort(0),
        lambda x: x.argsort(),
        lambda x: x.msort(),
        lambda x: x.topk(1),
        lambda x: x.topk(0),
        lambda x: torch.bucketize(x, torch.tensor([0.0])),
        lambda x: torch.searchsorted(torch.tensor([0.0]), x),
        lambda x: torch.searchsorted(torch.tensor([0.0]), 1.0) + x.long(),
        lambda x: torch.bucketize(1.0, torch.tensor([0.0])) + x.long(),
    ],
)
def test_without_dimensions(call: Callable[..., Any]):
    assert dynamic(check(call, "", first={}))


def test_symbolic_number_of_largest():
    outcome = check(lambda x, k: x.topk(k, 1), "b s", Sym("k"), first=SIZES | {"k": 2})
    assert {"b": 3, "s": 1, "k": 2} in outcome.guarded
    assert {"b": 3, "s": 5, "k": 0} in outcome.served
    assert {"b": 0, "s": 5, "k": 2} in outcome.served


def test_search_in_rows():
    assert dynamic(check(torch.searchsorted, "b s", "b n", first=SIZES | {"n": 4}))
    assert dynamic(check(torch.searchsorted, "s", "b n", first=SIZES | {"n": 4}))
    assert dynamic(check(torch.bucketize, "b n", "s", first=SIZES | {"n": 4}))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float64], ids=str
)
def test_dtypes(dtype: torch.dtype):
    for call in (lambda x: x.sort(), lambda x: x.argsort(0)):
        assert dynamic(check(call, "b s", first=SIZES, dtype=dtype))
    if dtype is not torch.bool:
        assert check(lambda x: x.topk(1), "b s", first=SIZES, dtype=dtype).served


@pytest.mark.parametrize(
    ("call", "specs"),
    [
        (lambda x: x.sort(2), ("b s",)),
        (lambda x: x.topk(6), ("b s",)),
        (lambda x: x.topk(-1), ("b s",)),
        (torch.searchsorted, ("b s", "s s")),
        (torch.searchsorted, ("b s", "s")),
        (torch.searchsorted, ("", "s")),
        (torch.bucketize, ("b s", "b s")),
        (lambda x: torch.searchsorted(x, 1.0), ("b s",)),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...]):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES)
