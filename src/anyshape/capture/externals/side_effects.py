"""Changes to objects outside: done for real at once, and kept in order for the compiled runs.

A compiled run performs them after the graph. What the program reads back of its own changes is not
guarded; what it reads of the state before is, against the state before.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum, auto
from types import MemberDescriptorType
from typing import Any, Final

from anyshape.capture.abort import AbortCapture
from anyshape.guards.path import Path
from anyshape.guards.values import class_attribute
from anyshape.support.lazy_dataclass import dataclass


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
    #: a gradient that is added to `.grad` of a tensor
    ADD_GRAD = auto()
    #: `.grad` of a tensor is None before the call
    EXPECT_NO_GRAD = auto()


@dataclass(frozen=True, slots=True)
class Effect:
    """One change. `target` is the object; `key` a name, an item's key or a function."""

    change: Change
    target: Path | None
    key: Any
    #: values as the program had them: the recipe turns them into what a compiled run has
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Stands for a value that was in a container before, by its key or index then."""

    key: Any


@dataclass(slots=True)
class Changed:
    """A container that the program changed."""

    #: a list or dictionary of what was in it
    before: Any
    #: what the program sees in it: a container of the same built-in kind with values as traced, and
    #: `Kept` for what was there before. Of a set, whose members are plain, nothing
    now: Any = None


_OWN: Final = "a change of the program's own"

#: Stands beside the name of what an object keeps in a slot, past its dictionary and its items.
SLOT: Final = object()
_BASES: Final = frozenset({OrderedDict, dict, list, tuple, deque, set, frozenset})


def base_of(container: object) -> Any:
    """The built-in class of a container, whose methods are no user code."""
    return next(base for base in type(container).__mro__ if base in _BASES)


class Journal:
    """The changes of one capture, and what they hide of the state before."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        #: called with a reason whenever the program meets one of its own changes
        self._tell = tell
        self.effects: list[Effect] = []
        #: (identity of the object, attribute or item key) -> the value as traced, if it is
        self._written: dict[tuple[int, object], object] = {}
        self._containers: dict[int, Changed] = {}
        #: filters of warnings that the program has set, the one that is asked first at first
        self.filters: list[object] = []
        #: dictionaries by the paths at which the program met what it had written there
        self.met: dict[Path, object] = {}
        #: external objects that were changed
        self.changed: dict[int, object] = {}

    def add(self, effect: Effect) -> None:
        self._tell(_OWN)
        self.effects.append(effect)

    def forget(self) -> None:
        """Let go of the program's objects: to be called when nobody watches any more."""
        for held in (self.effects, self._written, self._containers, self.changed, self.met):
            held.clear()

    @property
    def size(self) -> tuple[int, ...]:
        """Grows with every change."""
        return len(self.effects), len(self._written), len(self._containers), len(self.changed)

    def write(self, target: object, key: object, value: object) -> None:
        """Remember that the program itself wrote there."""
        self._tell(_OWN)
        self._written[id(target), key] = value
        self.changed[id(target)] = target

    def is_set(self, held: object, name: object) -> bool:
        """Whether the program set an attribute that this dictionary holds, or a global."""
        self.check_only_by_name(held)
        return self.is_written(held, name)

    def check_only_by_name(self, held: object) -> None:
        """A dictionary that is used by name was not changed as a container: what is in it now is
        not all as the program had it."""
        if id(held) in self._containers:
            raise AbortCapture("a dictionary is changed by its items, and used by attributes too")

    def is_written(self, target: object, key: object) -> bool:
        found = (id(target), key) in self._written
        if found:
            self._tell(_OWN)
        return found

    def written(self, target: object, key: object, place: Path | None = None) -> object:
        """What is there, to be read by way of `place`."""
        if place is not None:
            self.met[place] = target
        return self._written[id(target), key]

    def wrote_any(self, target: object) -> bool:
        found = id(target) in self.changed
        if found:
            self._tell(_OWN)
        return found

    def changed_container(self, container: object) -> Changed | None:
        found = self._containers.get(id(container))
        if found is not None:
            self._tell(_OWN)
        return found

    def changing(self, container: object) -> Changed:
        """To be called before every change of a container: keeps what was in it at first."""
        self._tell(_OWN)
        found = self._containers.get(id(container))
        if found is None and id(container) in self.changed:
            raise AbortCapture("a dictionary is changed by attributes, and by its items too")
        if found is None:
            found = self._containers[id(container)] = _snapshot(container)
            self.changed[id(container)] = container
        return found


def is_kept_in_slot(thing: object, name: str) -> bool:
    """Whether an attribute is in a slot of the object, and not in its dictionary."""
    return type(class_attribute(type(thing), name)) is MemberDescriptorType


def _snapshot(container: Any) -> Changed:
    base = base_of(container)
    if isinstance(container, dict):
        before: object = dict(base.items(container))
        return Changed(before, base((key, Kept(key)) for key in before))
    before = list(base.__iter__(container))
    if base is set:
        return Changed(before)
    now: object = map(Kept, range(len(before)))
    return Changed(before, deque(now, container.maxlen) if base is deque else base(now))
