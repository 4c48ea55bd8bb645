"""Containers out of a cache, while a capture follows what made them.

A cached function gives the same list for the same key, whoever asks. A capture that follows the
function has a list of its own instead, with dynamic numbers in it. That cannot be told as long as
the program does nothing but read it. If the program changes it or hands it out, the capture leaves,
and what was done is done to the cache's own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch


class SharedContainers:
    """The containers of one capture that stand for a cache's own."""

    __slots__ = ("_by_identity",)

    def __init__(self) -> None:
        #: the container here, the cache's own, and what was in it at first
        self._by_identity: dict[int, tuple[object, Any, list[object]]] = {}

    def add(self, here: object, own: object) -> None:
        """Note the containers in equal pieces of data."""
        kind = type(here)
        if kind not in (list, dict, set, tuple, frozenset, torch.Size):
            return
        if kind in (list, dict, set):
            self._by_identity[id(here)] = (here, own, _parts(here))
        if kind is not set and kind is not frozenset:  # what is in those cannot be changed
            for part, its_own in zip(_parts(here), _parts(own), strict=True):
                self.add(part, its_own)

    def __contains__(self, value: object) -> bool:
        return id(value) in self._by_identity

    def is_changed(self) -> bool:
        return any(_is_changed(here, before) for here, _, before in self._by_identity.values())

    def settle(self, strip: Callable[[Any], object]) -> None:
        """Do to the cache's own what was done here; `strip` takes traced numbers out of it."""
        changed = [
            (here, own)
            for here, own, before in self._by_identity.values()
            if _is_changed(here, before)
        ]
        for here, own in changed:
            strip(here)
            if type(here) is list:
                own[:] = map(self.own, here)
            else:
                own.clear()
                own.update(here)

    def own(self, value: object) -> Any:
        """The cache's own, for what stands for it; inside of a result as well."""
        if not self._by_identity:
            return value
        found = self._by_identity.get(id(value))
        if found is not None:
            return found[1]
        if type(value) is tuple:
            parts = tuple(map(self.own, value))
            return value if all(map(operator.is_, parts, value)) else parts
        if type(value) is list:
            value[:] = map(self.own, value)
        elif type(value) is dict:
            value.update({key: self.own(part) for key, part in value.items()})
        return value


def _parts(container: Any) -> list[object]:
    if type(container) is dict:
        return [part for item in container.items() for part in item]
    return list(container)


def _is_changed(container: object, before: list[object]) -> bool:
    now = _parts(container)
    return len(now) != len(before) or not all(map(operator.is_, now, before))
