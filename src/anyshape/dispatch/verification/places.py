"""Places outside of the arguments that a program reads tensors from, or writes to: globals, cells
of closures, attributes of classes and modules of Python. A copy stands there while eager runs."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, Final, Protocol

from anyshape.capture.trace import Store
from anyshape.dispatch.verification.tensor_copies import CannotCopy
from anyshape.guards.path import STEPS, Access, Path, find

MISSING: Final = object()

#: Holders that cannot be copied: what is in them is.
_HOLDERS: Final = (types.ModuleType, type, types.FunctionType, types.CellType, tuple)


class Copying(Protocol):
    """Copies of values of all kinds."""

    memo: dict[int, Any]

    def of(self, value: Any) -> Any: ...


class WrittenPlace:
    """An item of a dictionary of globals, a cell, or an attribute of a class or function."""

    def __init__(self, holder: Any, access: Access, key: Any, text: str) -> None:
        self._holder = holder
        self._access = access
        self._key = key
        self.text: Final = text
        self.identity: Final = (id(holder), access is Access.CELL, key)
        #: a copy of what is there before the call, and what eager makes of it
        self.eager: Any = MISSING
        #: what the compiled call left there
        self.ours: Any = MISSING

    def read(self) -> Any:
        try:
            return STEPS[self._access](self._holder, self._key)
        except (LookupError, AttributeError, ValueError):
            return MISSING

    def write(self, value: Any) -> None:
        holder, key = self._holder, self._key
        if isinstance(holder, types.CellType):
            if value is MISSING:
                del holder.cell_contents
            else:
                holder.cell_contents = value
        elif isinstance(holder, dict):
            if value is MISSING:
                dict.pop(holder, key, None)
            else:
                dict.__setitem__(holder, key, value)
        elif value is MISSING:
            delattr(holder, key)
        else:
            setattr(holder, key, value)

    def copy(self, copies: Copying) -> None:
        """To be called before the call."""
        found = self.read()
        self.eager = found if found is MISSING else copies.of(found)

    def put(self) -> None:
        """Let eager see what was there before the call."""
        self.ours = self.read()
        if self.eager is not self.ours:
            self.write(self.eager)

    def put_back(self) -> None:
        """Let the program see what the compiled call left there."""
        self.eager = self.read()
        if self.eager is not self.ours:
            self.write(self.ours)


def places_of(
    inputs: Iterable[Any], stores: Iterable[Store], copies: Copying
) -> list[WrittenPlace]:
    """Where the tensors come from that are no arguments, and what the program writes to."""
    found: dict[object, WrittenPlace] = {}
    for path in inputs:
        if isinstance(path, Path):
            _add(found, _outermost(path))
    for store in stores:
        if store.target is not None:
            _add(found, _written(store.target, store.key, copies))
    for place in found.values():
        place.copy(copies)
    return list(found.values())


def _add(found: dict[object, WrittenPlace], place: WrittenPlace | None) -> None:
    if place is not None:
        found.setdefault(place.identity, place)


def _written(target: Path, key: object, copies: Copying) -> WrittenPlace | None:
    if target.root.access is Access.LOCAL:
        return None
    holder = find(target, {}, {})
    place = _outermost(target)
    if place is not None:
        return place
    if isinstance(holder, types.CellType):
        return WrittenPlace(holder, Access.CELL, None, target.text)
    if isinstance(holder, dict):
        return WrittenPlace(holder, Access.ITEM, key, f"{target.text}[{key!r}]")
    if isinstance(holder, (types.ModuleType, type, types.FunctionType)):
        return WrittenPlace(holder, Access.ATTRIBUTE, key, f"{target.text}.{key}")
    if id(target.root.key) not in copies.memo:
        raise CannotCopy(f"it writes to {target.text}, in whose place no copy can be put")
    return None


def _outermost(path: Path) -> WrittenPlace | None:
    """The place nearest to the root whose object can be copied; None for arguments."""
    steps: list[Path] = []
    while path.parent is not None:
        steps.append(path)
        path = path.parent
    if path.access is not Access.CONSTANT:
        return None
    holder: Any = path.key
    if not isinstance(holder, (*_HOLDERS, dict)):
        return None  # the object that is called, which is copied with the call
    for step in reversed(steps):
        value = STEPS[step.access](holder, step.key)
        if not isinstance(value, _HOLDERS):
            return (
                None
                if isinstance(holder, tuple)
                else WrittenPlace(holder, step.access, step.key, step.text)
            )
        holder = value
    return None
