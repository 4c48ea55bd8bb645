"""What is remembered of the program's objects for as long as they are there."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ByIdentity(Generic[K, V]):
    """Values for objects that are told apart by identity, whatever they say of being equal."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[weakref.ref[K], V]] = {}

    def get(self, key: K) -> V | None:
        entry = self.entries.get(id(key))
        return None if entry is None else entry[1]

    def __contains__(self, key: K) -> bool:
        return id(key) in self.entries

    def set(self, key: K, value: V) -> None:
        number, entries = id(key), self.entries
        # The entry goes when its object does, before the identity can be used again.
        entries[number] = (weakref.ref(key, lambda _: entries.pop(number, None)), value)


def remembered(function: Callable[[K], V]) -> Callable[[K], V]:
    """As `functools.cache`, which would keep the program's objects alive."""
    known: ByIdentity[K, V] = ByIdentity()
    entries = known.entries

    def asked(key: K) -> V:
        entry = entries.get(id(key))
        if entry is not None:
            return entry[1]
        value = function(key)
        known.set(key, value)
        return value

    return asked
