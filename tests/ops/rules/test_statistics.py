"""Order statistics, histograms, covariance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.shape_query import NeedKind
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import inside_out

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about degrees of freedom
SIZES = {"b": 3, "s": 5}


def empty_refused(outcome: Any) -> set[str]:
    return {name for sizes in outcome.guarded for name, size in sizes.items() if size == 0}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.median(),
        lambda x: torch.nanmedian(x),
        lambda x: torch.median(x, -1),
        lambda x: torch.histc(x),
        lambda x: torch.histc(x, 7, -1, 1),
        lambda x: torch.histogram(x, 4),
        lambda x: torch.histogram(x, torch.tensor([0.0, 1.0, 2.0])),
    ],
)
def test_any_size(call: Callable[..., Any]):
    assert dynamic(check(call, "b s 4", first=SIZES))


ALONG: list[tuple[Callable[..., Any], set[str]]] = [
    (lambda x: x.median(0), {"b"}),
    (lambda x: torch.nanmedian(x, 1, True), {"s"}),
    (lambda x: x.mode(), set()),
    (lambda x: torch.mode(x, 0, keepdim=True), {"b"}),
    (lambda x: torch.kthvalue(x, 1, 0, True), {"b"}),
    (lambda x: x.kthvalue(4), set()),
    (lambda x: torch.quantile(x, 0.5), {"b", "s"}),
    (lambda x: torch.quantile(x, 0.5, 1), {"b", "s"}),
    (lambda x: x.quantile(torch.tensor([0.1, 0.9])), {"b", "s"}),
    (lambda x: x.quantile(torch.tensor([0.1, 0.9]), dim=1, keepdim=True), {"b", "s"}),
    (lambda x: torch.nanquantile(x, q=torch.tensor([0.1, 0.9]), dim=0), {"b", "s"}),
    (lambda x: torch.nanquantile(x, torch.tensor(0.3), -1, True), {"b", "s"}),
    (lambda x: torch.quantile(x, torch.tensor([0.1, 0.9]), keepdim=True), {"b", "s"}),
]


@pytest.mark.parametrize(("call", "may_not_be_empty"), ALONG)
def test_along_a_dimension(call: Callable[..., Any], may_not_be_empty: set[str]):
    for prepare in (None, inside_out):
        outcome = check(call, "b s 4", first=SIZES, prepare=prepare)
        assert empty_refused(outcome) == may_not_be_empty
        assert all(need.kind is NeedKind.CHECK for need in outcome.needs)


def test_quantiles_may_be_many():
    assert check(
        torch.quantile, "b s", "k", first=SIZES | {"k": 4}, prepare=torch.sigmoid, dim=1
    ).served


def test_position_counts_from_one_to_the_size():
    outcome = check(lambda x, k: torch.kthvalue(x, k, 1), "b s", Sym("k"), first=SIZES | {"k": 2})
    assert {"b": 3, "s": 5, "k": 0} in outcome.guarded
    assert {"b": 3, "s": 1, "k": 2} in outcome.guarded
    assert {"b": 3, "s": 5, "k": 1} in outcome.served


def test_numbers_of_bins():
    outcome = check(lambda x, k: torch.histc(x, k), "b", Sym("k"), first={"b": 3, "k": 4})
    assert {"b": 3, "k": 0} in outcome.guarded
    assert {"b": 0, "k": 4} in outcome.served
    outcome = check(lambda x, e: torch.histogram(x, e.sort()[0]), "b", "k", first={"b": 3, "k": 4})
    assert {"b": 3, "k": 1} in outcome.guarded
    assert {"b": 0, "k": 4} in outcome.served
    assert dynamic(check(lambda x: torch.histogramdd(x, [2, 3]), "b 2", first={"b": 4}))
    assert dynamic(
        check(lambda x, w: torch.histogramdd(x, 3, weight=w), "b 2", "b", first={"b": 4})
    )


@pytest.mark.parametrize("function", [torch.cov, torch.corrcoef])
def test_one_variable_has_a_variance_and_no_matrix(function: Callable[..., Any]):
    outcome = check(function, "b s", first=SIZES)
    assert [need.kind for need in outcome.needs] == [NeedKind.GUARD]
    assert {sizes["b"] for sizes in outcome.guarded} == {1}
    assert dynamic(check(function, "s", first={"s": 5}))
    assert dynamic(check(function, "", first={}))
    assert check(function, "b s", first=SIZES, dtype=torch.int64).served


def test_weights_of_observations():
    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cov(x, aweights=w, correction=0)

    outcome = check(call, "4 s", "s", first={"s": 5}, prepare=torch.abs)
    assert outcome.guarded == [{"s": 0}]
    outcome = check(call, "4 s", "s", first={"s": 5}, prepare=torch.abs, dtypes={1: torch.float64})
    assert {sizes["s"] for sizes in outcome.guarded} == {0, 1}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.uint8], ids=str)
def test_dtypes(dtype: torch.dtype):
    for call in (
        lambda x: x.median(1),
        lambda x: x.mode(1),
        lambda x: x.kthvalue(1),
        lambda x: x.median(),
    ):
        assert check(call, "b s", first=SIZES, dtype=dtype).served


@pytest.mark.parametrize(
    ("call", "spec", "dtype"),
    [
        (lambda x: x.kthvalue(7), "b s", torch.float32),
        (lambda x: x.kthvalue(0), "b s", torch.float32),
        (lambda x: x.quantile(0.5), "b s", torch.int64),
        (lambda x: x.quantile(torch.tensor([[0.5]])), "b s", torch.float32),
        (lambda x: x.quantile(torch.tensor([0.5], dtype=torch.float64)), "b s", torch.float32),
        (lambda x: x.histc(0), "b s", torch.float32),
        (lambda x: x.histc(), "b s", torch.int64),
        (lambda x: torch.histogramdd(x, [2, 2, 2]), "b 2", torch.float32),
        (lambda x: x.cov(), "b s 2", torch.float32),
        (lambda x: x.mode(0), "0 s", torch.float32),
    ],
)
def test_rejected(call: Callable[..., Any], spec: str, dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, spec, first=SIZES, dtype=dtype)


def test_grad():
    def call(x: torch.Tensor) -> Any:
        return (
            x.median(1),
            torch.quantile(x, 0.5),
            torch.histc(x),
            torch.histogram(x, 3),
            torch.cov(x),
        )

    assert check(call, "b 4", first={"b": 3}, prepare=lambda t: t.requires_grad_()).served
