"""Numbers and tensors of other dtypes beside 16-bit floats: torch rounds them to two bytes
first, except a number that it multiplies or divides by. To the bit as eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from tests import devices

Tensor = torch.Tensor

#: `x`: two bytes; `o`: a number, a single number as a tensor, or many integers
OPERATORS: dict[str, Callable[[Tensor, Any], Any]] = {
    "add": lambda x, o: (x + o, o + x),
    "sub": lambda x, o: (x - o, o - x),
    "mul": lambda x, o: (x * o, o * x),
    "div": lambda x, o: (x / o, o / x),
    "remainder": lambda x, o: (x % o, torch.fmod(x, o)),
    "compared": lambda x, o: (x == o, x >= o, x < o, o > x),
    "chosen": lambda x, o: torch.where(x > 0, x, o),
    "written": lambda x, o: x.clone().mul_(o).add_(o),
    "cubed": lambda x, o: (x**3, x**-2, x**o if isinstance(o, int) else x),
}
NUMBERS = (0.7, 0.3, 257, -1.3)
TENSORS = (
    torch.tensor(0.7),
    torch.tensor(0.3, dtype=torch.float64),
    torch.tensor(257),
    torch.arange(40) * 37 - 400,
    (torch.arange(40) * 7).to(torch.uint8),
)


def values(dtype: torch.dtype) -> Tensor:
    """Numbers at random, and those that the others are rounded to."""
    maker = devices.generator(0)
    edges = torch.tensor([0.7, 0.3, 257.0, -1.3, 1000.3])
    return torch.cat([torch.randn(35, generator=maker) * 3, edges]).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPERATORS)
def test_other_operands_are_rounded_as_in_eager(name: str, dtype: torch.dtype) -> None:
    operator = OPERATORS[name]

    def with_numbers(x: Tensor) -> list[Any]:
        return [operator(x, number) for number in NUMBERS]

    def with_tensors(x: Tensor, others: tuple[Tensor, ...]) -> list[Any]:
        return [operator(x, other) for other in others]

    x = values(dtype)
    calls: list[tuple[Any, tuple[Any, ...]]] = [(with_numbers, (x,)), (with_tensors, (x, TENSORS))]
    for function, arguments in calls:
        compiled = anyshape.compile(function, dynamic=True)
        with torch.no_grad():
            compiled(*arguments)
            _same(function(*arguments), compiled(*arguments))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.013),
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.1, 0.3),
    "hardshrink": lambda x: torch.nn.functional.hardshrink(x, 0.7),
    "softshrink": lambda x: torch.nn.functional.softshrink(x, 0.7),
    "elu": lambda x: torch.nn.functional.elu(x, 0.3),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "mse_loss": lambda x: torch.nn.functional.mse_loss(x, x * 0.9, reduction="none"),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_activations(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [each(x) for each in ACTIVATIONS.values()]

    x = values(dtype)
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        compiled(x)
        for name, wanted, found in zip(ACTIVATIONS, function(x), compiled(x), strict=True):
            assert torch.equal(wanted, found), name


def test_the_inverse_of_little_is_infinite() -> None:
    def function(x: Tensor) -> Tensor:
        return 0.25 / x

    compiled = anyshape.compile(function, dynamic=True)
    x = torch.tensor([1e-39, -1e-39, 0.0, 3.0, 1e38])
    with torch.no_grad():
        compiled(x)
        assert torch.equal(compiled(x), function(x))


def _same(wanted: Any, found: Any) -> None:
    if not isinstance(wanted, torch.Tensor):
        for one, other in zip(wanted, found, strict=True):
            _same(one, other)
        return
    assert wanted.dtype is found.dtype
    equal = (wanted == found) | ((wanted != wanted) & (found != found))
    assert equal.all(), (wanted[~equal], found[~equal])
