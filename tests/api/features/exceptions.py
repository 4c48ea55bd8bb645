"""Exceptions, context managers, match, assertions."""

# The functions below are what users write, not what we would.
# ruff: noqa: B012, B018
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.api.features.registry import Point, feature
from tests.api.twins import World


@feature
def try_everything() -> World:
    def f(x: Tensor, table: dict[str, int]) -> Any:
        try:
            y = table["missing"]
        except KeyError as error:
            y = len(error.args)
        else:
            y = 7
        finally:
            x = x + 1
        try:
            raise RuntimeError("a") from None
        except (ValueError, RuntimeError) as error:
            text = str(error)
        return x + y, text

    return World(f, lambda x: (x, {"a": 1}))


@feature
def exception_of_the_user() -> World:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        if x.shape[0] == 3:
            raise ValueError(f"boom at {x.shape[0]}")
        return y

    return World(f)


@feature
def exception_after_effects() -> World:
    log: list[int] = []

    def f(x: Tensor) -> Tensor:
        log.append(x.shape[0])
        x.add_(1)
        if x.shape[0] > 4:
            raise KeyError("late")
        log.append(-1)
        return x

    return World(f, watch=lambda: log)


@feature
def exception_with_cause() -> World:
    def f(x: Tensor) -> Tensor:
        try:
            return {}[x.shape[0]]
        except KeyError as error:
            raise LookupError("no such size") from error

    return World(f)


@feature
def exception_in_torch_is_caught() -> World:
    def f(x: Tensor) -> Tensor:
        try:
            return x @ torch.ones(3, 2)
        except RuntimeError as error:
            return x + len(type(error).__name__)

    return World(f)


@feature
def shape_error_passes_through() -> World:
    return World(lambda x: x.view(3, 4) @ torch.ones(4, 2))


@feature
def finally_overrides_return() -> World:
    def f(x: Tensor) -> Tensor:
        for _ in range(2):
            try:
                return x * 2
            finally:
                x = x + 1
                continue
        return x

    return World(f)


@feature
def exception_groups() -> World:
    def f(x: Tensor) -> Any:
        try:
            raise ExceptionGroup("both", [ValueError("a"), TypeError("b")])
        except* ValueError as group:
            n = len(group.exceptions)
        except* TypeError:
            n = 10
        return x * n

    return World(f)


@feature
def context_managers() -> World:
    @contextlib.contextmanager
    def logged(log: list[str]) -> Iterator[float]:
        log.append("in")
        try:
            yield 3.0
        finally:
            log.append("out")

    def f(x: Tensor) -> Any:
        log: list[str] = []
        with logged(log) as s, contextlib.suppress(ValueError), contextlib.ExitStack() as stack:
            stack.enter_context(logged(log))
            x = x * s
            raise ValueError
        return x, log

    return World(f)


@feature
def context_manager_class() -> World:
    class Scope:
        depth = 0

        def __enter__(self) -> Scope:
            type(self).depth += 1
            return self

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            type(self).depth -= 1
            return kind is ZeroDivisionError

    def f(x: Tensor) -> Any:
        with Scope() as scope, Scope():
            x = x * scope.depth
            1 // 0
        return x + Scope.depth

    return World(f, watch=lambda: Scope.depth)


@feature
def match_statement() -> World:
    def f(x: Tensor, values: Any) -> Any:
        match values:
            case [1, *rest]:
                return x + sum(rest)
            case {"k": int(k), **others}:
                return x * k + len(others)
            case Point(weight=w):
                return x * w
            case str() | None:
                return x - 1
            case _:
                return x

    values = itertools.cycle(([1, 2, 3], {"k": 4, "l": 1}, None, Point(torch.ones(1), 2), 5))
    return World(f, lambda x: (x, next(values)))


@feature
def assertions() -> World:
    def f(x: Tensor) -> Tensor:
        assert x.dim() == 2, "two dims"
        assert x.shape[0] != 7, f"not {x.shape[0]}"
        return x * 2

    return World(f)


@feature
def warnings_caught() -> World:
    def f(x: Tensor) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn(f"size {x.shape[0]}", stacklevel=1)
        return x + 1, [str(w.message) for w in caught]

    return World(f)
