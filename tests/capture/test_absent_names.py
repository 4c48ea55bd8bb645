"""That a name is missing is an answer like any other: it is guarded, or nothing is compiled."""

from __future__ import annotations

import contextlib
import gc
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import anyshape

SETTINGS = types.ModuleType("settings_of_a_test")


class Plain:
    pass


PLAIN = Plain()
TENSOR = torch.ones(1)


def _getattr(x: torch.Tensor) -> torch.Tensor:
    return x * getattr(SETTINGS, "late", 2)


def _hasattr(x: torch.Tensor) -> torch.Tensor:
    return x * (5 if hasattr(SETTINGS, "late") else 2)


def _caught(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * SETTINGS.late
    except AttributeError:
        return x * 2


def _of_torch(x: torch.Tensor) -> torch.Tensor:
    return x * getattr(torch, "late_name_of_a_test", 2)


def _of_python(x: torch.Tensor) -> torch.Tensor:
    return x * getattr(contextlib, "late_name_of_a_test", 2)


def _global(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * LATE  # pyright: ignore[reportUndefinedVariable]
    except NameError:
        return x * 2


def _suppressed(x: torch.Tensor) -> torch.Tensor:
    with contextlib.suppress(NameError):
        return x * LATE  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
    return x * 2


def _finally(x: torch.Tensor) -> torch.Tensor:
    factor = 2
    try:
        LATE  # noqa: B018, F821 # pyright: ignore[reportUndefinedVariable, reportUnusedExpression]
        factor = 5
    finally:
        return x * factor  # noqa: B012


def _of_classes(x: torch.Tensor) -> torch.Tensor:
    return x * getattr(torch.nn.Linear, "late_name_of_a_test", 2)


def _import(x: torch.Tensor) -> torch.Tensor:
    try:
        import late_module_of_a_test  # pyright: ignore[reportMissingImports]
    except ImportError:
        return x * 2
    return x * late_module_of_a_test.late


def _from(x: torch.Tensor) -> torch.Tensor:
    try:
        from late_module_of_a_test import late  # pyright: ignore[reportMissingImports]
    except ImportError:
        return x * 2
    return x * late


def _callable(x: torch.Tensor) -> torch.Tensor:
    return x * (5 if callable(PLAIN) else 2)


def _of_tensors(x: torch.Tensor) -> torch.Tensor:
    return x * getattr(TENSOR, "late_name_of_a_test", 2)


def _of_results(x: torch.Tensor) -> torch.Tensor:
    return x * getattr(x + 1, "late_name_of_a_test", 2)


@contextlib.contextmanager
def _set(holder: Any, name: str, value: Any) -> Iterator[None]:
    setattr(holder, name, value)
    try:
        yield
    finally:
        delattr(holder, name)


@contextlib.contextmanager
def _module() -> Iterator[None]:
    made: Any = types.ModuleType("late_module_of_a_test")
    made.late = 5
    sys.modules["late_module_of_a_test"] = made
    try:
        yield
    finally:
        del sys.modules["late_module_of_a_test"]


_HERE = sys.modules[__name__]
_NAME = "late_name_of_a_test"
CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "getattr": (_getattr, lambda: _set(SETTINGS, "late", 5)),
    "hasattr": (_hasattr, lambda: _set(SETTINGS, "late", 5)),
    "caught": (_caught, lambda: _set(SETTINGS, "late", 5)),
    "made up": (_getattr, lambda: _set(SETTINGS, "__getattr__", lambda name: 5)),
    "torch": (_of_torch, lambda: _set(torch, _NAME, 5)),
    "library": (_of_python, lambda: _set(contextlib, _NAME, 5)),
    "global": (_global, lambda: _set(_HERE, "LATE", 5)),
    "suppressed": (_suppressed, lambda: _set(_HERE, "LATE", 5)),
    "finally": (_finally, lambda: _set(_HERE, "LATE", 5)),
    "class": (_of_classes, lambda: _set(torch.nn.Linear, _NAME, 5)),
    "base class": (_of_classes, lambda: _set(torch.nn.Module, _NAME, 5)),
    "import": (_import, _module),
    "from": (_from, _module),
    "callable": (_callable, lambda: _set(Plain, "__call__", lambda self: None)),
    "tensor": (_of_tensors, lambda: _set(torch.Tensor, _NAME, 5)),
    "result": (_of_results, lambda: _set(torch.Tensor, _NAME, 5)),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CASES)
def test_a_name_that_comes_and_goes(name: str, dynamic: bool | None) -> None:
    function, present = CASES[name]
    compiled = anyshape.compile(function, dynamic=dynamic)
    for size in (3, 4, 5):
        x = torch.ones(size)
        assert compiled(x).tolist() == [2.0] * size
        with present():
            assert compiled(x).tolist() == function(x).tolist() == [5.0] * size
        assert compiled(x).tolist() == [2.0] * size


def test_an_empty_cell_that_is_filled() -> None:
    def make() -> tuple[Any, Any]:
        late = 0

        def function(x: torch.Tensor) -> torch.Tensor:
            try:
                return x * late
            except NameError:
                return x * 2

        def fill() -> None:
            nonlocal late
            late = 5

        del late
        return function, fill

    function, fill = make()
    compiled: Any = anyshape.compile(function)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    fill()
    assert compiled(torch.ones(2)).tolist() == [5.0, 5.0]


def test_the_dtype_of_autocast_is_guarded() -> None:
    @anyshape.compile
    def product(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu"):
            return x @ x

    @anyshape.compile
    def asked(x: torch.Tensor) -> torch.Tensor:
        return x * (5 if torch.get_autocast_dtype("cpu") is torch.float16 else 2)

    before = torch.get_autocast_dtype("cpu")
    try:
        for dtype, factor in ((torch.bfloat16, 2), (torch.float16, 5), (torch.bfloat16, 2)):
            torch.set_autocast_dtype("cpu", dtype)
            assert product(torch.ones(2, 2)).dtype is dtype
            assert asked(torch.ones(2)).tolist() == [factor, factor]
    finally:
        torch.set_autocast_dtype("cpu", before)


def test_the_collector_is_as_the_program_left_it() -> None:
    @anyshape.compile
    def asks(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if gc.isenabled() else 3)

    @anyshape.compile
    def stops(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        gc.disable()
        return y

    assert gc.isenabled()
    try:
        for size in (2, 3, 4, 5):
            assert asks(torch.ones(size)).tolist() == [2.0] * size
            stops(torch.ones(size))
            assert not gc.isenabled()
            assert asks(torch.ones(size)).tolist() == [3.0] * size
            gc.enable()
    finally:
        gc.enable()


def test_defaults_of_functions_that_are_made_behind_a_break() -> None:
    def made(k: int) -> Any:
        gc.isenabled()  # cannot be traced
        return lambda t, k=k: t * k

    @anyshape.compile
    def function(x: torch.Tensor, i: int) -> torch.Tensor:
        return made(i)(x + 1) * 1.5

    for i in range(6):
        assert function(torch.ones(3), i).tolist() == [3.0 * i] * 3
