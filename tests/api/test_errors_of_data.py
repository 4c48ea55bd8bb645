"""Operators that fail because of what is in a tensor, in functions that write to their arguments:
the errors are torch's, the program's handlers see them, and nothing is left half done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "subscript": lambda x, i: x[i],
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "gather": lambda x, i: torch.gather(x, 0, i),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x[:, None]),
    "take": lambda x, i: torch.take(x, i),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "item": lambda x, i: x[int(i[0].item())],
}


def _caught(operator: Callable[..., Tensor]) -> Callable[..., Any]:
    def function(x: Tensor, i: Tensor) -> Any:
        try:
            y = operator(x * 2, i)
        except (IndexError, RuntimeError):
            return x.add_(1).sum() * 0
        x.mul_(2)
        return y + 1

    return function


def _uncaught(operator: Callable[..., Tensor]) -> Callable[..., Any]:
    def function(x: Tensor, i: Tensor) -> Any:
        y = operator(x * 2, i)
        x.mul_(2)
        return y + 1

    return function


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", OPERATORS)
def test_handlers_see_them(name: str, backend: str) -> None:
    function = _caught(OPERATORS[name])
    compiled = anyshape.compile(function, backend=backend, dynamic=True)
    for size, position in ((4, 1), (5, 2), (3, 7), (4, 3), (3, -9), (6, 0)):
        x, i = torch.randn(size), torch.tensor([position])
        ours, theirs = x.clone(), x.clone()
        torch.testing.assert_close(compiled(ours, i), function(theirs, i))
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", OPERATORS)
def test_they_are_of_a_class_of_torchs(name: str, backend: str) -> None:
    compiled = anyshape.compile(_uncaught(OPERATORS[name]), backend=backend, dynamic=True)
    for size, position in ((4, 1), (5, 2), (3, 7), (4, 3), (3, -9)):
        x, i = torch.randn(size), torch.tensor([position])
        if -size <= position < size:
            compiled(x, i)
            continue
        with pytest.raises((IndexError, RuntimeError)) as raised:
            compiled(x, i)
        assert type(raised.value) in (IndexError, RuntimeError)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("whole", [True, False])
def test_autograd_forbids_a_leaf_what_others_may(backend: str, whole: bool) -> None:
    log: list[int] = []

    def function(x: Tensor) -> Tensor:
        log.append(len(x))
        (x if whole else x[0]).sub_(1)
        return x * 2

    compiled = anyshape.compile(function, backend=backend, dynamic=True)

    def done(call: Any, size: int, is_leaf: bool) -> Any:
        log.clear()
        leaf = torch.ones(size, 2, requires_grad=True)
        try:
            return call(leaf if is_leaf else leaf * 2).tolist(), list(log)
        except RuntimeError as error:
            return str(error), list(log)

    for size, is_leaf in ((3, False), (4, True), (5, False), (6, True), (3, True)):
        assert done(compiled, size, is_leaf) == done(function, size, is_leaf)
    assert compiled.stats().graphs == 1
