"""A walk over the paths of an entry that notes the words of memory which tell when it would lead
elsewhere, or a guard would no longer hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from operator import is_
from types import CellType, ModuleType
from typing import Final, NamedTuple, cast

from anyshape.guards.fast_path.memory_watch import (
    Unwatchable,
    address_of_cell_contents,
    address_of_dictionary,
    address_of_field,
    address_of_length,
    address_of_type,
    address_of_version,
    addresses_of_item,
    dictionary_of_class,
    dictionary_of_instance,
)
from anyshape.guards.fast_path.stamp_scope import MADE_BY_CLASS
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory
from anyshape.guards.path import Access, Path, found_key
from anyshape.guards.values import instance_dictionary, item_of

Dictionary = dict[object, object]
_ABSENT: Final = object()
_get: Final = cast("Callable[[Dictionary, object, object], object]", getattr(dict, "get"))  # noqa: B009


class Entries(NamedTuple):
    """What dictionaries have to have at keys, by identity; `_ABSENT` for nothing."""

    dictionaries: list[Dictionary]
    keys: list[object]
    values: list[object]

    def add(self, dictionary: Dictionary, key: object, value: object) -> None:
        self.dictionaries.append(dictionary)
        self.keys.append(key)
        self.values.append(value)


def entries_hold(entries: Entries) -> bool:
    dictionaries, keys, values = entries
    return all(map(is_, map(_get, dictionaries, keys, repeat(_ABSENT)), values))


class Watching:
    """Walks paths once more, in the ordinary way, and notes the words that tell when it would lead
    elsewhere."""

    def __init__(self, root: Path | None, thing: object, memory: TensorMemory | None) -> None:
        self._found: dict[Path, object] = {} if root is None else {root: thing}
        self._root = root
        self._memory = memory
        #: ordered, each once
        self.addresses: dict[int, None] = {}
        self.dictionaries: dict[int, list[Dictionary]] = {}
        #: what was read of each, by its identity; None if all of it was
        self._read: dict[int, dict[object, object] | None] = {}
        #: whatever has an address among these, except the root; and the objects found
        self.kept: list[object] = []

    def note(self, *addresses: int) -> None:
        self.addresses.update(dict.fromkeys(addresses))

    def note_entry(self, dictionary: object, key: object) -> object:
        """The value at the key; it stays, as long as the version does."""
        found = cast("Dictionary", dictionary)
        value = _get(found, key, _ABSENT)
        self._note_version(found)
        read = self._read[id(found)]
        if read is not None:
            read[key] = value
        return value

    def note_all(self, dictionary: object) -> None:
        self._note_version(cast("Dictionary", dictionary))
        self._read[id(dictionary)] = None

    def _note_version(self, dictionary: Dictionary) -> None:
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

    # -- steps

    def held(self, path: Path) -> object:
        return path.key

    def instance(self, path: Path) -> object:
        return self.present(self.note_entry(self.dictionary(self.above(path)), path.key))

    def present(self, value: object) -> object:
        if value is _ABSENT:
            raise Unwatchable
        return value

    def plain(self, dictionary: Dictionary) -> Dictionary:
        if type(dictionary) is not dict:
            raise Unwatchable
        return dictionary

    def dictionary(self, thing: object) -> Dictionary:
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
            return self.present(self.note_entry(container, found_key(path, self.at)))
        if issubclass(type(container), list):
            index = cast("int", path.key)
            self.note(*addresses_of_item(container, index))
        return item_of(container, path.key)

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

    def referent(self, path: Path) -> object:
        """It lives as long as the stamp."""
        value = cast("weakref.ref[object]", self.above(path))()
        if value is None:
            raise Unwatchable
        return value

    # -- what guards look at

    def note_type(self, thing: object) -> None:
        if type(thing).__flags__ & MADE_BY_CLASS:
            self.note(address_of_type(thing))

    def note_size(self, thing: object) -> None:
        if issubclass(type(thing), dict):
            self.note_all(thing)
        elif issubclass(type(thing), list):
            self.note(address_of_length(thing))

    def note_tensor(self, thing: object) -> None:
        words = self._memory(thing) if self._memory is not None else None
        if words is None:
            raise Unwatchable
        self.note(address_of_type(thing), *words)


_READERS: Final[Mapping[Access, Callable[[Watching, Path], object]]] = {
    Access.CONSTANT: Watching.held,
    Access.INSTANCE: Watching.instance,
    Access.ITEM: Watching.item,
    Access.KEYED: Watching.item,
    Access.CELL: Watching.cell,
    Access.REFERENT: Watching.referent,
    Access.ATTRIBUTE: Watching.field,
}
