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


def caught(x: torch.Tensor, value: float) -> torch.Tensor:
    try:
        math.sqrt(value)
    except ValueError:
        return x - 1
    return (x.sin() * x).tanh() * 2


UNUSED: dict[str, Callable[..., Any]] = {
    "a root": lambda x, value: (math.sqrt(value), x + 1)[1],
    "a quotient": lambda x, value: (1 / (value - 3), x + 1)[1],
    "a rest": lambda x, value: (1.5 % (value - 3), x + 1)[1],
    "a power": lambda x, value: (10.0 ** (value * 100), x + 1)[1],
    "a chain": lambda x, value: (math.exp(value * 300) - value, x + 1)[1],
    "a root that is caught": caught,
    "a root of data": lambda x, value: (math.sqrt((x * value).sum().item()), x + 1)[1],
    "a quotient of data": lambda x, value: (1 / (x[0] * value - 3).item(), x + 1)[1],
}


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return repr(error)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", UNUSED)
def test_errors_of_numbers_that_nothing_uses(name: str, gradients: bool) -> None:
    compiled = anyshape.compile(UNUSED[name])
    for value in (1.0, 2.0, -1.0, 3.0, 4.0, -2.0, 2.5, 1.5):
        x = torch.ones(3, requires_grad=gradients)
        found, wanted = (outcome(each, x, value) for each in (compiled, UNUSED[name]))
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(found, wanted)
        else:
            assert found == wanted, value
    assert compiled.stats().graphs <= 3


def test_effects_before_an_error_of_data() -> None:
    def function(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        seen.append(1)
        x.add_(1)
        math.sqrt(x.sum().item())
        seen.append(2)
        return x * 2

    compiled = anyshape.compile(function)
    for value in (1.0, 2.0, -4.0, 3.0, -5.0):
        (x, ours), (y, eager) = ((torch.full((2,), value), list[int]()) for _ in range(2))
        found, wanted = outcome(compiled, x, ours), outcome(function, y, eager)
        assert type(found) is type(wanted)
        assert ours == eager
        assert torch.equal(x, y)


BY_NAME: dict[str, Callable[..., Any]] = {
    "digits": lambda x, value: (x * round(value, ndigits=2), round(number=value, ndigits=1)),
    "an exponent": lambda x, value: (x + pow(value, exp=2), pow(base=value, exp=3)),
    "a tolerance": lambda x, value: (x, math.isclose(value, 1.25, rel_tol=0.5)),
    "a tolerance that changes": lambda x, value: (x, math.isclose(value, 1.25, abs_tol=value)),
    "of data": lambda x, value: (x, math.isclose((x[0] * value).item(), 1.0, rel_tol=0.5)),
    "text": lambda x, value: (x + 1, str(object=value)),
    "a base": lambda x, value: (x * int("12", base=8), value),
    "parts": lambda x, value: (x, complex(real=value, imag=1.0)),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_arguments_by_name(name: str) -> None:
    compiled = anyshape.compile(BY_NAME[name])
    for value in (0.5, 1.125, 1.25, 3.0, 0.5, 7.0):
        x = torch.ones(3)
        (found, number), (wanted, expected) = (each(x, value) for each in (compiled, BY_NAME[name]))
        assert torch.equal(found, wanted)
        assert repr(number) == repr(expected)


def test_a_name_that_a_function_does_not_have() -> None:
    sine: Any = math.sin
    compiled = anyshape.compile(lambda x, value: x * sine(angle=value))
    with pytest.raises(TypeError, match="sin"):
        compiled(torch.ones(2), 0.5)
