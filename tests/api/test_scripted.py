"""Functions of `torch.jit.script` in programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


def _script(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(function)


@_script
def scaled(x: Tensor, factor: int) -> Tensor:
    if x.size(0) > 4:
        return x * factor
    return x / torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


@_script
def shifted(x: Tensor, by: float = 1.0, other: Tensor | None = None) -> Tensor:
    return x + by if other is None else x + other


@_script
def halved(x: Tensor, number: float) -> Tensor:
    return x + (number / 2)


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "sizes": lambda x: scaled(x * 2, x.shape[1]) + 1,
    "by name": lambda x: scaled(factor=3, x=x),
    "defaults": lambda x: shifted(x) + shifted(x, 0.5) + shifted(x, other=x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_their_code_is_followed(name: str) -> None:
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True, fullgraph=True)
    for n in (2, 3, 5, 8, 1):
        x = torch.randn(n, n + 1)
        torch.testing.assert_close(compiled(x), program(x))


CONVERTED: dict[str, Callable[[Tensor], Any]] = {
    "a tensor as a number": lambda x: scaled(x, torch.tensor(3)),
    "a whole number as a float": lambda x: halved(x, 3),
    "a size as a float": lambda x: halved(x, x.shape[0]),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_what_they_convert_is_as_eager(name: str) -> None:
    program = CONVERTED[name]
    compiled = anyshape.compile(program, dynamic=True)
    for n in (2, 5, 6):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), program(x))


def test_what_they_refuse() -> None:
    def program(x: Tensor) -> Tensor:
        return scaled(x, "three")

    with pytest.raises(RuntimeError, match="scaled"):
        anyshape.compile(program)(torch.ones(2, 2))


def test_another_function_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Tensor) -> Tensor:
        return halved(x, 2.0)

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.ones(6, 2)
    assert torch.equal(compiled(x), x + 1)
    monkeypatch.setitem(globals(), "halved", shifted)
    assert torch.equal(compiled(x), x + 2)


@_script
def asks(x: Tensor) -> Tensor:
    if torch.jit.is_scripting():  # pyright: ignore[reportPrivateImportUsage] it is public
        return x * 2
    return x * 3


@_script
def asks_further(x: Tensor) -> Tensor:
    return asks(x) + 1


@_script
def refuses(x: Tensor) -> Tensor:
    if x.size(0) < 3:
        raise ValueError("too few rows")
    return x * 2


@_script
def asserts(x: Tensor) -> Tensor:
    assert x.size(0) > 2, "too few rows"
    return x * 2


@pytest.mark.parametrize("function", [asks, asks_further, refuses, asserts])
def test_what_means_something_else_in_python(function: Any) -> None:
    def program(x: Tensor) -> Any:
        try:
            return function(x * 2) + 1
        except torch.jit.Error as error:
            return type(error)

    compiled = anyshape.compile(program, dynamic=True)
    for n in (5, 2, 4, 1):
        x = torch.randn(n, 3)
        expected, found = program(x), compiled(x)
        assert type(found) is type(expected)
        if isinstance(expected, Tensor):
            torch.testing.assert_close(found, expected)
