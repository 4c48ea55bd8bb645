"""Backends of users that fail: the answer is eager's, and it is told once."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


def _raises(graph: Any, examples: Any) -> Any:
    def run(*args: Any) -> Any:
        raise KeyError("no such kernel")

    return run


#: What each gives, and what is said of it.
BACKENDS: dict[str, tuple[Any, str]] = {
    "nothing": (lambda graph, examples: None, "the backend returned a NoneType, not a function"),
    "a number": (lambda graph, examples: 3, "the backend returned a int, not a function"),
    "at run time": (_raises, "KeyError('no such kernel')"),
    "no results": (lambda graph, examples: lambda *args: None, "a graph of "),
    "too many": (lambda graph, examples: lambda *args: (args[0], args[0]), "a graph of "),
}


def program(x: Tensor) -> Tensor:
    return x.sin() * 2


@pytest.mark.parametrize("name", BACKENDS)
def test_it_is_told_once(name: str) -> None:
    backend, said = BACKENDS[name]
    compiled = anyshape.compile(program, backend=backend, dynamic=True)
    with (
        anyshape.config.patch(on_compile_error="warn"),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        for size in (3, 3, 5, 1, 0):
            x = torch.randn(size)
            assert torch.equal(compiled(x), program(x))
    (only,) = [str(each.message) for each in told]
    assert said in only
    assert compiled.stats().eager_calls >= 4


@pytest.mark.parametrize("name", BACKENDS)
def test_it_is_raised_where_that_is_wanted(name: str) -> None:
    backend, _ = BACKENDS[name]
    with anyshape.config.patch(on_compile_error="raise"):
        compiled = anyshape.compile(program, backend=backend, dynamic=True)
        x = torch.randn(3)
        # The call that compiles has its answer from capture.
        with pytest.raises(anyshape.errors.BackendFailed, match="code of yours"):
            _ = compiled(x), compiled(x)


# -- operators without a shape function ------------------------------------------------------------


@torch.library.custom_op("anyshape_tests::above", mutates_args=())
def above(x: Tensor, least: float) -> Tensor:
    return x[x > least].clone()


@torch.library.custom_op("anyshape_tests::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return x * 2


def test_the_rest_of_the_graph_is_native() -> None:
    def around(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sin() + 1
        return doubled(y).cos() * y, above(y, 1.0).exp() + 1

    compiled = anyshape.compile(around, dynamic=True)
    for size in (5, 3, 1, 0, 7):
        x = torch.linspace(-2, 2, size)
        torch.testing.assert_close(compiled(x), around(x))
    told = str(compiled.explain())
    assert "no native code" not in told, told
    assert not compiled.stats().eager_calls
