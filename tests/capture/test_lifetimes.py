"""What a compiling call was given, made and returned dies with its last name: no cycle holds it
until the next garbage collection."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    anyshape.reset()
    gc.collect()
    gc.disable()
    try:
        with anyshape.config.patch(profile=False):
            yield
    finally:
        gc.enable()


#: intermediate results of the programs below
MADE: list[weakref.ref[Tensor]] = []


def noted(x: Tensor) -> Tensor:
    MADE.append(weakref.ref(x))
    return x


def plain(x: Tensor) -> Tensor:
    y = x + 1
    return y.relu() * 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


def branching(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def leaving(x: Tensor) -> Tensor:
    y = x * 2
    time.sleep(0)
    return noted(y) + 1


def raising(x: Tensor) -> Tensor:
    if x.shape[0] == 5:
        raise ValueError(x.shape[0])
    return x + 1


def in_place(x: Tensor) -> Tensor:
    x.add_(1)
    return x[1:]


def ones(n: int) -> Tensor:
    return torch.ones(abs(n), 4) * (1 if n > 0 else -1)


#: program, and the sizes of its calls: a negative one is of negative numbers
PROGRAMS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "compile, recompile, hit": (lambda: plain, (3, 4, 5)),
    "a module": (Net, (3, 4, 5)),
    "a tree that grows": (lambda: branching, (3, -3, 4, -4)),
    "leaving": (lambda: leaving, (3, 4, 5, 6)),
    "raising": (lambda: raising, (3, 5, 4, 5)),
    "in place": (lambda: in_place, (3, 4, 5)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_outlives_the_call(name: str):
    make, sizes = PROGRAMS[name]
    compiled = anyshape.compile(make())
    MADE.clear()
    alive: list[str] = []
    for size in sizes:
        given, returned = _called(compiled, size)
        alive += [f"the input of {size}"] * (given() is not None)
        alive += [f"the result of {size}"] * (returned() is not None)
    alive += ["an intermediate result" for each in MADE if each() is not None]
    assert not alive


def _called(compiled: Any, size: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    x = ones(size)
    given = weakref.ref(x)
    try:
        return given, weakref.ref(compiled(x))
    except ValueError:
        return given, lambda: None
