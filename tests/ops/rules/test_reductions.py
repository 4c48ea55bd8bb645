"""Reductions: shapes with and without the reduced dimensions, dtypes, empty dimensions, layouts."""

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
FLOATS = [torch.float16, torch.bfloat16, torch.float64, torch.complex64]
INTEGERS = [torch.bool, torch.uint8, torch.int32, torch.int64]


#: forms of dim and keepdim that nearly every reduction has
FORMS: list[dict[str, Any]] = [
    {},
    {"dim": 0},
    {"dim": -1, "keepdim": True},
    {"dim": (0, 2)},
    {"dim": [1, -1], "keepdim": True},
    {"dim": None, "keepdim": True},
    {"dim": ()},
    {"axis": 1, "keepdims": True},
]
ANY_SIZE = [
    *(torch.sum, torch.mean, torch.nansum, torch.nanmean),
    *(torch.var, torch.std, torch.any, torch.all),
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("function", ANY_SIZE, ids=lambda f: f.__name__)
def test_over_dimensions(function: Callable[..., Any], form: dict[str, Any]):
    if "axis" in form and function in (torch.nansum, torch.nanmean, torch.var, torch.std):
        form = {"dim": 1, "keepdim": True}
    for prepare in (None, inside_out):
        assert dynamic(check(function, "b s 4", first=SIZES, prepare=prepare, **form))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.prod(),
        lambda x: x.prod(1),
        lambda x: x.prod(-1, True),
        lambda x: torch.count_nonzero(x),
        lambda x: torch.count_nonzero(x, (0, 1)),
        lambda x: x.logsumexp(1, keepdim=True),
        lambda x: torch.special.logsumexp(x, (0, 1)),
        lambda x: torch.sum(x, 1, True),
        lambda x: x.sum((0, 1), dtype=torch.float64),
        lambda x: x.any(1, True),
        lambda x: torch.all(x),
        lambda x: x.var(1, False),
        lambda x: x.var(False),
        lambda x: x.std((0, 1), unbiased=False, keepdim=True),
        lambda x: torch.var(x, 0, correction=0),
        lambda x: torch.var_mean(x, 0),
        lambda x: torch.std_mean(x, dim=(0, 1), keepdim=True),
        lambda x: torch.var_mean(x, True),
        lambda x: torch.std_mean(x, correction=2, dim=None, keepdim=True),
        lambda x: torch.trace(x),
        lambda x: x.sum_to_size(1, 1),
        lambda x: x.sum_to_size(1),
        lambda x: x.sum_to_size(()),
    ],
)
def test_of_a_matrix(call: Callable[..., Any]):
    assert dynamic(check(call, "b s", first=SIZES))


EXTREMES: list[tuple[Callable[..., Any], set[str]]] = [
    (lambda x: x.amax(), {"b", "s"}),
    (lambda x: x.amin((0, 2)), {"b"}),
    (lambda x: torch.amax(x, 1, True), {"s"}),
    (lambda x: torch.amin(x, -1), set()),
    (lambda x: x.max(), {"b", "s"}),
    (lambda x: x.min(0), {"b"}),
    (lambda x: torch.max(x, 1, keepdim=True), {"s"}),
    (lambda x: torch.min(x, dim=-1), set()),
    (lambda x: x.argmax(), {"b", "s"}),
    (lambda x: x.argmin(1), {"s"}),
    (lambda x: torch.argmax(x, keepdim=True), {"b", "s"}),
    (lambda x: torch.argmin(x, 2, True), set()),
    (lambda x: torch.aminmax(x), {"b", "s"}),
    (lambda x: x.aminmax(dim=0, keepdim=True), {"b"}),
    (lambda x: torch.hash_tensor(x, 1), {"s"}),
    (lambda x: torch.hash_tensor(x), {"b", "s"}),
]


@pytest.mark.parametrize(("call", "may_not_be_empty"), EXTREMES)
def test_nothing_has_no_extreme(call: Callable[..., Any], may_not_be_empty: set[str]):
    for prepare in (None, inside_out):
        outcome = check(call, "b s 4", first=SIZES, prepare=prepare)
        assert {
            name for sizes in outcome.guarded for name, size in sizes.items() if size == 0
        } == may_not_be_empty
        assert all(need.kind is NeedKind.CHECK for need in outcome.needs)


@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_of_two_tensors(function: Callable[..., Any]):
    assert dynamic(check(function, "b s", "b s", first=SIZES))
    assert dynamic(check(lambda x, y: function(x, other=y), "b s", "s", first=SIZES))
    assert dynamic(check(function, "b s", "4 1 s", first=SIZES, dtypes={1: torch.int64}))
    assert dynamic(check(lambda x, y: x.max(y), "b s", "b s", first=SIZES))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(0),
        lambda x: x.sum(-1, keepdim=True),
        lambda x: x.sum(()),
        lambda x: x.amax(0, True),
        lambda x: x.max(0),
        lambda x: x.min(),
        lambda x: x.argmax(-1, True),
        lambda x: x.any(0),
        lambda x: x.mean(),
        lambda x: x.var(0),
        lambda x: x.logsumexp(0),
        lambda x: x.logsumexp(()),
        lambda x: x.prod(0),
        lambda x: x.sum_to_size(()),
    ],
)
def test_without_dimensions(call: Callable[..., Any]):
    assert dynamic(check(call, "", first={}))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_dtypes(dtype: torch.dtype):
    calls: list[Callable[..., Any]] = [
        lambda x: x.sum(1),
        lambda x: x.prod(1),
        lambda x: x.any(1),
        lambda x: x.all(),
        lambda x: x.sum(1, dtype=torch.float32),
        lambda x: x.mean(1, dtype=torch.float64),
        lambda x: torch.count_nonzero(x, 1),
    ]
    if dtype in FLOATS:
        calls += [lambda x: x.mean(), lambda x: x.var(1), lambda x: torch.std_mean(x, 0)]
    if not dtype.is_complex:
        calls += [lambda x: x.max(1), lambda x: x.amin(0), lambda x: x.min()]
    if not dtype.is_complex and dtype is not torch.bool:
        calls += [lambda x: x.argmax()]
        calls += [lambda x: x.logsumexp(1), lambda x: x.nansum(1)]
    for call in calls:
        assert all(
            n.kind is NeedKind.CHECK for n in check(call, "b s", first=SIZES, dtype=dtype).needs
        )


REJECTED: list[tuple[Callable[..., Any], str, torch.dtype]] = [
    (lambda x: x.mean(), "b s", torch.int64),
    (lambda x: x.std(0), "b s", torch.int32),
    (lambda x: x.sum(2), "b s", torch.float32),
    (lambda x: x.sum((0, -2)), "b s", torch.float32),
    (lambda x: x.max(0), "0 s", torch.float32),
    (lambda x: x.argmin(), "b 0", torch.float32),
    (lambda x: x.trace(), "b s 2", torch.float32),
    (lambda x: x.logsumexp(()), "b s", torch.float32),
    (lambda x: x.sum_to_size(2, 2, 2), "b s", torch.float32),
    (lambda x: x.sum_to_size(4), "b s", torch.float32),
]


@pytest.mark.parametrize(("call", "spec", "dtype"), REJECTED)
def test_rejected(call: Callable[..., Any], spec: str, dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, spec, first=SIZES, dtype=dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, o: torch.sum(x, 1, out=o),
        lambda x, o: torch.amax(x, 1, out=o),
        lambda x, o: torch.mean(x, 1, out=o),
        lambda x, o: torch.logsumexp(x, 1, out=o),
        lambda x, o: torch.var(x, 1, out=o),
    ],
)
def test_into_a_given_tensor(call: Callable[..., Any]):
    assert check(call, "b 4", "b", first={"b": 3}).hows


def test_grad():
    def call(x: torch.Tensor) -> Any:
        x = x.requires_grad_() if not x.requires_grad else x
        return x.sum(0), x.max(1), x.argmax(1), x.any(), torch.var_mean(x, 0), torch.aminmax(x)

    outcome = check(call, "b 4", first={"b": 3}, prepare=lambda t: t.requires_grad_())
    assert all(need.kind is NeedKind.CHECK for need in outcome.needs)


def test_a_size_of_one_is_not_summed_where_the_layout_would_tell():
    def call(x: torch.Tensor, b: int) -> torch.Tensor:
        return x.sum_to_size(b, 1, 4)

    assert dynamic(check(call, "b s 4", Sym("b"), first=SIZES))
    cases: list[dict[str, Any]] = [{"prepare": inside_out}, {"dtype": torch.int32}]
    for options in cases:
        outcome = check(call, "b s 4", Sym("b"), first=SIZES, **options)
        assert [need.kind for need in outcome.needs] == [NeedKind.GUARD]
    outcome = check(lambda x, n: x.sum_to_size(n), "s", Sym("n"), first={"s": 5, "n": 1})
    assert {"s": 7, "n": 1} not in outcome.guarded
    assert [need.kind for need in outcome.needs] == [NeedKind.GUARD]
