"""Factories with symbolic sizes, and their `*_like` and `new_*` forms."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.families.factories import _triangle
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import first_inside

N, M = Sym("n"), Sym("m")
NM = {"n": 4, "m": 3}

FUNCTIONS = [
    lambda n, m: torch.zeros(n, m),
    lambda n, m: torch.ones((n, 2, m)),
    lambda n, m: torch.empty([n], dtype=torch.int32),
    lambda n, m: torch.zeros(size=(n, m), dtype=torch.complex64, requires_grad=True),
    lambda n, m: torch.zeros(()),
    lambda n, m: torch.empty(n, 3, m, 5, memory_format=torch.channels_last),
    lambda n, m: torch.full((n, m), 2),
    lambda n, m: torch.full((n,), 2.5, device="cpu"),
    lambda n, m: torch.full((n,), True),
    lambda n, m: torch.full((n,), 1j),
    lambda n, m: torch.full((n,), m),
    lambda n, m: torch.full((n,), 2, dtype=torch.float16),
    lambda n, m: torch.full((n,), torch.tensor(2.0, dtype=torch.float64)),  # pyright: ignore[reportArgumentType, reportCallIssue] torch takes it
    lambda n, m: torch.scalar_tensor(3),
    lambda n, m: torch.empty_strided((n, m), (1, n)),
    lambda n, m: torch.empty_permuted((n, 2, m), (2, 0, 1)),
    lambda n, m: torch.eye(n),
    lambda n, m: torch.eye(n, m, dtype=torch.int64),
    lambda n, m: torch.hann_window(n),
    lambda n, m: torch.bartlett_window(n, False),
    lambda n, m: torch.blackman_window(n, periodic=False, dtype=torch.float64),
    lambda n, m: torch.hamming_window(n, True, 0.5, 0.4),
    lambda n, m: torch.kaiser_window(n, True, 8.0),
    lambda n, m: torch.tril_indices(n, m),
    lambda n, m: torch.triu_indices(n, m, 1, dtype=torch.int32),
    lambda n, m: torch.tril_indices(n, m, -2),
    lambda n, m: torch.triu_indices(n, m, offset=-1),
    lambda n, m: torch.tril_indices(n, m, m),
    lambda n, m: torch.vander(torch.zeros(n)),
    lambda n, m: torch.vander(torch.zeros(n, dtype=torch.int8), m),
    lambda n, m: torch.tensor([[1, 2], [3, 4.0]]),
    lambda n, m: torch.tensor([n, m]),
    lambda n, m: torch.tensor([]),
    lambda n, m: torch.tensor(torch.ones(n, m), dtype=torch.int32),
]


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: Any) -> None:
    assert dynamic(check(function, N, M, first=NM))


LIKE = [
    lambda x: torch.zeros_like(x),
    lambda x: torch.ones_like(x, dtype=torch.int64),
    lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    lambda x: torch.full_like(x, 2),
    lambda x: torch.zeros_like(x[:, ::2], requires_grad=True),
    lambda x: torch.rand_like(x),
    lambda x: torch.randn_like(x.requires_grad_(), dtype=torch.float64),
    lambda x: torch.randint_like(x, 5),
    lambda x: torch.randint_like(x, 2, high=5, dtype=torch.int64),
    lambda x: x.new_zeros(x.shape),
    lambda x: x.new_zeros(2, x.shape[0]),
    lambda x: x.new_ones((2, 3), dtype=torch.bool),
    lambda x: x.new_empty(size=(x.shape[1],)),
    lambda x: x.new_full((2,), 3),
    lambda x: x.new_empty_strided((2, 3), (1, 2)),
    lambda x: x.new_tensor([1, 2]),
]


@pytest.mark.parametrize("function", LIKE)
@pytest.mark.parametrize("prepare", [None, first_inside])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_like(function: Any, prepare: Any, dtype: torch.dtype) -> None:
    first = {"a": 3, "b": 4, "c": 5}
    # The driver reads sizes as plain numbers, which only holds for the sizes of that run.
    then = None if "shape" not in function.__code__.co_names else []
    assert dynamic(check(function, "a b c", first=first, then=then, dtype=dtype, prepare=prepare))


def test_triangles_exhaustively() -> None:
    for rows, columns, offset in itertools.product(range(5), range(5), range(-6, 7)):
        assert (
            _triangle(rows, columns, offset) == torch.tril_indices(rows, columns, offset).shape[1]
        )


def test_grad_of_powers() -> None:
    """The first column of a Vandermonde matrix is all ones and has no grad."""
    outcome = check(
        lambda x, n: torch.vander(x.requires_grad_(), n), "a", N, first={"a": 3, "n": 4}
    )
    assert [str(need.fact) for need in outcome.needs] == ["n >= 2"]


@pytest.mark.parametrize(
    "function",
    [
        lambda n, m: torch.zeros(n, -1),
        lambda n, m: torch.eye(-2, n),
        lambda n, m: torch.empty_strided((n, m), (1,)),
        lambda n, m: torch.empty_strided((n, m), (1, -1)),
        lambda n, m: torch.empty_permuted((n, m), (0,)),
        lambda n, m: torch.hann_window(-1),
        lambda n, m: torch.hann_window(n, dtype=torch.int64),
        lambda n, m: torch.tril_indices(-1, n),
        lambda n, m: torch.vander(torch.zeros(n, m)),
        lambda n, m: torch.empty(n, m, memory_format=torch.channels_last),
        lambda n, m: torch.zeros(n, 2.5),  # pyright: ignore[reportArgumentType] torch rejects it, too
    ],
)
def test_rejected(function: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, N, M, first=NM)
