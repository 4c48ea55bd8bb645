"""Changes to objects outside: done for real at once, and kept in order for the compiled runs.

A compiled run performs them after the graph. What the program reads back of its own changes is not
guarded; what it reads of the state before is, against the state before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from anyshape.guards.path import Path


class Change(Enum):
    """What a change does to its target."""

    SET_ATTRIBUTE = auto()
    DELETE_ATTRIBUTE = auto()
    SET_ITEM = auto()
    DELETE_ITEM = auto()
    SET_CELL = auto()
    #: a method of a built-in container, by its unbound form
    METHOD = auto()
    #: a function called for its effect: `print`, a logger
    CALL = auto()


@dataclass(frozen=True, slots=True)
class Effect:
    """One change. `target` is the object; `key` a name, an item's key or a function."""

    change: Change
    target: Path | None
    key: Any
    #: values as the program had them: the recipe turns them into what a compiled run has
    values: tuple[Any, ...] = ()


class Journal:
    """The changes of one capture, and what they hide of the state before."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        #: (identity of the object, attribute or item key) -> the value as traced, if it is
        self._written: dict[tuple[int, object], Any] = {}
        #: containers changed by a method: their contents before
        self._before: dict[int, Any] = {}
        #: external objects that were changed
        self.changed: dict[int, object] = {}

    def add(self, effect: Effect) -> None:
        self.effects.append(effect)

    def write(self, target: object, key: object, value: Any) -> None:
        """Remember that the program itself wrote there."""
        self._written[id(target), key] = value
        self.changed[id(target)] = target

    def is_written(self, target: object, key: object) -> bool:
        return (id(target), key) in self._written

    def written(self, target: object, key: object) -> Any:
        return self._written[id(target), key]

    def wrote_any(self, target: object) -> bool:
        return id(target) in self.changed

    def snapshot(self, container: Any) -> None:
        """Keep the contents of a container as they were before its first change."""
        if id(container) not in self._before:
            self._before[id(container)] = (
                dict(container) if isinstance(container, dict) else list(container)
            )
        self.changed[id(container)] = container

    def before(self, container: Any) -> Any | None:
        """The contents before, of a container that was changed as a whole."""
        return self._before.get(id(container))
