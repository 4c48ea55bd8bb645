"""A method that is compiled by itself, called by code that is compiled too: as if it were not."""

from __future__ import annotations

from typing import Any

import torch

import anyshape


class Scale:
    by = 2

    @anyshape.compile(dynamic=True)
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x) + 1


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    @anyshape.compile
    def part(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x) + 1


def test_of_a_module():
    model = Model()
    compiled: Any = anyshape.compile(model)
    for size in (2, 3, 4):
        x = torch.rand(size, 4)
        torch.testing.assert_close(compiled(x), model.linear(x).relu() + 1)
    assert (compiled.stats().graphs, compiled.stats().eager_calls) == (2, 0)


def test_another_in_its_place_is_seen(monkeypatch):
    scale, x = Scale(), torch.ones(2)
    compiled = anyshape.compile(lambda x: scale.shifted(x), dynamic=True)
    assert compiled(x).tolist() == [3, 3]
    assert (compiled.stats().graphs, compiled.stats().eager_calls) == (1, 0)
    monkeypatch.setattr(Scale, "scaled", lambda self, x: x * 7)
    assert compiled(x).tolist() == [8, 8]
    monkeypatch.setattr(Scale, "scaled", anyshape.compile(lambda self, x: x * self.by * 4))
    assert compiled(x).tolist() == [9, 9]
    monkeypatch.setattr(Scale, "by", 3)
    assert compiled(x).tolist() == [13, 13]


def test_of_an_instance():
    scale = Scale()
    compiled = anyshape.compile(scale.shifted, dynamic=True)
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    scale.by = 5
    assert compiled(torch.ones(2)).tolist() == [6, 6]
