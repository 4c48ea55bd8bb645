"""Functions of `math` of numbers that change: one graph for all of them, and the same floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape

Function = Callable[[Any], float]

ONE = (
    *("sqrt", "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sin", "cos", "tan"),
    *("sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc"),
    *("gamma", "lgamma", "fabs", "degrees", "radians", "cbrt"),
)
TWO = ("pow", "atan2", "copysign", "fmod", "hypot", "remainder")


def before_three(function: Callable[[Any, Any], float]) -> Function:
    return lambda value: function(value, 3)


def behind_a_float(function: Callable[[Any, Any], float]) -> Function:
    return lambda value: function(2.5, value)


FUNCTIONS: dict[str, Function] = {
    **{name: getattr(math, name) for name in ONE},
    **{f"{name} before 3": before_three(getattr(math, name)) for name in TWO},
    **{f"{name} behind 2.5": behind_a_float(getattr(math, name)) for name in TWO},
    "a schedule": lambda v: 0.5 * (1 + math.cos(math.pi * v / 20)),
}
#: Of sizes, integers and floats; some functions are not defined for some of them.
SIZES = (3, 4, 1, 0, 7)
NUMBERS: dict[str, tuple[Any, ...]] = {
    "integer": (3, 4, -2, 0, 171, 1, 800),
    "float": (0.5, 0.25, -0.75, -0.0, 0.0, 1.5, -3.0, math.inf, math.nan, 800.0),
}


def program(function: Function) -> Callable[..., Any]:
    def called(x: torch.Tensor, value: Any = None) -> Any:
        try:
            result = function(x.shape[0] if value is None else value)
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            return x - 1, repr(error)
        return x * result + 1, result

    return called


def same(ours: Any, eager: Any) -> bool:
    (tensor, number), (wanted, value) = ours, eager
    return repr(number) == repr(value) and torch.equal(tensor.nan_to_num(), wanted.nan_to_num())


@pytest.mark.parametrize("kind", ["size", *NUMBERS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name: str, kind: str) -> None:
    function = program(FUNCTIONS[name])
    compiled = anyshape.compile(function, dynamic=True if kind == "size" else None)
    for value in NUMBERS.get(kind, SIZES) * 2:
        given = (torch.ones(value),) if kind == "size" else (torch.ones(2), value)
        assert same(compiled(*given), function(*given)), value


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "acosh" not in name])
def test_one_graph(name: str) -> None:
    """For values between 0 and 1, where all of them are defined."""
    function = program(FUNCTIONS[name])
    compiled = anyshape.compile(function)
    for value in (0.5, 0.25, 0.75, 0.125, 0.625):
        x = torch.ones(2)
        assert same(compiled(x, value), function(x, value))
    assert compiled.stats().graphs <= 2
    assert compiled.stats().eager_calls == 0
