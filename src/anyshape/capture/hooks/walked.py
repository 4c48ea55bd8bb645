"""What a program walks, as native code walks it that asks for a length beforehand.

`list(x)`, `tuple(x)`, `[*x]` and `x.extend(y)` ask an object for its length before its first item,
to make room; that is the program's code, and may have effects or raise.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Protocol

from anyshape.capture.hooks.class_lookups import is_trusted


class Hooks(Protocol):
    """What knows how an object says its length."""

    def length_hint(self, value: object) -> Any: ...


class Walked:
    """The items of an object, with its own word on how many there are."""

    __slots__ = ("_hooks", "_steps", "_value")

    def __init__(self, hooks: Hooks, value: object, steps: Any) -> None:
        self._hooks = hooks
        self._value = value
        self._steps = steps

    def __iter__(self) -> Iterator[object]:
        return iter(self._steps)

    def __length_hint__(self) -> Any:
        return self._hooks.length_hint(self._value)


class WalkedIterator(Walked):
    """The same of an iterator."""

    __slots__ = ()

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        return next(self._steps)


def has_length_hint(kind: type) -> bool:
    """Whether code of the program says how long objects of this type are."""
    return any(
        isinstance(getattr(kind, name, None), types.FunctionType)
        for name in ("__len__", "__length_hint__")
    ) and not is_trusted(kind.__module__)
