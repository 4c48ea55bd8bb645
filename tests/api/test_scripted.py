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
