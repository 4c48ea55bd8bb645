"""A compiled function that nobody has any more is gone, with all that its program kept: nothing
that is remembered for later captures holds on to it."""

from __future__ import annotations

import functools
import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


def _closure(table: Tensor) -> Callable[..., Any]:
    return lambda x: (x * table).sum(0)


def _calls_another(table: Tensor) -> Callable[..., Any]:
    def inner(x: Tensor) -> Tensor:
        return x * table

    return lambda x: inner(x).sum(0)


def _in_parts(table: Tensor) -> Callable[..., Any]:
    def inner(x: Tensor) -> Tensor:
        time.time()
        return x * table

    return lambda x: inner(x).sum(0)


def _partial(table: Tensor) -> Callable[..., Any]:
    return functools.partial(lambda own, x: x * own, table)


def _callable_object(table: Tensor) -> Callable[..., Any]:
    class Scaled:
        def __call__(self, x: Tensor) -> Tensor:
            return x * table

    scaled = Scaled()
    return lambda x: scaled(x) + 1


def _class(table: Tensor) -> Callable[..., Any]:
    class Pair(tuple):
        own = table

    return lambda x: Pair((x * Pair.own, x))[0]


def _slots(table: Tensor) -> Callable[..., Any]:
    class Held:
        __slots__ = ("value",)
        own = table

    def function(x: Tensor) -> Tensor:
        held = Held()
        held.value = x * Held.own
        return held.value

    return function


def _autograd_function(table: Tensor) -> Callable[..., Any]:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * table

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0] * table

    return lambda x: Scaled.apply(x) + 1


def _decorated(table: Tensor) -> Callable[..., Any]:
    def scaled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(function)
        def wrapper(*args: Tensor) -> Tensor:
            return function(*args) * table

        return wrapper

    return scaled(lambda x: x + 1)


def _cached(table: Tensor) -> Callable[..., Any]:
    @functools.lru_cache
    def width(more: int) -> int:
        return more + table.shape[0]

    return lambda x: x * width(2)


def _mapped(table: Tensor) -> Callable[..., Any]:
    return lambda x: sum(map(lambda each: (each * table).sum(), (x, x)))  # noqa: C417 the point


def _key(table: Tensor) -> Callable[..., Any]:
    return lambda x: x * sorted((3, 1), key=lambda each: each + table.shape[0])[0]


PROGRAMS = (
    *(_closure, _calls_another, _in_parts, _partial, _callable_object, _class, _slots),
    *(_autograd_function, _decorated, _cached, _mapped, _key),
)


@pytest.mark.parametrize("has_grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__[1:])
def test_programs_are_gone(make: Callable[[Tensor], Any], has_grad: bool) -> None:
    alive: list[weakref.ref[Tensor]] = []
    for _ in range(4):
        table = torch.arange(4.0)
        alive.append(weakref.ref(table))
        compiled = anyshape.compile(make(table))
        for size in (3, 5):
            result = compiled(torch.ones(size, 4, requires_grad=has_grad))
            if has_grad:
                result.sum().backward()
        del compiled, result, table
    gc.collect()
    # Torch, or what stands for the last call, may still have one.
    assert sum(each() is not None for each in alive) <= 1
