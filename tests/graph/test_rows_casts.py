from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.native.checks import check, floats

SHAPES = ((4, 6), (6, 17), (2, 1), (2, 0))
DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16),
    *(torch.int32, torch.int64, torch.uint8, torch.bool),
)


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_every_dtype_to_every_other(of: torch.dtype, to: torch.dtype) -> None:
    if of is to:
        return
    calls = [[x.abs().to(of)] for x in floats(*SHAPES)]
    check(lambda x: x.to(to), calls)


COPIES: dict[str, Callable[..., Any]] = {
    "float": lambda x: x.double().float() + 1,
    "clone": lambda x: x.clone(),
    "clone of a view": lambda x: x.t().clone(),
    "clone in another format": lambda x: x.t().clone(memory_format=torch.contiguous_format),
    "type_as": lambda x: x.type_as(torch.zeros(1, dtype=torch.float64)),
    "contiguous inside": lambda x: x.t().contiguous() * 2,
    "to and back": lambda x: x.to(torch.bfloat16).to(torch.float32),
    "copy_": lambda x: torch.zeros_like(x).copy_(x + 1),
    "copy_ of one row": lambda x: torch.zeros_like(x).copy_(x.sum(0)),
    "fill_": lambda x: (x + 1).fill_(3.5),
    "zero_": lambda x: (x + 1).zero_(),
    "fill": lambda x: torch.fill(x, 2),
}


@pytest.mark.parametrize("name", COPIES)
def test_as_eager(name: str) -> None:
    check(COPIES[name], [[x] for x in floats((4, 6), (6, 17), (3, 2))])


def test_a_copy_is_a_copy() -> None:
    """What is done to either of them the other does not see."""

    def program(x: torch.Tensor) -> Any:
        copy, whole = x.clone(), x.abs()
        x.mul_(2)
        copy.add_(1)
        return x, copy, whole

    check(program, [[x] for x in floats(*SHAPES)])


def test_the_result_is_no_argument() -> None:
    """An operator that changes nothing makes a tensor of its own all the same."""

    def program(x: torch.Tensor) -> Any:
        return x.floor(), x.clone(), x.abs()

    x = torch.arange(6, dtype=torch.uint8)
    import anyshape

    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad():
        for _ in range(3):
            for each in compiled(x):
                assert each.data_ptr() != x.data_ptr()


def test_a_contiguous_tensor_may_be_handed_out() -> None:
    """For some sizes it is the tensor itself, which the caller may ask: torch answers."""

    def program(x: torch.Tensor) -> Any:
        return x.t().contiguous(), x + 1

    check(program, [[x] for x in floats(*SHAPES)], called=["contiguous"])
