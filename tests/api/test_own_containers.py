"""Containers that the program makes, of objects with methods of their own: their length, order and
members are looked at without what the objects say of themselves."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape


@dataclasses.dataclass
class Output:
    first: Any = None
    second: Any = None

    def __post_init__(self) -> None:
        fields = dataclasses.fields(self)
        if not len(fields) or not all(field.default is None for field in fields[1:]):
            raise ValueError(fields)
        self.told = getattr(self, fields[0].name)


def _two(x: Tensor, y: Tensor) -> Tensor:
    return x + y


class Walks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return x * len(list(self.named_modules()))


PROGRAMS = {
    "fields of a dataclass": lambda x: Output(x + 1).told,
    "parameters of a function": lambda x: x * len(inspect.signature(_two).parameters),
    "modules that were met": Walks(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_captured_whole(name: str) -> None:
    function = PROGRAMS[name]
    compiled: Any = anyshape.compile(function, fullgraph=True, dynamic=True)
    for size in (2, 3, 4):
        x = torch.randn(size, 3)
        torch.testing.assert_close(compiled(x), function(x))


def test_sizes_that_are_compared_together_stay_dynamic() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        if x.shape == (y.shape[0], 3) and [x.shape[0], 1] != [0, 1] and x.size() == x.size():
            return x * 2
        return x

    compiled = anyshape.compile(function, dynamic=True, fullgraph=True)
    for size in (2, 3, 4, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(compiled(x, x + 1), x * 2)
    assert compiled.stats().graphs == 1
