"""Numbers of numpy in torch's operators: torch takes them for numbers of Python, and those of its
functions that are written in Python look at their type."""

# pyright: basic
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import anyshape

NUMBERS = (
    *(np.float16(2.5), np.float32(0.1), np.float64(0.1), np.float32("nan"), np.float32(-0.0)),
    *(
        np.int8(-3),
        np.uint8(2),
        np.int64(1),
        np.bool_(True),
        np.complex64(1 + 2j),
        np.uint64(2**63),
    ),
    *(np.longdouble(0.1), np.float16(65504), np.float32(1e-45)),
)
NAMES = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "eq", "and_", "lshift"),
    *("iadd", "imul", "itruediv"),
)
#: Functions that take a number as a size, a position or a value.
TAKES: dict[str, Callable[[Tensor, Any], Any]] = {
    "split": lambda x, n: x.split(n),
    "torch.split": torch.split,
    "sections": lambda x, n: x.split([n, 5]),
    "chunk": lambda x, n: x.chunk(n),
    "hsplit": lambda x, n: x.hsplit(n),
    "tensor_split": lambda x, n: x.tensor_split(n),
    "sum": lambda x, n: x.sum(n),
    "view": lambda x, n: x.view(n, -1),
    "item": lambda x, n: x[n],
    "slice": lambda x, n: x[n:],
    "zeros": lambda x, n: torch.zeros(n, 2),
    "full": lambda x, n: torch.full((2,), n),
    "tensor": lambda x, n: torch.tensor([n, 1]),
    "arange": lambda x, n: torch.arange(n),
    "where": lambda x, n: torch.where(x > 1, x, n),
    "clamp": lambda x, n: x.clamp(max=n),
    "tensordot": lambda x, n: torch.tensordot(x, x, n),
    "norm": lambda x, n: torch.norm(x, n),
    "unflatten": lambda x, n: x.unflatten(0, (n, -1)),
    "pad": lambda x, n: F.pad(x, (n, 1)),
    "one_hot": lambda x, n: F.one_hot(x.long(), n),
    "max_pool1d": lambda x, n: F.max_pool1d(x[None], n),
    "interpolate": lambda x, n: F.interpolate(x[None, None], scale_factor=n),
}


def _outcome(function: Callable[..., Any], x: Tensor, number: Any) -> Any:
    try:
        result = function(x, number)
    except (TypeError, RuntimeError, IndexError, ValueError, NotImplementedError) as error:
        return type(error), str(error)
    return repr(result), type(result), getattr(result, "dtype", None), repr(x)


@pytest.mark.filterwarnings("ignore")  # of numpy's own operators, in eager
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__} {n}")
def test_operators(number: Any, name: str, is_reversed: bool) -> None:
    do = getattr(operator, name)

    def program(x: Tensor, n: Any) -> Any:
        return do(n, x) if is_reversed else do(x, n)

    compiled = anyshape.compile(program, backend="eager", dynamic=True)
    for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool):
        for x in (torch.tensor([1, 2, 3]).to(dtype), torch.tensor(3).to(dtype)):
            expected = _outcome(program, x.clone(), number)
            assert _outcome(compiled, x.clone(), number) == expected, (dtype, x)


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.float64, np.bool_])
def test_functions(kind: Any, name: str) -> None:
    program = TAKES[name]
    compiled = anyshape.compile(program, backend="eager")
    for value in (1, 1, 2, 3):
        x = torch.arange(6.0)
        assert _outcome(compiled, x, kind(value)) == _outcome(program, x, kind(value))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.int64])
def test_numbers_of_both_kinds_are_compiled(kind: Any) -> None:
    compiled = anyshape.compile(lambda x, n: x * n)
    for number in (kind(2), kind(2), 2.0, 2.0, kind(2)):
        compiled(torch.ones(3), number)
    stats = compiled.stats()
    assert (stats.graphs, stats.hits, stats.eager_calls) == (2, 3, 0)
