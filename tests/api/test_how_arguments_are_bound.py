"""Default values, and what else decides how a call is bound, may change between calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


def _function() -> tuple[Any, Callable[[], None]]:
    def scaled(x: Tensor, n: int = 2) -> Tensor:
        return x * n

    return scaled, lambda: setattr(scaled, "__defaults__", (5,))


def _code() -> tuple[Any, Callable[[], None]]:
    def scaled(x: Tensor, n: int = 2) -> Tensor:
        return x * n

    def other(x: Tensor, k: int = 3, m: int = 1) -> Tensor:
        return x - k * m

    def change() -> None:
        scaled.__code__, scaled.__defaults__ = other.__code__, (4, 5)

    return scaled, change


def _method() -> tuple[Any, Callable[[], None]]:
    class Holder:
        def scaled(self, x: Tensor, n: int = 2) -> Tensor:
            return x * n

    return Holder().scaled, lambda: setattr(Holder.scaled, "__defaults__", (5,))


def _object() -> tuple[Any, Callable[[], None]]:
    class Scaled:
        def __call__(self, x: Tensor, n: int = 2) -> Tensor:
            return x * n

    return Scaled(), lambda: setattr(Scaled.__call__, "__defaults__", (5,))


def _object_with_another_call() -> tuple[Any, Callable[[], None]]:
    class Scaled:
        def __call__(self, x: Tensor, n: int = 2) -> Tensor:
            return x * n

    return Scaled(), lambda: setattr(Scaled, "__call__", lambda self, x, k=3: x - k)


def _keyword_only() -> tuple[Any, Callable[[], None]]:
    class Scaled:
        def __call__(self, x: Tensor, *, n: int = 2) -> Tensor:
            return x * n

    return Scaled(), lambda: setattr(Scaled.__call__, "__kwdefaults__", {"n": 5})


def _partial() -> tuple[Any, Callable[[], None]]:
    def scaled(x: Tensor, n: int = 2) -> Tensor:
        return x * n

    return functools.partial(scaled), lambda: setattr(scaled, "__defaults__", (5,))


def _keywords_of_a_partial() -> tuple[Any, Callable[[], None]]:
    def scaled(x: Tensor, n: int = 2) -> Tensor:
        return x * n

    partial = functools.partial(scaled, n=4)
    return partial, lambda: partial.keywords.update(n=9)


def _module() -> tuple[Any, Callable[[], None]]:
    class Scaled(torch.nn.Module):
        def forward(self, x: Tensor, n: int = 2) -> Tensor:
            return x * n

    return Scaled(), lambda: setattr(Scaled.forward, "__defaults__", (5,))


_CASES = (
    _function,
    _code,
    _method,
    _object,
    _object_with_another_call,
    _keyword_only,
    _partial,
    _keywords_of_a_partial,
    _module,
)


@pytest.mark.parametrize("make", _CASES)
def test_what_is_changed_between_calls_is_noticed(
    make: Callable[[], tuple[Any, Callable[[], None]]],
) -> None:
    function, change = make()
    compiled: Any = anyshape.compile(function)
    x = torch.arange(3.0)
    for _ in range(2):
        assert torch.equal(compiled(x), function(x))
    change()
    for _ in range(2):
        assert torch.equal(compiled(x), function(x))


def test_an_object_is_not_asked_for_attributes_that_it_may_make_up() -> None:
    class Curious:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def __call__(self, x: Tensor) -> Tensor:
            return x * 2 if x.sum() > 0 else x + 1

        def __getattr__(self, name: str) -> Any:
            self.asked.append(name)
            raise AttributeError(name)

    curious = Curious()
    compiled = anyshape.compile(curious)
    curious.asked.clear()
    for size in (2, 3, 4):
        assert torch.equal(compiled(torch.ones(size)), torch.ones(size) * 2)
        assert torch.equal(compiled(-torch.ones(size)), torch.zeros(size))
    assert curious.asked == []
