"""Objects from outside as the program uses them: attributes, items, whole containers.

Every function here answers as Python does, and guards what the answer relied on.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt
from anyshape.capture.journal import Change, Effect, Journal
from anyshape.capture.tracer import ATOMS, CODE, Leave, Tracer
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path

SEQUENCES: Final = (list, tuple, deque)
SETS: Final = (set, frozenset)


class Outside:
    """Reads and changes of external objects in one capture."""

    def __init__(self, tracer: Tracer, journal: Journal) -> None:
        self.tracer = tracer
        self.journal = journal
        #: objects by the identity of their instance dictionary, where a program has looked at one
        self.owners: dict[int, object] = {}

    # -- containers ------------------------------------------------------------------------------

    def is_outside(self, value: object) -> bool:
        return id(value) in self.tracer.paths

    def item(self, container: Any, path: Path, key: Any) -> Any:
        """`container[key]` of a list, tuple or dictionary from outside, without user code."""
        if isinstance(container, dict):
            return self._dict_item(container, path, key)
        if isinstance(key, slice):
            return type(container)(self.contents(container, path))[key]
        if type(key) is bool or not isinstance(key, int):
            raise Leave(f"an index of type {type(key).__name__} into a container from outside")
        if self.journal.before(container) is not None or self.journal.wrote_any(container):
            return self.contents(container, path)[key]
        if key < 0 or isinstance(container, deque):
            self.length(container, path)
            key += len(container) if key < 0 else 0
        if not 0 <= key < len(container):
            self.length(container, path)
            return container[key]  # raises IndexError
        return self.tracer.read(container[key], path.item(key))

    def _dict_item(self, container: dict[Any, Any], path: Path, key: Any) -> Any:
        if not is_key(key):
            raise Leave(f"a key of type {type(key).__name__} into a dictionary from outside")
        if self.journal.is_written(container, key):
            return self.journal.written(container, key)
        if self.journal.before(container) is not None:
            self.contents(container, path)
            return dict.__getitem__(container, key)
        try:
            value = dict.__getitem__(container, key)
        except KeyError:
            if type(container) is not dict and hasattr(type(container), "__missing__"):
                raise Leave("a missing key of a dictionary from outside") from None
            self.tracer.guard(Kind.CONTAINS, path, (key, False))
            raise
        return self.tracer.read(value, path.item(key))

    def has_key(self, container: dict[Any, Any], path: Path, key: Any) -> bool:
        found = dict.__contains__(container, key)
        if not is_key(key):
            raise Leave(f"a key of type {type(key).__name__}")
        if self.journal.is_written(container, key):
            return found
        if self.journal.before(container) is not None:
            self.contents(container, path)
            return found
        self.tracer.guard(Kind.CONTAINS, path, (key, found))
        return found

    def length(self, container: Any, path: Path) -> int:
        before = self.journal.before(container)
        if before is not None:
            self.contents(container, path)
        elif self.journal.wrote_any(container) and isinstance(container, dict):
            raise Leave("the length of a dictionary that the program changed")
        else:
            self.tracer.guard(Kind.LENGTH, path, len(container))
        return len(container)

    def truth(self, container: Any, path: Path) -> bool:
        if self.journal.wrote_any(container):
            return bool(self.length(container, path))
        self.tracer.guard(Kind.TRUTH, path, bool(container))
        return bool(container)

    def contents(self, container: Any, path: Path) -> Any:
        """The container with everything in it guarded: a plain list, dictionary or set of what the
        program gets for each value."""
        before = self.journal.before(container)
        then = container if before is None else before
        tracer = self.tracer
        if isinstance(container, dict):
            keys = tuple(then)
            if not all(map(is_key, keys)):
                raise Leave("a dictionary from outside with keys that cannot be compared")
            if before is None and self.journal.wrote_any(container):
                raise Leave("a dictionary from outside that the program changed")
            tracer.guard(Kind.KEYS, path, keys)
            read = {key: tracer.read(value, path.item(key)) for key, value in then.items()}
            return read if before is None else _now(container, then, read)
        if isinstance(container, SETS):
            members = frozenset(then)
            if not all(type(member) in ATOMS for member in members):
                raise Leave("a set from outside with members that cannot be compared")
            tracer.guard(Kind.MEMBERS, path, members)
            return container
        tracer.guard(Kind.LENGTH, path, len(then))
        read = [tracer.read(value, path.item(index)) for index, value in enumerate(then)]
        if before is None and not self.journal.wrote_any(container):
            return read
        if any(map(holds_traced, read)):
            raise Leave("a sequence of dynamic numbers from outside that the program changes")
        by_identity = {id(value): got for value, got in zip(then, read, strict=True)}
        return [by_identity.get(id(value), value) for value in container]

    def each(self, container: Any, path: Path) -> Iterator[Any]:
        """Iteration over a sequence from outside, which may change meanwhile."""
        self.tracer.guard(Kind.LENGTH, path, len(container))
        index = 0
        while index < len(container):
            yield self._nth(container, path, index)
            index += 1

    def _nth(self, container: Any, path: Path, index: int) -> Any:
        if self.tracer.active:
            try:
                return self.item(container, path, index)
            except Leave as left:
                self.tracer.leave(left.reason, *left.hints)
        return container[index]

    # -- changes ---------------------------------------------------------------------------------

    def set_item(self, container: Any, path: Path, key: Any, value: Any) -> None:
        if isinstance(container, dict):
            if not is_key(key):
                raise Leave(f"a key of type {type(key).__name__} stored outside")
            if not self.journal.is_written(container, key):
                # The order of the keys, and so what iteration gives, depends on whether it is new.
                self.has_key(container, path, key)
            dict.__setitem__(container, key, self.storable(value))
            self.journal.write(container, key, value)
            if id(container) in self.owners:
                self.journal.write(self.owners[id(container)], key, value)
        else:
            self.journal.snapshot(container)
            self.contents(container, path)
            container[key] = self.storable(value)
        self.journal.add(Effect(Change.SET_ITEM, path, key, (value,)))

    def delete_item(self, container: Any, path: Path, key: Any) -> None:
        if id(container) in self.owners:
            raise Leave("an item of an instance dictionary is deleted")
        self.journal.snapshot(container)
        self.contents(container, path)
        del container[key]
        self.journal.add(Effect(Change.DELETE_ITEM, path, key))

    def method(self, container: Any, path: Path, function: Any, args: tuple[Any, ...]) -> Any:
        """A method that changes a container from outside."""
        if id(container) in self.owners:
            raise Leave("an instance dictionary is changed by a method")
        if self.journal.wrote_any(container) and self.journal.before(container) is None:
            raise Leave("a container from outside that is changed in two ways")
        self.journal.snapshot(container)
        name = function.__name__
        if name not in _BLIND:
            self.contents(container, path)
        args = tuple(self.stored_contents(arg) if name in _TAKES_MANY else arg for arg in args)
        result = function(container, *map(self.storable, args))
        self.journal.add(Effect(Change.METHOD, path, function, args))
        return result

    def storable(self, value: Any) -> Any:
        """A value as it may be put into an object outside: no traced numbers inside."""
        if type(value) is TracedInt or type(value) is TracedFloat:
            return int.__add__(value, 0) if type(value) is TracedInt else float.__add__(value, 0.0)
        if holds_traced(value):
            raise Leave("a container of traced numbers stored outside")
        return value

    def stored_contents(self, value: Any) -> Any:
        path = self.tracer.path_of(value)
        if path is not None and isinstance(value, (*SEQUENCES, *SETS, dict)):
            return self.contents(value, path)
        if type(value) in (list, tuple, set, frozenset, dict):
            return type(value)(value)
        raise Leave(f"a {type(value).__name__} spread into a container outside")


#: Methods whose effect does not depend on what is in the container.
_BLIND: Final = frozenset({"append", "extend", "appendleft", "extendleft", "clear"})

_TAKES_MANY: Final = frozenset({"extend", "extendleft", "update"})


def _now(container: dict[Any, Any], then: dict[Any, Any], read: dict[Any, Any]) -> dict[Any, Any]:
    return {
        key: read[key] if key in then and then[key] is value else value
        for key, value in container.items()
    }


def is_key(key: Any) -> bool:
    """Whether a key is compared without user code, and its value is all there is to it."""
    kind = type(key)
    if kind is tuple:
        return all(map(is_key, key))
    return kind in ATOMS or isinstance(key, (*CODE, enum.Enum))


def holds_traced(value: Any, depth: int = 0) -> bool:
    """Whether there is a traced number in nested built-in containers."""
    kind: Any = type(value)
    if kind is TracedInt or kind is TracedFloat:
        return True
    parts = _parts(kind, value)
    return depth < _DEEPEST and any(holds_traced(part, depth + 1) for part in parts)


_DEEPEST: Final = 20


def _parts(kind: Any, value: Any) -> Iterable[Any]:
    if kind in (list, tuple, set, frozenset, torch.Size) or (
        issubclass(kind, tuple) and hasattr(kind, "_fields")
    ):
        return value
    if kind is dict or kind is OrderedDict:
        return (*value.keys(), *value.values())
    return (value.start, value.stop, value.step) if kind is slice else ()
