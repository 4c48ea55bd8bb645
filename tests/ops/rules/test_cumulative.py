"""Running sums and extremes, differences, gradients, the trapezoidal rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.shape_query import NeedKind
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import channels_last, inside_out

SIZES = {"b": 3, "s": 5}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.cumsum(1),
        lambda x: torch.cumsum(x, dim=-1, dtype=torch.float64),
        lambda x: x.cumprod(0),
        lambda x: x.logcumsumexp(1),
        lambda x: x.cummax(0),
        lambda x: torch.cummin(x, -1),
        lambda x: torch.diff(x),
        lambda x: x.diff(2, dim=0),
        lambda x: torch.diff(x, 0),
        lambda x: torch.diff(x, 9, 1),
        lambda x: torch.diff(x, dim=1, prepend=x, append=x),
        lambda x: torch.trapezoid(x, dim=1),
        lambda x: torch.trapz(x, dx=0.5),
        lambda x: torch.cumulative_trapezoid(x, dim=0),
        lambda x: torch.cumulative_trapezoid(x, dx=2.0),
    ],
)
def test_any_size(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        assert dynamic(check(call, "b s 4", first=SIZES, prepare=prepare))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.cumsum_(1),
        lambda x: x.cumprod_(0),
        lambda x, *_: torch.cumsum(x, 1, out=torch.empty(0)),
    ],
)
def test_in_place(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        assert check(call, "b s", first=SIZES, prepare=prepare).served


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.complex64], ids=str
)
def test_dtypes(dtype: torch.dtype):
    calls: list[Callable[..., Any]] = [
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(1),
        lambda x: x.diff(),
    ]
    if not dtype.is_complex:
        calls += [lambda x: x.cummax(1)]
    for call in calls:
        assert dynamic(check(call, "b s", first=SIZES, dtype=dtype))


def test_differences_of_channels_last():
    call = lambda x: torch.diff(x, dim=2, prepend=x)  # noqa: E731
    assert dynamic(check(call, "b 3 s 4", first=SIZES, prepare=channels_last))
    assert dynamic(check(lambda x: x.diff(dim=2), "b 3 s 4", first=SIZES, prepare=channels_last))


def test_number_of_differences():
    outcome = check(lambda x, n: torch.diff(x, n), "b s", Sym("n"), first=SIZES | {"n": 2})
    assert {"b": 3, "s": 1, "n": 2} in outcome.served


@pytest.mark.parametrize(
    ("call", "specs"),
    [
        (lambda y, x: torch.trapezoid(y, x), ("b s", "s")),
        (lambda y, x: torch.trapezoid(y, x, dim=0), ("b s", "b")),
        (lambda y, x: torch.trapezoid(y, x), ("b s", "b s")),
        (lambda y, x: torch.trapezoid(y, x, dim=1), ("b s 4", "s 4")),
        (lambda y, x: torch.cumulative_trapezoid(y, x), ("b s", "s")),
        (lambda y, x: torch.cumulative_trapezoid(y, x, dim=1), ("b s 4", "b s 4")),
    ],
)
def test_integrals_over_coordinates(call: Callable[..., Any], specs: tuple[str, ...]):
    assert check(call, *specs, first=SIZES).served


def test_an_integral_of_no_integers_stays_an_integer():
    outcome = check(torch.trapezoid, "b s", first=SIZES, dtype=torch.int64)
    assert {name for sizes in outcome.guarded for name, size in sizes.items() if size == 0} == {"s"}


def test_gradient():
    for call in (
        lambda x: torch.gradient(x),
        lambda x: torch.gradient(x, dim=1),
        lambda x: torch.gradient(x, spacing=0.5, dim=(0, 1)),
    ):
        outcome = check(call, "b s", first=SIZES)
        assert outcome.served
        assert all(need.kind is NeedKind.CHECK for need in outcome.needs)
    assert check(lambda x: torch.gradient(x, edge_order=2, dim=0), "b s", first=SIZES).served


@pytest.mark.parametrize(
    ("call", "specs", "dtype"),
    [
        (lambda x: x.cumsum(2), ("b s",), torch.float32),
        (lambda x: x.logcumsumexp(0), ("b s",), torch.int64),
        (lambda x: x.diff(), ("",), torch.float32),
        (lambda x: x.diff(-1), ("b s",), torch.float32),
        (lambda x, y: x.diff(prepend=y), ("b s", "s b"), torch.float32),
        (lambda x, y: x.diff(prepend=y), ("b s", "s"), torch.float32),
        (lambda y, x: torch.trapezoid(y, x), ("b s", "b"), torch.float32),
        (lambda x: torch.trapezoid(x), ("",), torch.float32),
        (lambda x: torch.gradient(x), ("b 1",), torch.float32),
        (lambda x: x.cumsum_(0), ("b s",), torch.bool),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...], dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES, dtype=dtype)


def test_without_dimensions():
    for call in (lambda x: x.cumsum(0), lambda x: x.cummax(-1), lambda x: x.logcumsumexp(0)):
        assert dynamic(check(call, "", first={}))
