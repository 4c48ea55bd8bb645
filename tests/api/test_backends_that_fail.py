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
    "no results": (
        lambda graph, examples: lambda *args: None,
        "returned <class 'NoneType'>, not ",
    ),
    "too many": (lambda graph, examples: lambda *args: (args[0], args[0]), "returned 2 results, "),
    # Where it has one row, that could be unpacked as the one result.
    "a tensor": (lambda graph, examples: lambda *args: graph(*args)[0], "'torch.Tensor'>, not "),
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
            x = torch.randn(size, 2)
            assert torch.equal(compiled(x), program(x))
    (only,) = [str(each.message) for each in told]
    assert said in only
    assert compiled.stats().eager_calls >= 4


def test_rows_of_a_tensor_are_no_results() -> None:
    """There are as many of them as results: unpacking would not tell the difference."""

    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin() * 2, x.cos() + 1

    def stacking(graph: Any, examples: Any) -> Any:
        return lambda *args: torch.stack(graph(*args))

    compiled = anyshape.compile(two, backend=stacking, dynamic=True)
    with anyshape.config.patch(on_compile_error="raise"):
        _ = compiled(torch.randn(3))
        with pytest.raises(anyshape.errors.BackendFailed, match="not a tuple of 2"):
            _ = compiled(torch.randn(3))


@pytest.mark.parametrize("results", [tuple, list])
def test_tuples_and_lists_will_do(results: Any) -> None:
    def backend(graph: Any, examples: Any) -> Any:
        return lambda *args: results(graph(*args))

    compiled = anyshape.compile(program, backend=backend, dynamic=True)
    for rows in (3, 1, 5):
        x = torch.randn(rows, 2)
        assert torch.equal(compiled(x), program(x))
    assert compiled.stats().eager_calls == 0


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
