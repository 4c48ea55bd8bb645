"""`config.specialize_float=False`: floats are inputs of the graph, fixed where a program asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import config


@pytest.fixture(autouse=True)
def free_floats(fresh: None) -> Iterator[None]:
    with config.patch(specialize_float=False):
        yield


def check(compiled: Any, function: Callable[..., Any], *args: Any) -> None:
    torch.testing.assert_close(compiled(*args), function(*args), equal_nan=True)


def scaled(x: Tensor, f: float) -> Tensor:
    return x * f + f / 2


def asked(x: Tensor, f: float) -> Tensor:
    return x * f if f > 0.5 else x - f


def as_text(x: Tensor, f: float) -> tuple[Tensor, str]:
    return x * f, f"{f:.2f}"


def shaping(x: Tensor, f: float) -> Tensor:
    return torch.arange(0, f) + x.sum() * f


def given_back(x: Tensor, f: float) -> Any:
    return x + 1, f, [f * 2, math.sqrt(abs(f))]


def with_data(x: Tensor, f: float) -> Any:
    if x.sum() > f:
        return x * f
    return x - f


def rounded(x: Tensor, f: float) -> Any:
    return x * int(f)


def divided(x: Tensor, f: float) -> Any:
    return x + (1 / f if f else 7.0)


VALUES = (0.25, 0.75, 2.5, 0.25, -1.0, 0.0, -0.0, 3.0)
PROGRAMS = [scaled, asked, as_text, given_back, with_data, rounded, divided]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_is_right(function: Callable[..., Any], dynamic: bool | None) -> None:
    compiled = anyshape.compile(function, dynamic=dynamic)
    for value in VALUES:
        x = torch.rand(3)
        result, expected = compiled(x, value), function(x, value)
        parts = result if isinstance(result, tuple) else (result,)
        for one, other in zip(
            parts, expected if isinstance(expected, tuple) else (expected,), strict=True
        ):
            if isinstance(one, Tensor):
                torch.testing.assert_close(one, other)
            else:
                assert repr(one) == repr(other)


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_made_of_floats(dynamic: bool | None) -> None:
    compiled = anyshape.compile(shaping, dynamic=dynamic)
    for value in (3.0, 4.5, 3.0, 7.0):
        check(compiled, shaping, torch.rand(2), value)


@pytest.mark.parametrize(("dynamic", "graphs"), [(None, 2), (True, 1), (False, 5)])
def test_graphs(dynamic: bool | None, graphs: int) -> None:
    compiled = anyshape.compile(scaled, dynamic=dynamic)
    for value in (0.25, 0.5, 2.5, math.inf, math.nan):
        check(compiled, scaled, torch.rand(3), value)
    assert compiled.stats().graphs == graphs
    assert compiled.stats().eager_calls == 0


def test_other_types_are_other_programs() -> None:
    compiled = anyshape.compile(lambda x, f: (x * f, type(f)), dynamic=True)
    for value in (0.5, 2, True, 1.5):
        assert compiled(torch.ones(2), value)[1] is type(value)


def test_specialize_float() -> None:
    with config.patch(specialize_float=True, dynamic_sources=".*"):
        compiled = anyshape.compile(scaled, dynamic=True)
        for value in (0.25, 0.5, 0.75):
            check(compiled, scaled, torch.rand(3), value)
    assert compiled.stats().graphs == 3


class Decayed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return x * self.rate


@pytest.mark.parametrize(("allowed", "graphs"), [(False, 4), (True, 2)])
def test_floats_on_modules(allowed: bool, graphs: int) -> None:
    module = Decayed()
    with config.patch(allow_unspec_int_on_nn_module=allowed):
        compiled: Any = anyshape.compile(module)
        for rate in (0.5, 0.25, 0.125, 0.75):
            module.rate = rate
            check(compiled, module.forward, torch.rand(3))
    assert compiled.stats().graphs == graphs


def test_gradients() -> None:
    compiled = anyshape.compile(scaled, dynamic=True)
    for value in (0.25, 0.75):
        x = torch.rand(3, requires_grad=True)
        compiled(x, value).sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, torch.full((3,), value))
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("order", [(2.0, 3.0, 0.0, -0.0, 4.0), (0.0, 2.0, -0.0, 3.0, 0.0)])
def test_an_error_that_only_some_floats_make(order: tuple[float, ...]) -> None:
    def f(x: Tensor, s: float) -> Tensor:
        try:
            inverse = 1.0 / s
        except ZeroDivisionError:
            inverse = 5.0
        return x * inverse

    with config.patch(specialize_float=False):
        compiled = anyshape.compile(f)
        for s in order:
            torch.testing.assert_close(compiled(torch.ones(2), s), f(torch.ones(2), s))
