"""Several questions about one object are several guards: none is lost for another of its kind."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape.capture.record.inputs import LaidOutBySizes
from anyshape.guards.guard import Kind, guard_key
from anyshape.guards.path import local


def test_names_that_a_module_makes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    table: dict[str, object] = {"scale": 1.0, "shift": 2.0, "power": 1}

    class MadeUp(ModuleType):
        def __getattr__(self, name: str) -> object:
            if name not in table:
                raise AttributeError(name)
            return table[name]

    monkeypatch.setitem(sys.modules, "made_up_by_a_test", MadeUp("made_up_by_a_test"))

    def program(x: Tensor) -> Tensor:
        from made_up_by_a_test import (  # pyright: ignore[reportMissingImports]
            power,
            scale,
            shift,
        )

        return (x * scale + shift) ** power

    compiled = anyshape.compile(program)
    x = torch.arange(3.0)
    changes = (("scale", 3.0), ("shift", 5.0), ("power", 2), ("shift", 6.0), ("scale", 7.0))
    for name, value in (("power", 1), *changes):
        table[name] = value
        for _ in range(2):
            assert torch.equal(compiled(x), program(x))


def test_predicates_are_told_apart_by_what_they_ask() -> None:
    path = local("x")
    keys = {
        guard_key(Kind.PREDICATE, path, each)
        for each in (LaidOutBySizes((0, 1)), LaidOutBySizes((1, 0)), torch.is_tensor, callable)
    }
    assert len(keys) == 4
    assert guard_key(Kind.PREDICATE, path, LaidOutBySizes((0, 1))) in keys
