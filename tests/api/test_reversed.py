"""`reversed` of whatever Python can go through backwards."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import anyshape


class Positions:
    """A length and positions are enough."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> float:
        return (2.0, 3.0, 4.0)[index]


class Own:
    def __reversed__(self) -> Iterator[float]:
        yield 5.0
        yield 6.0


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)]


NUMBERS = {"a": 2.0, "b": 3.0}
OUTSIDE: dict[str, Any] = {
    "list": [2.0, 3.0],
    "tuple": (2.0, 3.0),
    "deque": deque([2.0, 3.0]),
    "positions": Positions(),
    "own": Own(),
    "values": NUMBERS.values(),
    "values in order": OrderedDict(NUMBERS).values(),
    "modules": nn.ModuleList(layers()),
    "sequence of modules": nn.Sequential(*layers()),
    "parameters": nn.ParameterList([torch.ones(4), torch.full((4,), 2.0)]),
    "modules by name": nn.ModuleDict({str(i): each for i, each in enumerate(layers())}).values(),
}
MADE: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: [x, x + 1],
    "values": lambda x: {"a": x, "b": x + 1}.values(),
    "values in order": lambda x: OrderedDict(a=x, b=x + 1).values(),
    "parts": lambda x: x.split(1),
}


def along(x: torch.Tensor, each: Any) -> torch.Tensor:
    return each(x) if isinstance(each, nn.Module) else x * each + 1


def check(f: Callable[[torch.Tensor], Any]) -> None:
    compiled = anyshape.compile(f, dynamic=True)
    for size in (3, 3, 5, 1):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), f(x))


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_the_program_is_given(name: str) -> None:
    container = OUTSIDE[name]

    def f(x: torch.Tensor) -> torch.Tensor:
        for each in reversed(container):
            x = along(x, each)
        return x

    check(f)


@pytest.mark.parametrize("name", MADE)
def test_what_the_program_makes(name: str) -> None:
    make = MADE[name]

    def f(x: torch.Tensor) -> Any:
        y = x
        for each in reversed(make(x)):
            y = y * 2 + each.sum()
        return y

    check(f)


def test_names_and_pairs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for name in reversed(NUMBERS):
            x = x * NUMBERS[name]
        for name in reversed(NUMBERS.keys()):
            x = x + NUMBERS[name]
        for name, number in reversed(NUMBERS.items()):
            x = x * number if name == "a" else x + number
        return x

    check(f)
    NUMBERS["c"] = 4.0
    try:
        check(f)
    finally:
        del NUMBERS["c"]
