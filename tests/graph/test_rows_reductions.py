from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.native.checks import check, floats

SHAPES = ((4, 7), (33, 50), (3, 1), (1, 5))
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)

OF_ALL_DTYPES: dict[str, Callable[..., Any]] = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(-1),
    "sum of columns": lambda x: x.sum(0, keepdim=True),
    "sum in f64": lambda x: x.sum(1, dtype=torch.float64),
    "any": lambda x: x.any(1),
    "all": lambda x: x.all(),
    "count_nonzero": lambda x: torch.count_nonzero(x, 0),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin((0, 1)),
    "aminmax": lambda x: torch.aminmax(x),
    "max of all": lambda x: x.max(),
    "trace": lambda x: x.trace(),
    "nansum": lambda x: x.nansum(1),
}

OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(0, keepdim=True),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(),
}

OF_FLOATS: dict[str, Callable[..., Any]] = {
    "mean": lambda x: x.mean(),
    "mean of rows": lambda x: x.mean(-1, keepdim=True),
    "nanmean": lambda x: x.nanmean(0),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(0, correction=0),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "logsumexp": lambda x: x.logsumexp(1),
    "vector_norm": lambda x: torch.linalg.vector_norm(x),
    "norm of rows": lambda x: x.norm(dim=1),
    "norm of 1": lambda x: x.norm(1, dim=0),
    "norm of infinity": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1),
    "linalg.norm": lambda x: torch.linalg.norm(x, dim=-1, keepdim=True),
}


def calls(dtype: torch.dtype) -> list[list[torch.Tensor]]:
    return [[x.to(dtype)] for x in floats(*SHAPES)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OF_ALL_DTYPES)
def test_of_all_dtypes(name: str, dtype: torch.dtype) -> None:
    if name == "trace" and dtype in (torch.bool, torch.bfloat16):
        return
    check(OF_ALL_DTYPES[name], calls(dtype))


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_of_numbers(name: str, dtype: torch.dtype) -> None:
    check(OF_NUMBERS[name], calls(dtype))


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("name", OF_FLOATS)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_of_floats(name: str, dtype: torch.dtype) -> None:
    check(OF_FLOATS[name], calls(dtype))


def test_of_a_single_number() -> None:
    check(lambda x: (x.sum(), x.sum(0), x.mean(), x * 2), [[torch.tensor(3.0)]])


def test_of_nothing() -> None:
    check(
        lambda x: (x.sum(1), x.prod(0), x.mean(1), x.any(), x.logsumexp(1)), [[torch.zeros(3, 0)]]
    )


def test_of_nothing_there_is_no_largest() -> None:
    import anyshape

    compiled = anyshape.compile(lambda x: x.amax(1), dynamic=True)
    with torch.no_grad():
        compiled(torch.ones(3, 4))
        compiled(torch.ones(3, 4))
        with pytest.raises(IndexError):
            compiled(torch.ones(3, 0))


@pytest.mark.parametrize("name", ["max", "argmax", "norm of 1"])
def test_not_a_number(name: str) -> None:
    x = floats((3, 40))[0]
    x[1, 7] = float("nan")
    check({**OF_NUMBERS, **OF_FLOATS}[name], [[x], [-x]])


PAIRS: dict[str, Callable[..., Any]] = {
    "cosine_similarity": torch.cosine_similarity,
    "pairwise_distance": torch.pairwise_distance,
    "dist": torch.dist,
}


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_of_two(name: str, dtype: torch.dtype) -> None:
    check(PAIRS[name], [floats(shape, shape, dtype=dtype) for shape in SHAPES])
