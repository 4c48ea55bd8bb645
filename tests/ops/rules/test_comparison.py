"""Comparisons, tests, logic, and choosing by a boolean."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic

AB = {"a": 3, "b": 4}


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.t().contiguous().t() if tensor.dim() == 2 else tensor


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x == y,
        lambda x, y: x != 2,
        lambda x, y: x < y,
        lambda x, y: x >= 1.5,
        lambda x, y: torch.greater(x, y) & x.ge(1),
        lambda x, y: torch.logical_and(x, y).logical_not(),
        lambda x, y: torch.logical_xor(x, y) | torch.isnan(x),
        lambda x, y: torch.isfinite(x) ^ torch.isinf(x),
        lambda x, y: torch.isposinf(x) & torch.signbit(y),
        lambda x, y: torch.isreal(x),
        lambda x, y: torch.isclose(x, y, rtol=1e-2),
        lambda x, y: torch.isin(x, y.flatten()),
        lambda x, y: torch.isin(x, 2),
        lambda x, y: torch.isin(2, x.flatten()),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.where(x > 0, x, 0),
        lambda x, y: torch.where(x > 0, 1.0, y),
        lambda x, y: torch.where(x > 0, 1, 2),
        lambda x, y: torch.where(y > 0, 1.0, 2.0),
        lambda x, y: x.where(y > 0, torch.tensor(1.0, dtype=torch.float64)),
        lambda x, y: x.masked_fill(y > 0, 1),
        lambda x, y: x.masked_fill(x > 0, torch.tensor(2)),
        lambda x, y: x.masked_fill_(y > 0, 1),
        lambda x, y: x.eq_(y),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_functions(function: Any, dtype: torch.dtype) -> None:
    assert dynamic(check(function, "a b", "b", first=AB, dtype=dtype))
    assert dynamic(check(function, "a b", "a 1", first=AB, dtype=dtype, prepare=transposed))


def test_a_mask_that_is_larger() -> None:
    assert dynamic(check(torch.masked_fill, "b", "a b", 1.0, first=AB, dtypes={1: torch.bool}))


def test_where_with_one_argument_finds_positions() -> None:
    outcome = check(lambda x: torch.where(x > 0), "a b", first=AB)
    assert len(outcome.calls[-1].inferred.unbacked) == 1


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: torch.where(x, x, x), ("a b",)),
        (lambda x: x.masked_fill(x, 1), ("a b",)),
        (lambda x: x.masked_fill(x > 0, x), ("a b",)),
        (lambda x: torch.isclose(x, x.double()), ("a b",)),
        (lambda x, y: x.masked_fill_(y > 0, 1), ("b", "a b")),
    ],
)
def test_rejected(function: Any, specs: tuple[str, ...]) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first=AB)
