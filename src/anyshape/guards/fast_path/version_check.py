"""Module state checked at the price of a comparison: what led to the objects has not changed.

A model has thousands of guards on the same few hundred dictionaries, which hardly ever change. When
all guards on them have passed, the versions of the dictionaries are noted. As long as they are the
same, so is every object that was found through them, and neither the way nor the objects have to
be looked at again, except for what an object can change in itself: tensors have to be checked, or
watched as well.

    L['self'].__dict__['_modules']['0'].__dict__['training']

is three pointers to types and instance dictionaries and three versions. A stamp keeps alive what it
watches, so that no address is used again; the root is held weakly, and the stamp goes with it.

Classes have dictionaries too, so what a class holds and what it lacks, hundreds of guards on a
dozen classes, is a version a class. The order of its bases, like the code and the defaults of a
function, is a pointer.

Of a dictionary that changes all the time (`self.calls += 1`) the entries that were read are looked
up instead. The globals of a script are not stamped: it assigns them in its main loop.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from operator import is_
from time import perf_counter
from types import CellType, ModuleType
from typing import Final, NamedTuple, cast

from anyshape.guards.fast_path.memory_watch import (
    FIELDS,
    Unwatchable,
    Watch,
    address_of_cell_contents,
    address_of_dictionary,
    address_of_field,
    address_of_length,
    address_of_type,
    address_of_version,
    addresses_of_item,
    dictionary_of_class,
    dictionary_of_instance,
    field_owner,
)
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory
from anyshape.guards.guard import Guard, Kind, TensorSpec
from anyshape.guards.path import Access, Path
from anyshape.guards.values import (
    PRIMITIVES,
    class_attribute,
    dictionary_reader,
    instance_dictionary,
    item_of,
    keys_of,
    reads_plainly,
)

#: `Py_TPFLAGS_HEAPTYPE`: of instances of such types, `__class__` can be assigned
_MADE_BY_CLASS: Final = 1 << 9
#: An entry that serves more objects than this is not stamped for all of them.
_MOST: Final = 256
#: Stamping may take this share of the time.
_SHARE: Final = 0.1

#: A dictionary whose version changed so often while all guards held is not watched by its version.
_RESTLESS: Final = 3

_Dictionary = dict[object, object]
_ABSENT: Final = object()


class Entries(NamedTuple):
    """What dictionaries have to have at keys, by identity; `_ABSENT` for nothing."""

    dictionaries: list[_Dictionary]
    keys: list[object]
    values: list[object]

    def add(self, dictionary: _Dictionary, key: object, value: object) -> None:
        self.dictionaries.append(dictionary)
        self.keys.append(key)
        self.values.append(value)


# -- what can be stamped: decided when code is generated ----------------------------------------


class StampScope:
    """Which paths and guards of an entry a stamp stands for."""

    def __init__(
        self, guards: Iterable[Guard], root: Path | None, memory: TensorMemory | None
    ) -> None:
        self._root = root
        self._watched: frozenset[type] = frozenset() if memory is None else memory.types
        self._types: dict[Path, type] = {}
        self._paths: dict[Path, bool] = {}
        self._with_dictionary: dict[type, bool] = {}
        #: what stands at these paths is held by the guard itself
        self._held: set[Path] = set()
        for guard in guards:
            if guard.path is None:
                continue
            if guard.kind is Kind.TYPE:
                self._types.setdefault(guard.path, cast("type", guard.value))
            elif guard.kind is Kind.IDENTITY or guard.kind is Kind.EQUALS:
                self._held.add(guard.path)

    def has_path(self, path: Path) -> bool:
        """Whether every step of the path goes through something that is watched."""
        found = self._paths.get(path)
        if found is None:
            parent = path.parent
            if parent is None:
                constant = path.access is Access.CONSTANT
                found = path is self._root or (constant and _is_quiet(path.key))
            elif path.access is Access.ATTRIBUTE and parent.access is Access.CONSTANT:
                found = _has_field(parent.key, path.key)
            elif path.access is Access.ATTRIBUTE:
                found = path.key == "__dict__" and self.has_path(parent) and self.has_own(parent)
            elif _is_global(path) and path not in self._held:
                # A stamp would keep alive what the module has let go of: a model, a tensor.
                found = False
            else:
                found = self.has_path(parent) and _STEPS[path.access](self, parent)
            self._paths[path] = found
        return found

    def has_guard(self, guard: Guard) -> bool:
        """Whether the guard holds for as long as the stamp does."""
        path = guard.path
        covers = _COVERED.get(guard.kind)
        if covers is None or path is None:
            return False
        return self.has_path(path) and covers(self, path, guard.value)

    def always(self, path: Path, value: object) -> bool:
        return True

    def equals(self, path: Path, value: object) -> bool:
        return type(value) in PRIMITIVES or _is_immutable(value)

    def size(self, path: Path, value: object) -> bool:
        return self.has_items(path) and not _is_shared(path)

    def contains(self, path: Path, value: object) -> bool:
        return self.has_items(path) and issubclass(self.type_at(path), dict)

    def keys(self, path: Path, value: object) -> bool:
        return self.has_keys(path)

    def no_name(self, path: Path, value: object) -> bool:
        return self.has_dictionary(path)

    def tensor(self, path: Path, value: object) -> bool:
        return cast("TensorSpec", value).type in self._watched

    def type_at(self, path: Path) -> type:
        """The type that a guard says; `object` if none does."""
        if path.access is Access.CONSTANT and not type(path.key).__flags__ & _MADE_BY_CLASS:
            return type(path.key)
        # Instance dictionaries of other types are not stamped.
        usual = dict if path.access is Access.ATTRIBUTE and path.key == "__dict__" else object
        return self._types.get(path, usual)

    def has_dictionary(self, path: Path) -> bool:
        if path.access is Access.CONSTANT and (
            type(path.key) is ModuleType or issubclass(type(path.key), type)
        ):
            return True
        kind = self.type_at(path)
        found = self._with_dictionary.get(kind)
        if found is None:
            found = dictionary_reader(kind) is not None and not issubclass(kind, type)
            self._with_dictionary[kind] = found
        return found and not _is_global(path)

    def has_own(self, path: Path) -> bool:
        """Whether `__dict__` of the object is its dictionary."""
        return self.has_dictionary(path) and reads_plainly(self.type_at(path))

    def has_items(self, path: Path) -> bool:
        return issubclass(self.type_at(path), dict | list | tuple) and not _is_global(path)

    def has_keys(self, path: Path) -> bool:
        """Other kinds of dictionaries may have an order of their own."""
        return self.type_at(path) is dict and not _is_shared(path)

    def is_cell(self, path: Path) -> bool:
        return self.type_at(path) is CellType


def _is_quiet(value: object) -> bool:
    """Whether a constant is not the globals of a script, nor some other dictionary that is written
    all the time; those of modules are written when they are imported."""
    if type(value) is not dict:
        return True
    names = cast("dict[object, object]", value)
    name = names.get("__name__")
    module = sys.modules.get(name) if type(name) is str and name != "__main__" else None
    return type(module) is ModuleType and module.__dict__ is names


def _is_global(path: Path) -> bool:
    """Whether a module leads to the object: there programs keep the state that changes."""
    return path.parent is not None and type(path.root.key) is dict


def _is_shared(path: Path) -> bool:
    """Whether a module or a class leads to the object. If that is a dictionary in which others keep
    things all the time, its length is compared, since looking at entries would not tell it."""
    root = path.root
    return root.access is Access.CONSTANT and (
        type(root.key) is dict or issubclass(type(root.key), type)
    )


def _has_field(owner: object, name: object) -> bool:
    """Whether the attribute is a pointer in the object, and nothing else answers for it."""
    kind = field_owner(owner)
    usual = class_attribute(kind, name)
    return (kind, name) in FIELDS and class_attribute(type(owner), name) is usual


def _is_immutable(value: object) -> bool:
    parts = cast("Iterable[object]", value) if type(value) in (tuple, frozenset) else ()
    return all(map(_is_immutable, parts)) if parts else type(value) in PRIMITIVES


_STEPS: Final[dict[Access, Callable[[StampScope, Path], bool]]] = {
    Access.INSTANCE: StampScope.has_dictionary,
    Access.ITEM: StampScope.has_items,
    Access.KEY: StampScope.has_keys,
    Access.CELL: StampScope.is_cell,
}
_COVERED: Final[dict[Kind, Callable[[StampScope, Path, object], bool]]] = {
    Kind.TYPE: StampScope.always,
    Kind.IDENTITY: StampScope.always,
    Kind.EQUALS: StampScope.equals,
    Kind.LENGTH: StampScope.size,
    Kind.TRUTH: StampScope.size,
    Kind.CONTAINS: StampScope.contains,
    Kind.KEYS: StampScope.keys,
    Kind.NO_INSTANCE_ATTRIBUTE: StampScope.no_name,
    Kind.TENSOR: StampScope.tensor,
}


# -- taking stamps: when all guards have passed -------------------------------------------------


class Stamp(NamedTuple):
    """Generated code looks at the first four, by position."""

    view: memoryview
    expected: memoryview
    objects: tuple[object, ...]
    #: None where versions say it all
    entries: Entries | None
    watch: Watch
    #: dictionaries that are watched by their version, by the address of that; seldom more than one
    dictionaries: dict[int, list[_Dictionary]]
    #: whatever else has an address that is watched, except the root
    kept: list[object]
    #: the root, weakly; a constant needs no holding
    root: weakref.ref[object] | None


def entries_hold(entries: Entries) -> bool:
    dictionaries, keys, values = entries
    return all(map(is_, map(_get, dictionaries, keys, repeat(_ABSENT)), values))


_get: Final = cast("Callable[[_Dictionary, object, object], object]", getattr(dict, "get"))  # noqa: B009


class VersionChecks:
    """The stamps of one entry, by the identity of the root object: one entry serves many instances
    of a class."""

    def __init__(
        self,
        guards: Sequence[Guard],
        wanted: Sequence[Path],
        root: Path | None,
        memory: TensorMemory | None,
        writes: Sequence[Path] = (),
    ) -> None:
        self._guards: Final = guards
        #: what the entry writes itself: the versions of these dictionaries change with every call
        self._writes: Final = writes
        self._wanted: Final = wanted
        self._root: Final = root
        self._memory: Final = memory
        self._not_before = 0.0
        #: how often a dictionary had changed when a stamp no longer held
        self._changes: Final = Counter[int]()
        self.by_root: Final[dict[int, Stamp]] = {}
        #: the guards, all of them, by generated code; set when that is built
        self.full_check: Callable[[object], object] = _nothing_holds

    def take(self, root: object) -> None:
        """Note the state under the root, for which the guards have just passed. A stamp is never
        needed: whatever goes wrong here leaves the full check."""
        started = perf_counter()
        if started < self._not_before:
            return
        old = self.by_root.pop(id(root), None)
        if old is not None:
            self._changes.update(old.watch.changed(old.dictionaries))
        with suppress(Exception):
            self._take(root)
        now = perf_counter()
        self._not_before = now + (now - started) / _SHARE

    def _take(self, root: object) -> None:
        restless = {at for at, count in self._changes.items() if count >= _RESTLESS}
        walk = _Watching(self._root, root, self._memory)
        for guard in self._guards:
            walk.cover(guard)
        objects = tuple(map(walk.at, self._wanted))
        entries = walk.without_versions(restless | walk.versions_of(self._writes))
        watch = Watch(tuple(walk.addresses))
        # Another thread may have changed something since the guards passed: they are checked once
        # more, between two looks at the versions.
        if self.full_check(root) is None or not watch.holds():
            return
        if entries is not None and not entries_hold(entries):
            return
        if len(self.by_root) >= _MOST:
            self.by_root.clear()
        key, stamps = id(root), self.by_root
        # A root that cannot be held weakly (TypeError) has no stamp: it would never be freed.
        held = None if self._root is None else weakref.ref(root, lambda _: stamps.pop(key, None))
        stamps[key] = Stamp(
            watch.view, watch.expected, objects, entries, watch, walk.dictionaries, walk.kept, held
        )


def _nothing_holds(root: object) -> object:
    return None


class _Watching:
    """Walks paths once more, in the ordinary way, and notes the words that tell when it would lead
    elsewhere."""

    def __init__(self, root: Path | None, thing: object, memory: TensorMemory | None) -> None:
        self._found: dict[Path, object] = {} if root is None else {root: thing}
        self._root = root
        self._memory = memory
        #: ordered, each once
        self.addresses: dict[int, None] = {}
        self.dictionaries: dict[int, list[_Dictionary]] = {}
        #: what was read of each, by its identity; None if all of it was
        self._read: dict[int, dict[object, object] | None] = {}
        #: whatever has an address among these, except the root; and the objects found
        self.kept: list[object] = []

    def note(self, *addresses: int) -> None:
        self.addresses.update(dict.fromkeys(addresses))

    def note_entry(self, dictionary: object, key: object) -> object:
        """The value at the key; it stays, as long as the version does."""
        found = cast("_Dictionary", dictionary)
        value = _get(found, key, _ABSENT)
        self._note_version(found)
        read = self._read[id(found)]
        if read is not None:
            read[key] = value
        return value

    def note_all(self, dictionary: object) -> None:
        self._note_version(cast("_Dictionary", dictionary))
        self._read[id(dictionary)] = None

    def _note_version(self, dictionary: _Dictionary) -> None:
        if id(dictionary) not in self._read:
            self._read[id(dictionary)] = {}
            address = address_of_version(dictionary)
            self.note(address)
            self.dictionaries.setdefault(address, []).append(dictionary)

    def versions_of(self, paths: Sequence[Path]) -> set[int]:
        """Where the versions of the dictionaries lie that the objects at these paths are, or have,
        of those that are watched."""
        found: set[int] = set()
        for path in paths:
            thing = self._found.get(path)
            with suppress(AttributeError, TypeError):  # nothing that has a dictionary
                own = thing if issubclass(type(thing), dict) else instance_dictionary(thing)
                if id(own) in self._read:
                    found.add(address_of_version(own))
        return found

    def without_versions(self, restless: set[int]) -> Entries | None:
        """Watch the entries of these dictionaries in place of their versions, where it is known
        which they are."""
        entries = Entries([], [], [])
        for address in restless & self.dictionaries.keys():
            found = [(each, self._read[id(each)]) for each in self.dictionaries[address]]
            if any(read is None for _, read in found):
                continue
            del self.addresses[address], self.dictionaries[address]
            for dictionary, read in found:
                for key, value in (read or {}).items():
                    entries.add(dictionary, key, value)
        return entries if entries.keys else None

    def at(self, path: Path) -> object:
        if path not in self._found:
            self._found[path] = _READERS[path.access](self, path)
            self.kept.append(self._found[path])
        return self._found[path]

    def above(self, path: Path) -> object:
        assert path.parent is not None, f"{path.text} is a root"
        return self.at(path.parent)

    def cover(self, guard: Guard) -> None:
        assert guard.path is not None, f"{guard.kind.name} is not stamped"
        _COVERS[guard.kind](self, self.at(guard.path), guard.value)

    # -- steps

    def held(self, path: Path) -> object:
        return path.key

    def instance(self, path: Path) -> object:
        return self.present(self.note_entry(self.dictionary(self.above(path)), path.key))

    def present(self, value: object) -> object:
        if value is _ABSENT:
            raise Unwatchable
        return value

    def plain(self, dictionary: _Dictionary) -> _Dictionary:
        if type(dictionary) is not dict:
            raise Unwatchable
        return dictionary

    def dictionary(self, thing: object) -> _Dictionary:
        """The instance dictionary; that it is still the one is noted."""
        if issubclass(type(thing), type):
            owned = dictionary_of_class(thing)
            self.kept.append(owned)
            return owned
        found = dictionary_of_instance(thing)
        if type(thing) is not ModuleType:  # A module keeps its dictionary for life.
            self.note(address_of_type(thing), address_of_dictionary(thing, found))
        self.kept.append(found)
        return found

    def item(self, path: Path) -> object:
        container = self.above(path)
        if issubclass(type(container), dict):
            return self.present(self.note_entry(container, path.key))
        if issubclass(type(container), list):
            index = cast("int", path.key)
            self.note(*addresses_of_item(container, index))
        return item_of(container, path.key)

    def key(self, path: Path) -> object:
        container = self.above(path)
        self.note_all(container)
        return keys_of(container)[cast("int", path.key)]

    def field(self, path: Path) -> object:
        owner, name = self.above(path), cast("str", path.key)
        if path.parent is not None and path.parent.access is not Access.CONSTANT:
            return self.plain(self.dictionary(owner))
        value = getattr(owner, name)
        self.note(address_of_field(owner, name, value))
        return value

    def cell(self, path: Path) -> object:
        cell = self.above(path)
        contents = cast("CellType", cell).cell_contents
        self.note(address_of_cell_contents(cell, contents))
        return contents

    # -- guards

    def nothing_more(self, thing: object, value: object) -> None:
        """The same object, hence the same answer."""

    def type(self, thing: object, value: object) -> None:
        if type(thing).__flags__ & _MADE_BY_CLASS:
            self.note(address_of_type(thing))

    def size(self, thing: object, value: object) -> None:
        if issubclass(type(thing), dict):
            self.note_all(thing)
        elif issubclass(type(thing), list):
            self.note(address_of_length(thing))

    def contains(self, thing: object, value: object) -> None:
        self.note_entry(thing, cast("tuple[object, bool]", value)[0])

    def no_name(self, thing: object, value: object) -> None:
        self.note_entry(self.dictionary(thing), value)

    def tensor(self, thing: object, value: object) -> None:
        words = self._memory(thing) if self._memory is not None else None
        if words is None:
            raise Unwatchable
        self.note(address_of_type(thing), *words)


_READERS: Final[Mapping[Access, Callable[[_Watching, Path], object]]] = {
    Access.CONSTANT: _Watching.held,
    Access.INSTANCE: _Watching.instance,
    Access.ITEM: _Watching.item,
    Access.KEY: _Watching.key,
    Access.CELL: _Watching.cell,
    Access.ATTRIBUTE: _Watching.field,
}
_COVERS: Final[Mapping[Kind, Callable[[_Watching, object, object], None]]] = {
    Kind.TYPE: _Watching.type,
    Kind.IDENTITY: _Watching.nothing_more,
    Kind.EQUALS: _Watching.nothing_more,
    Kind.LENGTH: _Watching.size,
    Kind.TRUTH: _Watching.size,
    Kind.CONTAINS: _Watching.contains,
    Kind.KEYS: _Watching.size,
    Kind.NO_INSTANCE_ATTRIBUTE: _Watching.no_name,
    Kind.TENSOR: _Watching.tensor,
}
