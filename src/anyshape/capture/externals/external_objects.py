"""Containers from outside as the program uses them: items, whole containers, changes.

Every function here answers as Python does, and guards what the answer relied on. Guards are checked
before a call, so they describe the state before the program changed anything; what it sees after
its own changes is kept in the journal beside the real container.
"""

from __future__ import annotations

import enum
import types
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.dict_views import FOLLOWING
from anyshape.capture.externals.side_effects import Change, Changed, Effect, Journal, Kept, base_of
from anyshape.capture.externals.untrace import Untrace, concretized, untraced
from anyshape.capture.numbers.traced_text import TRACED_VALUES
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.guards.values import class_attribute

SEQUENCES: Final = (list, tuple, deque)
SETS: Final = (set, frozenset)
#: Views of items, and what they are views of.
ITEMS: Final[dict[Any, Any]] = {type(kind().items()): kind for kind in (dict, OrderedDict)}

#: Native iterators: used up where they are spread into a container.
ITERATORS: Final = (types.GeneratorType, zip, map, filter, enumerate, reversed, type(iter([])))


class Externals:
    """Reads and changes of external objects in one capture."""

    def __init__(self, tracer: Tracer, journal: Journal) -> None:
        self.tracer = tracer
        self.journal = journal
        #: instance dictionaries that a program has looked at, by identity. They are written by
        #: attribute as well: what was written is in the journal by name
        self.owners: dict[int, object] = {}
        #: dictionaries whose own `values()` or `items()` the program has got
        self._viewed: set[int] = set()

    def is_external(self, value: object) -> bool:
        return id(value) in self.tracer.paths

    def strip(self) -> None:
        """The capture ends: what the program made and put outside holds plain numbers from now."""
        if not self.journal.effects:
            return
        walk = Untrace(self.tracer.kept, modules=True)
        for effect in self.journal.effects:
            for value in effect.values:
                walk.strip(value)

    def forget(self) -> None:
        """Let go of the program's objects: to be called when nobody watches any more."""
        self.owners.clear()
        self._viewed.clear()
        self.journal.forget()

    # -- reading -----------------------------------------------------------------------------------

    def item(self, container: object, path: Path, key: Any) -> Any:
        """`container[key]` of a list, tuple or dictionary from outside, without user code."""
        if isinstance(container, dict):
            return self._dict_item(container, path, key)
        base = base_of(container)
        if type(key) is slice:
            return self._slice(container, path, base, key)
        if not isinstance(key, int):
            raise AbortCapture(
                f"an index of type {type(key).__name__} into a container from outside the function"
            )
        key = int(key)
        changed = self.journal.changed_container(container)
        if changed is not None:
            self._guard_length(container, path)
            return self._seen(changed, path, changed.now[key])
        length = base.__len__(container)
        if key < 0 or isinstance(container, deque):
            self._guard_length(container, path)
            key += length if key < 0 else 0
        if not 0 <= key < length:
            self._guard_length(container, path)
            return base.__getitem__(container, length)  # raises IndexError
        return self.tracer.read(base.__getitem__(container, key), path.item(key))

    def _slice(self, container: Any, path: Path, base: Any, key: slice) -> object:
        if base is deque:
            return container[key]  # raises TypeError
        self._guard_length(container, path)
        indices = range(base.__len__(container))[key]
        # Python gives the plain class for a named tuple, and a shape for a shape.
        kind = torch.Size if type(container) is torch.Size else base
        return kind([self.item(container, path, index) for index in indices])

    def _dict_item(self, container: dict[object, object], path: Path, key: object) -> object:
        by = None if is_key(key) else self._told_by_identity(key)
        if self.journal.is_written(container, key):
            return self.journal.written(container, key, path)
        if not dict.__contains__(container, key):
            if type(container) is not dict and hasattr(type(container), "__missing__"):
                # The program puts it there, mostly: state that is made at the first call.
                raise AbortCapture(_MISSING_KEY, is_passing=True)
            if by is not None:
                raise AbortCapture(_MISSING_KEY, is_passing=True)
            self._guard_key(container, path, key)
            return dict.__getitem__(container, key)  # raises KeyError
        changed = self.journal.changed_container(container)
        if changed is not None:
            return self._seen(changed, path, changed.now[key])
        own = path.item(key) if by is None else path.keyed(by)
        return self.tracer.read(dict.__getitem__(container, key), own)

    def _told_by_identity(self, key: object) -> Path:
        """Where an object is that is a key, which is guarded to be one that is told by identity.
        The caller sees to it that it stays another one than other keys."""
        path = self.tracer.path_of(key)
        kind = type(key)
        plain = torch.Tensor if isinstance(key, torch.Tensor) else object
        own = (class_attribute(kind, "__hash__"), class_attribute(kind, "__eq__"))
        if path is None or own != (plain.__hash__, plain.__eq__):
            raise AbortCapture(
                f"a key of type {kind.__name__} into a dictionary from outside the function"
            )
        self.tracer.guard(Kind.TYPE, path, kind)
        return path

    def _seen(self, changed: Changed, path: Path, value: object) -> object:
        """A value in a changed container as the program gets it."""
        if type(value) is Kept:
            key = value.key
            own = path.item(key) if is_key(key) else path.keyed(self._told_by_identity(key))
            return self.tracer.read(changed.before[key], own)
        return value

    def has_key(self, container: dict[Any, Any], path: Path, key: object) -> bool:
        if not is_key(key):
            return self._has_object(container, path, key)
        if self.journal.is_written(container, key):
            self.journal.met[path] = container
        else:
            self._guard_key(container, path, key)
        return dict.__contains__(container, key)

    def _has_object(self, container: dict[Any, Any], path: Path, key: object) -> bool:
        """Whether there is something at a key that is told by its identity."""
        by = self._told_by_identity(key)
        if self.journal.wrote_any(container):
            raise AbortCapture(
                f"a key of type {type(key).__name__} of a dictionary that is changed"
            )
        if not dict.__contains__(container, key):
            raise AbortCapture(_MISSING_KEY, is_passing=True)
        self.tracer.guard(Kind.TYPE, path.keyed(by), type(dict.__getitem__(container, key)))
        return True

    def has_member(self, container: Any, path: Path, member: object) -> bool:
        """Of a set; the others of its members are not guarded, unless the program changed it."""
        if not is_key(member) or self.journal.wrote_any(container):
            self.members(container, path)
        else:
            self.tracer.guard(Kind.CONTAINS, path, (member, member in container))
        return member in container

    def length(self, container: object, path: Path) -> int:
        if isinstance(container, SETS) and self.journal.wrote_any(container):
            self.members(container, path)
        else:
            self._guard_length(container, path)
        return base_of(container).__len__(container)

    def truth(self, container: object, path: Path) -> bool:
        if self.journal.wrote_any(container):
            return bool(self.length(container, path))
        found = base_of(container).__len__(container) != 0
        self.tracer.guard(Kind.TRUTH, path, found)
        return found

    def members(self, container: object, path: Path) -> object:
        """A set from outside, with its members guarded but not their order."""
        members = frozenset(self._before(container))
        if not all(map(is_key, members)):
            raise AbortCapture(
                "a set from outside the function with members that cannot be compared"
            )
        self.tracer.guard(Kind.MEMBERS, path, members)
        return container

    def keys(self, container: dict[object, object], path: Path) -> Any:
        """A dictionary from outside, with its keys guarded in order."""
        before = self._before(container)
        if before is container and self.journal.wrote_any(container):
            raise AbortCapture("an instance dictionary that the program changed")
        keys = tuple(before) if before is not container else tuple(base_of(before).keys(before))
        if not all(map(is_key, keys)):
            raise AbortCapture(
                "a dictionary from outside the function with keys that cannot be compared"
            )
        self.tracer.guard(Kind.KEYS, path, keys)
        return container

    def contents(self, container: object, path: Path) -> Any:
        """The container with everything in it guarded: a plain list or dictionary of what the
        program gets for each value; of a set, the set itself."""
        changed = self.journal.changed_container(container)
        base = base_of(container)
        if isinstance(container, dict):
            self.keys(container, path)
            return {key: self._dict_item(container, path, key) for key in base.keys(container)}
        if isinstance(container, SETS):
            # What is made of a set has an order that follows from the set's.
            self.members(container, path)
            before = self._before(container)
            order = tuple(base_of(before).__iter__(before))
            self.tracer.guard(Kind.PREDICATE, path, HasOrder(order), "the order of a set")
            return container
        self._guard_length(container, path)
        if changed is not None:
            return [self._seen(changed, path, value) for value in changed.now]
        read = self.tracer.read
        values = enumerate(base.__iter__(container))
        return [read(value, path.item(index)) for index, value in values]

    def each(self, container: object, path: Path) -> Iterator[Any]:
        """Iteration over a container from outside, which may change meanwhile."""
        live = base_of(container).__iter__(container)
        if isinstance(container, dict):
            self.keys(container, path)
            return live  # the keys themselves; Python notices when the dictionary changes
        if isinstance(container, SETS):
            self.contents(container, path)
            return live
        self._guard_length(container, path)
        return self._each_item(container, path, live)

    def _each_item(self, container: object, path: Path, live: Iterator[object]) -> Iterator[object]:
        for index, value in enumerate(live):
            yield self._nth(container, path, index, value)

    def _nth(self, container: object, path: Path, index: int, value: object) -> object:
        if self.tracer.active:
            try:
                return self.item(container, path, index)
            except AbortCapture as left:
                self.tracer.leave_for(left)
        return value

    def view(self, container: dict[Any, object], path: Path, name: str) -> object:
        """`keys()`, `values()` or `items()`, which follow the dictionary as it changes."""
        own = getattr(base_of(container), name)
        if name == "keys":
            self.keys(container, path)
            return own(container)
        contents = self.contents(container, path)
        if any(value is not dict.__getitem__(container, key) for key, value in contents.items()):
            return FOLLOWING[name](container)
        self._viewed.add(id(container))
        return own(container)

    def own_dictionary(self, held: object, path: Path) -> None:
        """The program looks at the dictionary of the object at the path."""
        if id(held) not in self.owners:
            if self.journal.wrote_any(held):
                raise AbortCapture("the dictionary of an object that the program changed")
            self.owners[id(held)] = held
        # One of a class of the program's may answer otherwise.
        self.tracer.read(held, path.attribute("__dict__"))

    # -- guards of the state before ----------------------------------------------------------------

    def _before(self, container: object) -> Any:
        changed = self.journal.changed_container(container)
        return container if changed is None else changed.before

    def _guard_key(self, container: dict[object, object], path: Path, key: object) -> None:
        found = dict.__contains__(self._before(container), key)
        self.tracer.guard(Kind.CONTAINS, path, (key, found))

    def _guard_length(self, container: object, path: Path) -> None:
        before = self._before(container)
        if before is container and self.journal.wrote_any(container):
            raise AbortCapture("the length of an instance dictionary that the program changed")
        if before is not container and isinstance(container, deque):
            self.bound(container, path)
        self.tracer.guard(Kind.LENGTH, path, base_of(before).__len__(before))

    def bound(self, container: deque[Any], path: Path) -> int | None:
        """`maxlen`, which says what is left after a change."""
        self.tracer.guard(Kind.EQUALS, path.attribute("maxlen"), container.maxlen)
        return container.maxlen

    # -- changes -----------------------------------------------------------------------------------

    def set_item(self, container: object, path: Path, key: object, value: object) -> None:
        if not isinstance(container, dict):
            self._set_element(container, path, key, value)
            return
        self._check_key(key)
        # The order of the keys, and so what iteration gives, depends on whether it is new.
        self.has_key(container, path, key)
        stored = self.storable(value)
        if stored is not value and id(container) in self._viewed:
            raise AbortCapture(
                "a dynamic number is stored into a dictionary whose values are looked at"
            )
        if id(container) in self.owners:
            self.journal.write(container, key, value)
        else:
            self.journal.changing(container).now[key] = value
        base_of(container).__setitem__(container, key, stored)
        self._add(container, path, "__setitem__", Change.SET_ITEM, key, (value,))

    def _set_element(self, container: object, path: Path, key: object, value: Any) -> None:
        self._check_position(key)
        self._guard_length(container, path)
        set_item = base_of(container).__setitem__
        if type(key) is not slice:
            stored = self.storable(value)
        else:
            value = self.spread(value)
            stored = list(map(self.storable, value))
            if not self.tracer.active:  # a generator has left
                set_item(container, key, untraced(value))
                return
        now = self.journal.changing(container).now
        set_item(container, key, stored)
        now[key] = value
        self._add(container, path, "__setitem__", Change.SET_ITEM, key, (value,))

    def delete_item(self, container: object, path: Path, key: object) -> None:
        if id(container) in self.owners:
            raise AbortCapture("an item of an instance dictionary is deleted")
        if isinstance(container, dict):
            self._check_key(key)
            self.has_key(container, path, key)
        else:
            self._check_position(key)
            self._guard_length(container, path)
        now = self.journal.changing(container).now
        base_of(container).__delitem__(container, key)
        del now[key]
        self._add(container, path, "__delitem__", Change.DELETE_ITEM, key, ())

    def _check_key(self, key: object) -> None:
        if not is_key(key):
            raise AbortCapture(f"a change at a key of type {type(key).__name__} outside")

    def _check_position(self, key: object) -> None:
        parts = (key.start, key.stop, key.step) if type(key) is slice else (key,)
        for part in parts:
            if type(part) is not int and (part is not None or type(key) is not slice):
                raise AbortCapture(f"an index of type {type(part).__name__}")

    def _add(
        self,
        container: object,
        path: Path,
        name: str,
        change: Change,
        key: object,
        values: tuple[object, ...],
    ) -> None:
        own = getattr(base_of(container), name)
        if getattr(type(container), name) is own:
            self.journal.add(Effect(change, path, key, values))
        else:  # the class has a method of its own, which is watched and has come to this
            self.journal.add(Effect(Change.METHOD, path, own, (key, *values)))

    def method(self, container: object, path: Path, function: Any, args: tuple[Any, ...]) -> object:
        """A method that changes a container from outside."""
        if id(container) in self.owners:
            raise AbortCapture("an instance dictionary is changed by a method")
        name = function.__name__
        if name in _TAKES_MANY:
            args = tuple(map(self.spread, args))
            if not self.tracer.active:  # a generator has left
                return function(container, *map(untraced, args))
        self._guard_outcome(container, path, name, args)
        if isinstance(container, SETS):
            self.journal.changing(container)
            result = function(container, *args)
            self.journal.add(Effect(Change.METHOD, path, function, args))
            return result
        changed = self.journal.changing(container)
        result = None
        now = changed.now
        if name in _TAKES_OUT:
            now = now.copy()
            result = self._taken(changed, path, function, now, args)
        stored = (
            [list(map(self.storable, arg)) for arg in args]
            if name in _TAKES_MANY
            else map(self.storable, args)
        )
        function(container, *stored)
        if now is changed.now:
            function(now, *args)
        changed.now = now
        self.journal.add(Effect(Change.METHOD, path, function, args))
        return result

    def _guard_outcome(
        self, container: object, path: Path, name: str, args: tuple[object, ...]
    ) -> None:
        """What a method does and returns relies on this."""
        if name in _BLIND:
            return
        if isinstance(container, SETS):
            self.contents(container, path)
        elif not isinstance(container, dict):
            self._guard_length(container, path)
        elif name in _BY_KEY and args:
            self._check_key(args[0])
            self.has_key(container, path, args[0])
        else:
            self.keys(container, path)

    def _taken(self, changed: Changed, path: Path, function: Any, now: object, args: Any) -> object:
        """What a method takes out of `now`; None where it raises, as it will for the container."""
        try:
            found = function(now, *args)
        except (KeyError, IndexError):
            return None
        if function.__name__ == "popitem":
            return found[0], self._seen(changed, path, found[1])
        return self._seen(changed, path, found)

    def storable(self, value: object) -> object:
        """A value as it may be put into an object outside, until the capture ends."""
        return concretized(value)

    def spread(self, value: Any) -> object:
        """What is in a container now, as it is spread into another."""
        path = self.tracer.path_of(value)
        if path is not None and isinstance(value, (*SEQUENCES, *SETS, dict)):
            return self.contents(value, path)
        if type(value) in (list, tuple, set, frozenset, dict):
            return type(value)(value)
        if path is None and isinstance(value, ITERATORS):
            return list(value)
        raise AbortCapture(f"a {type(value).__name__} spread into a container outside")


_MISSING_KEY: Final = "a missing key of a dictionary from outside the function"


class HasOrder:
    """Whether a set is iterated in this order."""

    def __init__(self, order: tuple[Any, ...]) -> None:
        self._order = order

    # Iterated again, it is the same guard.
    def __eq__(self, other: object) -> bool:
        return type(other) is HasOrder and [*map(id, other._order)] == [*map(id, self._order)]

    def __hash__(self) -> int:
        return len(self._order)

    def __call__(self, members: object) -> bool:
        return (
            isinstance(members, SETS) and tuple(base_of(members).__iter__(members)) == self._order
        )


#: Methods whose effect does not depend on what is in the container.
_BLIND: Final = frozenset(
    {
        *("append", "extend", "appendleft", "extendleft", "clear", "__imul__", "__iadd__"),
        *("add", "update", "discard", "__ior__"),
    }
)

_TAKES_MANY: Final = frozenset(
    {
        *("extend", "extendleft", "update", "__iadd__", "__ior__", "__iand__", "__isub__"),
        *("__ixor__", "difference_update", "intersection_update", "symmetric_difference_update"),
    }
)

_TAKES_OUT: Final = frozenset({"pop", "popleft", "popitem"})
_BY_KEY: Final = frozenset({"pop", "move_to_end"})


def is_key(key: Any) -> bool:
    """Whether a key is compared without user code, and its value is all there is to it."""
    kind = type(key)
    if kind is tuple:
        return all(map(is_key, key))
    return kind in ATOMS or isinstance(key, (*CODE, enum.Enum))


def holds_traced(value: object, depth: int = 0) -> bool:
    """Whether there is a traced number in nested built-in containers."""
    kind: object = type(value)
    if kind in TRACED_VALUES:
        return True
    parts = _parts(kind, value)
    return depth < _DEEPEST and any(holds_traced(part, depth + 1) for part in parts)


_DEEPEST: Final = 20


def kinds_in(value: object, depth: int = 0) -> set[type]:
    """The types of what nested built-in containers hold."""
    kind: Any = type(value)
    parts = _parts(kind, value) if depth < _DEEPEST else ()
    if not parts and not (kind in _NESTED and not value):
        return {kind}
    return {each for part in parts for each in kinds_in(part, depth + 1)}


_NESTED: Final = frozenset({*SEQUENCES, *SETS, *ITEMS, torch.Size, dict, OrderedDict})


def _parts(kind: Any, value: Any) -> Collection[object]:
    if kind in (*SEQUENCES, *SETS, torch.Size) or (
        issubclass(kind, tuple) and hasattr(kind, "_fields")
    ):
        return value
    if kind is dict or kind is OrderedDict:
        return (*value.keys(), *value.values())
    if kind in ITEMS:
        return value
    return (value.start, value.stop, value.step) if kind is slice else ()
