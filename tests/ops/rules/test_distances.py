"""Norms and distances."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from anyshape.ops.shape_query import NeedKind
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import inside_out

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about old names
OVER_TWO: Any = (0, 2)  # torch takes it, its stubs do not say so
SIZES = {"b": 3, "s": 5}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.norm(x),
        lambda x: x.norm(),
        lambda x: x.norm(2, 1),
        lambda x: x.norm(p=1, dim=(0, 1), keepdim=True),
        lambda x: torch.norm(x, dim=()),
        lambda x: torch.norm(x, "nuc", dim=(0, 1)),
        lambda x: x.norm(dtype=torch.float64),
        lambda x: torch.linalg.vector_norm(x),
        lambda x: torch.linalg.vector_norm(x, 3, (0, 2), True),
        lambda x: torch.linalg.vector_norm(x, inf, 2),
        lambda x: torch.linalg.matrix_norm(x),
        lambda x: torch.linalg.matrix_norm(x, 2, dim=(0, 1), keepdim=True),
        lambda x: torch.linalg.matrix_norm(x, 1, (1, 0)),
        lambda x: torch.linalg.norm(x),
        lambda x: torch.linalg.norm(x, 1, dim=(0, 1)),
        lambda x: torch.linalg.norm(x, dim=(0, 1)),
        lambda x: torch.linalg.norm(x, 2, 1, True),
        lambda x: torch.linalg.norm(x, "nuc", (1, 2)),
        lambda x: torch.frobenius_norm(x, (0, 1), True),
        lambda x: torch.nuclear_norm(x, (0, 1)),
        lambda x: torch.norm_except_dim(x, 2, 2),
        lambda x: torch.norm_except_dim(x, 2, -1),
        lambda x: F.normalize(x),
        lambda x: F.normalize(x, dim=OVER_TWO),
        lambda x: F.normalize(x, p=1, dim=-1),
        lambda x: torch.renorm(x, 2, 1, 0.5),
        lambda x: x.renorm_(2, 0, 0.5),
        lambda x: torch.dist(x, x, 1),
        lambda x: x.dist(x),
        lambda x: F.pairwise_distance(x, x),
        lambda x: torch.pairwise_distance(x, x, 1.0, keepdim=True),
        lambda x: F.cosine_similarity(x, x),
        lambda x: torch.cosine_similarity(x, x, dim=-1),
        lambda x: torch.cdist(x, x),
        lambda x: torch.cdist(x, x, p=1.0),
    ],
)
def test_any_size(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        assert dynamic(check(call, "b s 4", first=SIZES, prepare=prepare))


@pytest.mark.parametrize(
    ("call", "may_not_be_empty"),
    [
        (lambda x: x.norm(inf), {"b", "s"}),
        (lambda x: torch.linalg.vector_norm(x, -inf, 1), {"s"}),
        (lambda x: torch.linalg.vector_norm(x, -1, 0), {"b"}),
        (lambda x: F.normalize(x, inf, 0), {"b"}),
        (lambda x: torch.renorm(x, inf, 0, 1.0), {"s"}),
        (lambda x: F.pairwise_distance(x, x, inf), {"s"}),
        (lambda x: torch.dist(x, x, inf), {"b", "s"}),
        (lambda x: torch.norm_except_dim(x, 2, 1), {"s"}),
    ],
)
def test_nothing_has_no_extreme(call: Callable[..., Any], may_not_be_empty: set[str]):
    outcome = check(call, "b s", first=SIZES)
    assert {
        n for sizes in outcome.guarded for n, size in sizes.items() if size == 0
    } == may_not_be_empty
    assert all(need.kind is NeedKind.CHECK for need in outcome.needs)


def test_between_batches():
    sizes = {"b": 3, "n": 4, "m": 5, "k": 2}
    assert dynamic(check(torch.cdist, "b n k", "b m k", first=sizes))
    assert dynamic(check(torch.cdist, "b n k", "m k", first=sizes))
    assert dynamic(check(torch.cdist, "b 1 n 3", "7 m 3", first={"b": 3, "n": 4, "m": 5}))
    assert dynamic(check(torch.pdist, "n k", first={"n": 4, "k": 3}))
    assert dynamic(check(F.pdist, "n k", first={"n": 4, "k": 3}, dtype=torch.float64))


def test_broadcast():
    assert dynamic(check(F.cosine_similarity, "b s", "1 s", first=SIZES))
    assert dynamic(check(lambda x, y: F.cosine_similarity(x, y, 0), "b s", "s", first=SIZES))
    assert dynamic(check(F.pairwise_distance, "b s", "s", first=SIZES))
    assert dynamic(check(torch.dist, "b s", "s", first=SIZES))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.complex128], ids=str
)
def test_dtypes(dtype: torch.dtype):
    calls: list[Callable[..., Any]] = [
        lambda x: x.norm(),
        lambda x: x.norm(1, 0),
        lambda x: torch.linalg.vector_norm(x, 2, 1),
        lambda x: torch.renorm(x, 2, 0, 1.0),
        lambda x: torch.dist(x, x),
        lambda x: F.pairwise_distance(x, x),
        lambda x: torch.linalg.matrix_norm(x),
    ]
    if not dtype.is_complex:
        calls += [lambda x: F.normalize(x), lambda x: F.cosine_similarity(x, x.float())]
    for call in calls:
        assert dynamic(check(call, "b s", first=SIZES, dtype=dtype))
    wider = torch.complex128 if dtype.is_complex else torch.float64
    assert dynamic(check(lambda x: x.norm(dtype=wider), "b s", first=SIZES, dtype=dtype))


def test_integers_have_distances():
    assert dynamic(check(F.pairwise_distance, "b s", "b s", first=SIZES, dtype=torch.int64))


@pytest.mark.parametrize(
    ("call", "specs", "dtype"),
    [
        (lambda x: x.norm(), ("b s",), torch.int64),
        (lambda x: torch.renorm(x, 2, 0, 1.0), ("b",), torch.float32),
        (lambda x: torch.linalg.matrix_norm(x), ("b",), torch.float32),
        (lambda x: torch.linalg.norm(x, 2), ("b s 2",), torch.float32),
        (torch.cdist, ("b s", "b 4"), torch.float32),
        (torch.cdist, ("b s", "b s"), torch.int64),
        (torch.pdist, ("b s 2",), torch.float32),
        (F.cosine_similarity, ("b s", "b s"), torch.int64),
        (F.pairwise_distance, ("b s", "b 4"), torch.float32),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...], dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES, dtype=dtype)
