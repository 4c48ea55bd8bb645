"""Arguments that are a `DynamicInt`: the plain numbers, and the names of their sources."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import Any

from anyshape.guards.dynamic_int import DynamicInt, plain_int


def plain_call(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, likewise."""
    return tuple(map(_plain, args)), {name: _plain(value) for name, value in kwargs.items()}


def _plain(value: Any) -> Any:
    return plain_int(value) if type(value) is DynamicInt else value


def unwrapped(
    signature: Signature, bound: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]] | None:
    """The arguments with plain numbers in place of every `DynamicInt`, and the sources of those;
    None if there is none."""
    found: list[str] = []

    def plain(value: Any, source: str) -> Any:
        if type(value) is not DynamicInt:
            return value
        found.append(source)
        return plain_int(value)

    made: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        value, source = bound[name], f"L[{name!r}]"
        if parameter.kind is Parameter.VAR_POSITIONAL:
            value = tuple(plain(each, f"{source}[{i}]") for i, each in enumerate(value))
        elif parameter.kind is Parameter.VAR_KEYWORD:
            value = {key: plain(each, f"{source}[{key!r}]") for key, each in value.items()}
        else:
            value = plain(value, source)
        made[name] = value
    return (made, found) if found else None


class CallMarks(threading.local):
    """The sources that are a `DynamicInt` in the call that this thread is in. A mark is of one
    call: a later one with a plain integer wishes for nothing."""

    names: frozenset[str] = frozenset()

    @contextmanager
    def being(self, names: Iterable[str]) -> Generator[None]:
        before, self.names = self.names, frozenset(names)
        try:
            yield
        finally:
            self.names = before
