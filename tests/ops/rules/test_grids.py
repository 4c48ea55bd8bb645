"""Grids, products, combinations, coordinates, one-hot vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

FIRST = {"a": 3, "b": 5}

DYNAMIC: dict[str, Callable[..., Any]] = {
    "meshgrid": lambda x, y: torch.meshgrid(x, y, indexing="ij"),
    "meshgrid xy": lambda x, y: torch.meshgrid([x, y], indexing="xy"),
    "meshgrid of three": lambda x, y: torch.meshgrid(x, y, x[..., :2], indexing="xy"),
    "meshgrid of one": lambda x, y: torch.meshgrid(x, indexing="ij"),
    "meshgrid with gaps": lambda x, y: torch.meshgrid(x[::2], y, indexing="ij"),
    "cartesian_prod": lambda x, y: torch.cartesian_prod(x, y),
    "cartesian_prod of one": lambda x, y: torch.cartesian_prod(x[::2]),
    "combinations": lambda x, y: torch.combinations(x),
    "combinations of three": lambda x, y: torch.combinations(y, 3),
    "combinations of none": lambda x, y: torch.combinations(y, 0),
    "combinations with replacement": lambda x, y: torch.combinations(x, 2, with_replacement=True),
    "kron": lambda x, y: torch.kron(x, y),
    "kron of ranks": lambda x, y: torch.kron(x[:, None], y),
    "kron of dtypes": lambda x, y: x.kron(y.double()),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], "a", "b", first=FIRST)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


def test_kron_of_transposed_matrices() -> None:
    first = {"a": 2, "b": 3, "c": 4, "d": 5}
    assert check(lambda x, y: torch.kron(x.t(), y.t()), "a b", "c d", first=first).served
    # Torch fails where the layout of the product is not that of one of the two, unless a size is 1.
    with pytest.raises(ShapeMismatch):
        check(lambda x, y: torch.kron(x.t(), y), "a b", "c d", first=first)
    assert check(lambda x, y: torch.kron(x.t(), y), "a b", "c d", first={**first, "b": 1}).served


def test_coordinates() -> None:
    for shape in ((4, 6), 24, (2, 3, 4)):
        outcome = check(
            lambda i, shape=shape: torch.unravel_index(i, shape),
            "a b",
            first=FIRST,
            dtype=torch.int64,
        )
        assert dynamic(outcome)
    outcome = check(
        lambda i: torch.unravel_index(i.t(), (4, 6)), "a b", first=FIRST, dtype=torch.int32
    )
    assert dynamic(outcome)


def test_one_hot() -> None:
    assert dynamic(check(lambda x: F.one_hot(x, 4), "a b", first=FIRST, dtype=torch.int64))
    outcome = check(
        lambda x, k: F.one_hot(x, k), "a b", Sym("k"), first={**FIRST, "k": 4}, dtype=torch.int64,
        then=[{"a": 2, "b": 2, "k": 7}, {"a": 2, "b": 2, "k": 0}],
    )  # fmt: skip
    assert outcome.served == [{"a": 2, "b": 2, "k": 7}]
    outcome = check(lambda x: F.one_hot(x), "a b", first=FIRST, dtype=torch.int64)
    assert len(outcome.calls[-1].inferred.unbacked) == 1
    assert {"a": 0, "b": 5} in outcome.guarded


REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a grid of matrices": lambda x: torch.meshgrid(x, indexing="ij"),
    "a grid of dtypes": lambda x: torch.meshgrid(x[0], x[1].double(), indexing="ij"),
    "a product of matrices": lambda x: torch.cartesian_prod(x, x),
    "combinations of a matrix": lambda x: torch.combinations(x),
    "coordinates of floats": lambda x: torch.unravel_index(x, (4,)),
    "classes of floats": lambda x: F.one_hot(x, 3),
    "no classes": lambda x: F.one_hot(x.long() * 0, 0),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first={"b": 3, "s": 5})
