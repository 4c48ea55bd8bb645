"""Linear algebra on symbols and on real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import linalg

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

FIRST = {"b": 3, "n": 4}
TALL = {"b": 3, "m": 5, "n": 4}


def positive(tensor: torch.Tensor) -> torch.Tensor:
    """Symmetric and positive definite, so that every decomposition exists."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return tensor
    return tensor @ tensor.mT + torch.eye(tensor.shape[-1], dtype=tensor.dtype)


SQUARE: list[tuple[str, Callable[..., Any]]] = [
    ("inv", linalg.inv),
    ("inverse", torch.inverse),
    ("inv_ex", linalg.inv_ex),
    ("cholesky", linalg.cholesky),
    ("upper", lambda a: linalg.cholesky(a, upper=True)),
    ("cholesky_ex", linalg.cholesky_ex),
    ("cholesky_inverse", torch.cholesky_inverse),
    ("det", linalg.det),
    ("method", lambda a: a.det()),
    ("slogdet", linalg.slogdet),
    ("logdet", torch.logdet),
    ("eigh", linalg.eigh),
    ("eigvalsh", linalg.eigvalsh),
    ("eig", linalg.eig),
    ("eigvals", linalg.eigvals),
    ("matrix_power", lambda a: [linalg.matrix_power(a, n) for n in (3, 2, 1, 0, -1, -2)]),
    ("matrix_exp", linalg.matrix_exp),
    ("cond", lambda a: linalg.cond(a, "fro")),
    ("ldl_factor", linalg.ldl_factor),
    ("solve", lambda a: linalg.solve(a, a)),
    ("solve left", lambda a: linalg.solve(a, a, left=False)),
    ("solve_ex", lambda a: linalg.solve_ex(a, a)),
    ("triangular", lambda a: linalg.solve_triangular(a, a, upper=True)),
    ("triangular right", lambda a: linalg.solve_triangular(a, a, upper=True, left=False)),
    ("cholesky_solve", lambda a: torch.cholesky_solve(a, a)),
    ("lu_solve", lambda a: linalg.lu_solve(*linalg.lu_factor(a), a)),
]
ANY: list[tuple[str, Callable[..., Any]]] = [
    ("svd", linalg.svd),
    ("svd reduced", lambda a: linalg.svd(a, full_matrices=False)),
    ("svdvals", linalg.svdvals),
    ("old svd", torch.svd),
    ("old svd full", lambda a: torch.svd(a, some=False)),
    ("old svd values", lambda a: torch.svd(a, compute_uv=False)),
    ("qr", linalg.qr),
    ("qr complete", lambda a: linalg.qr(a, mode="complete")),
    ("qr r", lambda a: linalg.qr(a, mode="r")),
    ("geqrf", torch.geqrf),
    ("lu", linalg.lu),
    ("lu_factor", linalg.lu_factor),
    ("lu_factor_ex", linalg.lu_factor_ex),
    ("matrix_rank", linalg.matrix_rank),
    ("pinv", linalg.pinv),
    ("pinverse", lambda a: a.pinverse()),
    ("cond", linalg.cond),
    ("lstsq", lambda a: linalg.lstsq(a, a)),
]


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return positive(tensor).mT.contiguous().mT


@pytest.mark.parametrize("spec", ["n n", "b n n"])
@pytest.mark.parametrize(("name", "function"), SQUARE)
def test_square(name: str, function: Callable[..., Any], spec: str) -> None:
    first = FIRST if "b" in spec else {"n": 4}
    assert dynamic(check(function, spec, first=first, prepare=positive))
    if name != "matrix_exp":
        assert dynamic(check(function, spec, first=first, prepare=transposed, dtype=torch.float64))


@pytest.mark.parametrize("spec", ["m n", "b m n", "b n m"])
@pytest.mark.parametrize(("name", "function"), ANY)
def test_any(name: str, function: Callable[..., Any], spec: str) -> None:
    first = TALL if "b" in spec else {"m": 5, "n": 4}
    assert dynamic(check(function, spec, first=first))
    assert dynamic(check(function, spec, first=first, dtype=torch.complex128))


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
@pytest.mark.filterwarnings("ignore:torch.lu_solve is deprecated")
def test_old_names() -> None:
    assert dynamic(
        check(lambda a: torch.triangular_solve(a, a), "b n n", first=FIRST, prepare=positive)
    )
    assert dynamic(check(lambda a: torch.lu(a), "b n n", first=FIRST, prepare=positive))
    function = lambda a: torch.lu_solve(a, *linalg.lu_factor(a))  # noqa: E731
    assert dynamic(check(function, "b n n", first=FIRST, prepare=positive))


def test_right_sides() -> None:
    first = {"a": 2, "b": 3, "n": 4, "k": 5}
    assert dynamic(check(linalg.solve, "b n n", "n", first=FIRST, prepare=positive))
    assert dynamic(check(linalg.solve, "b n n", "b n k", first={**FIRST, "k": 5}, prepare=positive))
    assert dynamic(check(linalg.solve, "n n", "a b n k", first=first, prepare=positive))
    assert dynamic(check(linalg.solve, "b n n", "b n", first=FIRST, prepare=positive))
    outcome = check(linalg.solve, "b n n", "n k", first={"b": 3, "n": 4, "k": 5}, prepare=positive)
    assert {"b": 4, "n": 8, "k": 10} not in outcome.guarded or outcome.needs
    assert dynamic(check(linalg.lstsq, "b m n", "b m k", first={**TALL, "k": 2}))
    assert dynamic(check(linalg.lstsq, "b m n", "b m", first=TALL))


def test_householder() -> None:
    outcome = check(linalg.householder_product, "b m n", "b k", first={**TALL, "k": 3})
    assert {str(need.fact) for need in outcome.needs} == {"n <= m", "k <= n"}
    check(torch.orgqr, "5 n", "2", first={"n": 4}, then=[{"n": 2}, {"n": 5}])


def test_cross() -> None:
    assert dynamic(check(linalg.cross, "b 3", "b 3", first={"b": 4}))
    assert dynamic(check(linalg.cross, "b 3 n", "1 3 n", dim=1, first={"b": 4, "n": 5}))
    assert dynamic(check(torch.cross, "b 3", "b 3", dim=1, first={"b": 4}))


@pytest.mark.filterwarnings("ignore:Using torch.cross without specifying the dim")
def test_cross_finds_the_dimension() -> None:
    outcome = check(torch.cross, "b n", "b n", first={"b": 4, "n": 3})
    assert [str(need.fact) for need in outcome.needs] == ["b != 3", "n == 3"]


def test_powers() -> None:
    then = [{"b": 2, "n": 7}, {"b": 0, "n": 2}]
    assert dynamic(check(linalg.vander, "b n", first={"b": 3, "n": 4}, then=then))
    assert dynamic(
        check(
            lambda x, k: linalg.vander(x, N=k),
            "b n",
            Sym("k"),
            first={"b": 3, "n": 4, "k": 3},
            then=[],
        )
    )
    assert dynamic(check(torch.vander, "n", first={"n": 4}))
    assert dynamic(check(torch.vander, "n", 3, True, first={"n": 4}, dtype=torch.int32))


def test_tensors_as_matrices() -> None:
    check(linalg.tensorinv, "4 6 8 3", first={})
    check(linalg.tensorinv, "6 2 3", ind=1, first={})
    check(linalg.tensorsolve, "2 3 6", "2 3", first={})
    check(linalg.tensorsolve, "6 2 3", "2 3", dims=(0,), first={})


@pytest.mark.parametrize(
    ("function", "specs", "dtype"),
    [
        (linalg.inv, ("3 4",), torch.float32),
        (linalg.inv, ("3",), torch.float32),
        (linalg.inv, ("3 3",), torch.int64),
        (linalg.inv, ("3 3",), torch.float16),
        (linalg.svd, ("3",), torch.float32),
        (linalg.solve, ("3 3", "4 2"), torch.float32),
        (linalg.solve, ("2 3 3", "3 3 2"), torch.float32),
        (linalg.matrix_power, ("3 4", 2), torch.float32),
        (linalg.householder_product, ("3 4", "3"), torch.float32),
        (linalg.cross, ("3 4", "3 4"), torch.float32),
        (linalg.cross, ("4 3", "3"), torch.float32),
        (linalg.vander, ("1",), torch.float32),
        (linalg.tensorinv, ("2 3 4",), torch.float32),
    ],
)
def test_rejected(function: Callable[..., Any], specs: Any, dtype: torch.dtype) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, dtype=dtype)
