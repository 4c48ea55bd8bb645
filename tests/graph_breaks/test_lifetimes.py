"""Objects that a program drops are gone where Python has them gone, in split functions too."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


class Plain:
    """An object that can be referred to weakly."""


def _finalizer() -> Callable[[Tensor], Any]:
    finished: list[int] = []

    def function(x: Tensor) -> Tensor:
        y = x + 1
        time.time()
        t = Plain()
        weakref.finalize(t, finished.append, 1)
        del t
        return y * len(finished) + 1

    return function


def _own_del() -> Callable[[Tensor], Any]:
    dropped: list[int] = []

    class Dropped:
        def __del__(self) -> None:
            dropped.append(1)

    def function(x: Tensor) -> Tensor:
        y = x + 1
        t = Dropped()
        del t
        return y * len(dropped) + 1

    return function


def _own_del_beside_a_boundary() -> Callable[[Tensor], Any]:
    dropped: list[int] = []

    class Dropped:
        def __init__(self, number: int) -> None:
            self.number = number

        def __del__(self) -> None:
            dropped.append(self.number)

    def function(x: Tensor) -> Any:
        y = x + 1
        time.time()
        t: Any = Dropped(len(x))
        t = None
        del t
        Dropped(7)
        return y * len(dropped) + 1, list(dropped)

    return function


def _reference() -> Callable[[Tensor], Any]:
    def function(x: Tensor) -> Tensor:
        t = Plain()
        reference = weakref.ref(t)
        y = x * 2 + (1 if reference() is t else 5)
        del t
        return y + (10 if reference() is None else 20)

    return function


def _weak_values() -> Callable[[Tensor], Any]:
    held: weakref.WeakValueDictionary[str, Plain] = weakref.WeakValueDictionary()

    def function(x: Tensor) -> Tensor:
        t: Plain | None = Plain()
        held["a"] = t
        y = x * 2 + len(held)
        time.time()
        t = None
        return y * 3 + len(held)

    return function


def _in_loops_and_branches() -> Callable[[Tensor], Any]:
    def alive(references: list[Any]) -> list[bool]:
        return [each() is not None for each in references]

    def function(x: Tensor) -> Any:
        references: list[Any] = []
        seen: list[list[bool]] = []
        for number in range(3):
            t = Plain()
            references.append(weakref.ref(t if number % 2 else Plain()))
            seen.append(alive(references))
            x = x * 2 + time.time() * 0
        t = None
        seen.append(alive(references))
        return x + 1, seen

    return function


@pytest.mark.parametrize(
    "make",
    [
        *(_finalizer, _own_del, _own_del_beside_a_boundary, _reference, _weak_values),
        _in_loops_and_branches,
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_as_python_drops_them(make: Callable[[], Any], dynamic: bool | None) -> None:
    eager, compiled = make(), anyshape.compile(make(), dynamic=dynamic, backend="eager")
    for size in (1, 1, 1, 2, 1, 2, 3):
        expected, found = eager(torch.ones(size)), compiled(torch.ones(size))
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("splits", [True, False])
def test_tensors_of_a_call_die_with_it(splits: bool) -> None:
    references: list[Any] = []

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        references.append(weakref.ref(y))
        if splits:
            time.time()
        return (y.sum() + torch.stack([y, y.abs()]).mean()).relu() + 1

    compiled = anyshape.compile(function)
    for size in (3, 3, 3, 4, 5, 6):
        compiled(torch.ones(size))
        assert references[-1]() is None
