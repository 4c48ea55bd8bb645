"""Objects, classes and modules whose attributes are made by code of the program: what asks is the
program, and nobody else. That code may have effects, and raise what it likes."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

ASKED: list[str] = []


class Strict:
    """Raises no `AttributeError`, as a dictionary with attributes does."""

    def __getattr__(self, name: str) -> Any:
        if name != "__signature__":  # Python's own `inspect` asks for it
            ASKED.append(name)
        raise KeyError(name)

    def __call__(self, x: Tensor) -> Tensor:
        return x * 2

    def method(self, x: Tensor) -> Tensor:
        return x * 3

    def __iter__(self) -> Any:
        return iter([1, 2])

    def __len__(self) -> int:
        return 2


class _Kind(type):
    def __getattr__(cls, name: str) -> Any:
        ASKED.append(name)
        raise KeyError(name)


class OfKind(metaclass=_Kind):
    scale = 3.0


def _strict_module() -> Any:
    made = types.ModuleType("strict")

    def ask(name: str) -> Any:
        ASKED.append(name)
        raise KeyError(name)

    vars(made).update(scale=2.0, __getattr__=ask)
    return made


THING = Strict()
MODULE = _strict_module()

USES: dict[str, Callable[[Tensor], Any]] = {
    "a call": lambda x: THING(x),
    "a method": lambda x: THING.method(x),
    "iteration": lambda x: x * sum(THING),
    "a length": lambda x: x * len(THING),
    "a container": lambda x: (x * 2, [THING], {1: MODULE}),
    "identity": lambda x: x + (THING is MODULE),
    "a class of a thing": lambda x: x + isinstance(THING, Strict),
    "a module": lambda x: x * MODULE.scale,
    "a module asked by name": lambda x: x * getattr(MODULE, "scale", 1.0),
    "a module that is given back": lambda x: (x + 1, MODULE),
    "a module's kind": lambda x: x + isinstance(MODULE, types.ModuleType),
    "a class": lambda x: x * OfKind.scale,
    "a class that is given back": lambda x: (x + 1, OfKind),
}


@pytest.mark.parametrize("name", USES)
def test_only_the_program_asks(name: str) -> None:
    compiled = anyshape.compile(USES[name], dynamic=True)
    ASKED.clear()
    for rows in (3, 4, 3):
        found, expected = compiled(torch.ones(rows)), USES[name](torch.ones(rows))
        if isinstance(expected, tuple):
            assert found[1:] == expected[1:]
            found, expected = found[0], expected[0]
        assert torch.equal(found, expected)
    str(compiled.explain(verbose=True))
    assert ASKED == []


def test_what_is_compiled_is_not_asked() -> None:
    ASKED.clear()
    compiled = anyshape.compile(THING)
    assert compiled(torch.ones(3)).tolist() == [2.0] * 3
    assert set(ASKED) <= {"__wrapped__"}  # by `inspect`, which follows decorators


def test_wrapped_functions_keep_their_names() -> None:
    """Of a method, a class and a function: what is told of them is what Python tells."""
    for original in (THING.method, USES["a call"], torch.nn.functional.relu):
        compiled: Any = anyshape.compile(original)
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            assert getattr(compiled, name) == getattr(original, name)
        assert compiled.__wrapped__ is original
