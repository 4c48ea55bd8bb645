"""Which paths and guards of an entry a stamp stands for: decided when code is generated."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from types import CellType, ModuleType
from typing import Final, cast

from anyshape.guards.fast_path.memory_watch import FIELDS, field_owner
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory
from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Access, Path
from anyshape.guards.values import PRIMITIVES, class_attribute, dictionary_reader, reads_plainly

#: `Py_TPFLAGS_HEAPTYPE`: of instances of such types, `__class__` can be assigned
MADE_BY_CLASS: Final = 1 << 9


class StampScope:
    """Which paths and guards of an entry a stamp stands for."""

    def __init__(
        self, guards: Iterable[Guard], root: Path | None, memory: TensorMemory | None
    ) -> None:
        self._root = root
        #: the types of tensors whose memory is watched
        self.watched: frozenset[type] = frozenset() if memory is None else memory.types
        self._types: dict[Path, type] = {}
        self._paths: dict[Path, bool] = {}
        self._with_dictionary: dict[type, bool] = {}
        #: what stands at these paths is held by the guard itself
        self._held: set[Path] = set()
        for guard in guards:
            if guard.path is None:
                continue
            if guard.kind is Kind.TYPE:
                self._types.setdefault(guard.path, guard.value)
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
                by_path = isinstance(path.key, Path)
                found = self.has_path(parent) and _STEPS[path.access](self, parent)
                found = found and (not by_path or self.has_path(cast("Path", path.key)))
            self._paths[path] = found
        return found

    def type_at(self, path: Path) -> type:
        """The type that a guard says; `object` if none does."""
        if path.access is Access.CONSTANT and not type(path.key).__flags__ & MADE_BY_CLASS:
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

    def has_size(self, path: Path) -> bool:
        return self.has_items(path) and not _is_shared(path)

    def has_names(self, path: Path) -> bool:
        return self.has_items(path) and issubclass(self.type_at(path), dict)

    def has_keys(self, path: Path) -> bool:
        """Other kinds of dictionaries may have an order of their own."""
        return self.type_at(path) is dict and not _is_shared(path)

    def is_cell(self, path: Path) -> bool:
        return self.type_at(path) is CellType

    def is_reference(self, path: Path) -> bool:
        return self.type_at(path) is weakref.ReferenceType


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


def is_immutable(value: object) -> bool:
    """Whether it is a primitive, or made of such."""
    parts = cast("Iterable[object]", value) if type(value) in (tuple, frozenset) else ()
    return all(map(is_immutable, parts)) if parts else type(value) in PRIMITIVES


_STEPS: Final[dict[Access, Callable[[StampScope, Path], bool]]] = {
    Access.INSTANCE: StampScope.has_dictionary,
    Access.ITEM: StampScope.has_items,
    Access.KEYED: StampScope.has_names,
    Access.CELL: StampScope.is_cell,
    Access.REFERENT: StampScope.is_reference,
    # No word of memory that is watched says how a tensor lies.
    Access.STRIDE: lambda scope, path: False,
    # It is asked for where a class answers for it: those are not stamped.
    Access.DICTIONARY: lambda scope, path: False,
}
