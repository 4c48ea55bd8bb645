"""Whether two ways lead to one state: the attributes of an object and the items of its `__dict__`,
the globals of a function and a dictionary, two objects that share one dictionary.

A capture meets the state as it is in one call. What one way changes, the other shows, if and only
if both lead to the same dictionary, so that is guarded: that two are two, or that they are one. It
is asked only of what the program changes, and only beside what it reads (or changes) of the same
name; a program that changes nothing, or nothing else of that name, is given no guard.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Final

from anyshape.capture.externals.side_effects import (
    SLOT,
    Change,
    Effect,
    Journal,
    is_kept_in_slot,
)
from anyshape.capture.tracer import Tracer
from anyshape.guards.guard import Guard, Kind, paths_of
from anyshape.guards.path import STEPS, Access, Path, found_key
from anyshape.guards.values import instance_dictionary, reads_plainly

#: So many pairs are compared one by one; beyond, all that are in them are told apart at once.
_MOST_PAIRS: Final = 8
_WHOLE: Final = frozenset({Kind.LENGTH, Kind.KEYS, Kind.TRUTH, Kind.PREDICATE})


class _State:
    """One dictionary (or the slots of an object, or a cell), and what a program does with it."""

    __slots__ = ("all_read", "all_written", "held", "places", "read", "written")

    def __init__(self, held: object) -> None:
        self.held = held
        #: the paths that lead to it
        self.places: dict[Path, None] = {}
        self.read: set[object] = set()
        self.written: set[object] = set()
        self.all_read = self.all_written = False

    @property
    def names(self) -> set[object]:
        return self.read | self.written

    @property
    def place(self) -> Path:
        return next(iter(self.places))


def state_guards(tracer: Tracer, journal: Journal) -> Iterator[Guard]:
    """What a capture relies on beside its guards."""
    if not journal.changed:
        return
    states = _States(tracer)
    for effect in journal.effects:
        states.note_effect(effect)
    for guard in list(tracer.guards.values()):
        states.note_guard(guard)
    for path in tracer.read_paths:
        states.note_way(path)
    for place, held in journal.met.items():
        states.state(held, place)
    yield from _of_states(list(states.by_identity.values()))


def _of_states(states: list[_State]) -> Iterator[Guard]:
    by_kind: dict[type, list[_State]] = {}
    for state in states:
        by_kind.setdefault(type(state.held), []).append(state)
    apart = _Apart()
    for alike in by_kind.values():
        apart.note(alike)
    # Of what is told apart one place is named: at the others it has to be the same.
    for state in states:
        if state.written or state.all_written or id(state) in apart.told:
            yield from _is_one(state)
    for paths in (*apart.pairs.values(), tuple(apart.many)):
        if paths:
            yield Guard(Kind.DISTINCT, None, paths, "one of them is changed")


def _is_one(state: _State) -> Iterator[Guard]:
    first, *again = state.places
    for place in again:
        yield Guard(Kind.SAME_OBJECT, place, first, "the same object at two places")


class _Apart:
    """States that have to be different ones."""

    def __init__(self) -> None:
        self.pairs: dict[frozenset[int], tuple[Path, ...]] = {}
        #: the states in them
        self.told: set[int] = set()
        #: told apart at once, where there are many
        self.many: dict[Path, None] = {}

    def note(self, states: list[_State]) -> None:
        """Those of one type: of what is written, those that would show it."""
        by_name: dict[object, list[_State]] = {}
        whole = [state for state in states if state.all_read or state.all_written]
        for state in states:
            for name in state.names:
                by_name.setdefault(name, []).append(state)
        for name, those in by_name.items():
            writers = [state for state in those if name in state.written]
            if writers:
                self._add(writers, [*those, *whole])
        blind = [state for state in whole if state.all_written]
        if blind:
            self._add(blind, [*whole, *(state for state in states if state.names)])

    def _add(self, writers: list[_State], others: list[_State]) -> None:
        others = list({id(state): state for state in others}.values())
        if len(others) > 1:
            self.told |= {id(state) for state in (*writers, *others)}
        if len(writers) * len(others) > _MOST_PAIRS:
            self.many |= dict.fromkeys(state.place for state in others)
            return
        for writer in writers:
            for other in others:
                pair = writer.place, other.place
                if other is not writer and not all(map(_is_fixed, pair)):
                    self.pairs.setdefault(frozenset((id(writer), id(other))), pair)


def _is_fixed(path: Path) -> bool:
    return path.access is Access.CONSTANT


class _States:
    """The states that a capture met, by identity."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.by_identity: dict[int, _State] = {}
        self._walked: set[Path] = set()
        self._objects: dict[Path, object] = {}
        for each in tracer.kept:
            path = tracer.path_of(each)
            if path is not None:
                self._objects[path] = each

    # -- what is at a path, without what the program has changed -------------------------------

    def _object(self, path: Path) -> Any:
        """What is at a path that goes on; None where nobody knows it."""
        found = self._objects.get(path, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._objects[path] = self._found(path)
        return found

    def _found(self, path: Path) -> object:
        if path.access is Access.CONSTANT:
            return path.key
        if self._tracer.was_read(path):
            return self._tracer.what_was_read(path)
        if path.parent is None:
            return None
        try:
            key = found_key(path, self._object)
            return STEPS[path.access](self._object(path.parent), key)
        except Exception:
            return None

    def state(self, held: object, place: Path) -> _State:
        found = self.by_identity.get(id(held))
        if found is None:
            found = self.by_identity[id(held)] = _State(held)
        found.places.setdefault(place)
        return found

    def _of_attributes(self, path: Path) -> _State | None:
        """The dictionary of the object at the path."""
        owner = self._object(path)
        try:
            # A class of the program's may say something else of `__dict__`.
            held = instance_dictionary(owner)
        except AttributeError:
            return None
        if not isinstance(held, dict):  # of a class it is a view
            return None
        is_module = isinstance(owner, types.ModuleType)
        if is_module:
            return self.state(held, self._tracer.constant(held))
        is_plain = reads_plainly(type(owner))
        return self.state(held, path.attribute("__dict__") if is_plain else path.dictionary())

    def _of_slots(self, path: Path) -> _State | None:
        """What the object at the path holds beside its dictionary; a cell."""
        owner = self._object(path)
        return None if owner is None else self.state(owner, path)

    # -- what the program did -------------------------------------------------------------------

    def note_effect(self, effect: Effect) -> None:
        path, key, found = effect.target, effect.key, None
        if path is None:
            return
        thing = self._object(path)
        if effect.change is Change.SET_ATTRIBUTE:
            own = self._of_attributes(path)
            is_slot = own is None or is_kept_in_slot(thing, key)
            found, key = (self._of_slots(path), (SLOT, key)) if is_slot else (own, key)
        elif effect.change is Change.SET_CELL:
            found, key = self._of_slots(path), _CONTENTS
        elif isinstance(thing, dict):
            found = self.state(thing, path)
            found.all_written |= effect.change is Change.METHOD
        if found is not None:
            found.written.add(key)
        self.note_way(path)

    def note_guard(self, guard: Guard) -> None:
        for path in paths_of(guard):
            self.note_way(path)
        path, kind, value = guard.path, guard.kind, guard.value
        if path is None:
            return
        if kind is Kind.NO_INSTANCE_ATTRIBUTE:
            self._note_read(self._of_attributes(path), value)
        elif kind is Kind.NO_ATTRIBUTE:
            self._note_read(self._of_slots(path), (SLOT, value))
        elif kind is Kind.CONTAINS or kind in _WHOLE:
            held = self._object(path)
            if isinstance(held, dict):
                found = self.state(held, path)
                if kind is Kind.CONTAINS:
                    found.read.add(value[0])
                else:
                    found.all_read = True

    def note_way(self, path: Path) -> None:
        """Note what is read on the way to a path."""
        step: Path | None = path
        while step is not None and step.parent is not None and step not in self._walked:
            self._walked.add(step)
            if isinstance(step.key, Path):
                self.note_way(step.key)
            self._note_step(step.parent, step)
            step = step.parent

    def _note_step(self, parent: Path, step: Path) -> None:
        if step.access is Access.INSTANCE:
            self._note_read(self._of_attributes(parent), step.key)
        elif step.access in (Access.ITEM, Access.KEYED):
            held = self._object(parent)
            if isinstance(held, dict):
                self._note_read(self.state(held, parent), found_key(step, self._object))
        elif step.access is Access.CELL:
            self._note_read(self._of_slots(parent), _CONTENTS)
        elif step.access is Access.ATTRIBUTE and step.key != "__dict__":
            self._note_read(self._of_slots(parent), (SLOT, step.key))

    def _note_read(self, state: _State | None, key: object) -> None:
        if state is not None:
            state.read.add(key)


_UNKNOWN: Final = object()
_CONTENTS: Final = "cell_contents"
