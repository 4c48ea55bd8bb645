"""Compiles in vain: what a function reads and never finds as it was, so no entry serves a call.

Such a function is split where it reads it: Python asks there, between two regions.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, Final

from anyshape.capture.record.torch_state import read_state
from anyshape.capture.trace import Store
from anyshape.dispatch.callable_target import code_of
from anyshape.dispatch.entry import Entry
from anyshape.dispatch.regional_compile import Slot
from anyshape.guards.explain import first_failure
from anyshape.guards.guard import Frame, Guard, Kind
from anyshape.guards.path import Access, Path, find

#: So many entries in a row that served no call are too many of a region.
_MOST: Final = 3

#: The same of a whole function, which may be called with a few values in turn.
_MOST_OF_WHOLE: Final = 16

#: Guards on what a program computes with, and not on what its tensors are.
_OF_VALUES: Final = frozenset(
    (Kind.EQUALS, Kind.IDENTITY, Kind.LENGTH, Kind.KEYS, Kind.MEMBERS, Kind.CONTAINS, Kind.TRUTH)
)

#: Guards at a path or below it.
Unlike = set[tuple[Kind, str]]


def never_the_same(entries: Sequence[Entry], bound: Mapping[str, Any], in_region: bool) -> Unlike:
    """Guards for the sake of which the last entries served no call. The next capture leaves where
    it would add one of them."""
    return _changed_by_itself(entries, bound, in_region) or _one_guard(entries, bound, in_region)


def functions_made_anew(entries: Sequence[Entry], bound: Mapping[str, Any]) -> set[str]:
    """Paths where this call has another function than the last entry, with the same code."""
    failure = first_failure(entries[-1].plan, bound, read_state)
    guard = None if failure is None else failure.guard
    if guard is None or guard.path is None or guard.kind is not Kind.IDENTITY:
        return set()
    with suppress(Exception):  # There may be nothing, for any reason.
        found = find(guard.path, bound, {})
        if isinstance(found, FunctionType) and isinstance(guard.value, FunctionType):
            return {guard.path.text} if found.__code__ is guard.value.__code__ else set()
    return set()


def line_to_split(
    entries: Sequence[Entry], bound: Mapping[str, Any], slot: Slot, region: Callable[..., Any]
) -> tuple[Guard, Frame] | None:
    """The line of a region at which to split it for the sake of a guard that capture cannot leave
    at: it has no path, or is on what the region is given."""
    guards = _failed_in_vain(entries, bound, _MOST)
    if not guards or (guards[0].path is not None and guards[0].user_frame is not None):
        return None
    first, *others = guards
    frame = first.user_frame or _first_use_of(first.path, region)
    if frame is None or frame.filename != slot.owner[0]:
        return None
    lines = range(slot.lines[0], slot.lines[1] + 1)
    if frame.line not in lines or any(each.user_frame != first.user_frame for each in others):
        return None
    return first, frame


def _failed_in_vain(entries: Sequence[Entry], bound: Mapping[str, Any], most: int) -> list[Guard]:
    """The guards for which the last entries do not serve this call; none if they are fewer, or if
    one of them served a call."""
    late = entries[-most:]
    if len(late) < most or any(entry.hits for entry in late):
        return []
    failures = [first_failure(entry.plan, bound, read_state) for entry in late]
    guards = [each.guard for each in failures if each is not None and each.guard is not None]
    return guards if len(guards) == len(late) else []


def _one_guard(entries: Sequence[Entry], bound: Mapping[str, Any], in_region: bool) -> Unlike:
    """The guard that failed each time, if it is one."""
    guards = _failed_in_vain(entries, bound, _MOST if in_region else _MOST_OF_WHOLE)
    found: Unlike = {(guard.kind, guard.path.text) for guard in guards if guard.path is not None}
    if len(found) != 1 or any(guard.path is None for guard in guards):
        return set()
    if guards[0].user_frame is None or not (in_region or guards[0].kind in _OF_VALUES):
        return set()
    return found


def _changed_by_itself(
    entries: Sequence[Entry], bound: Mapping[str, Any], in_region: bool
) -> Unlike:
    """Guards on what the function changes itself, as a list that it appends to: no call will find
    that as it was."""
    stores = entries[-1].stores
    if in_region:
        changed = {store.target.text for store in stores if store.target is not None}
        for guard in _failed_in_vain(entries, bound, 1):
            if guard.path is not None and guard.user_frame and guard.path.text in changed:
                return {(guard.kind, guard.path.text)}
    # What is in it may yet turn out to be a number that is dynamic.
    guards = _failed_in_vain(entries, bound, _MOST)
    paths = [_changed_by(stores, guard) for guard in guards]
    if None in paths:
        return set()
    return {
        (guard.kind, path.text)
        for guard, path in zip(guards, paths, strict=True)
        if path is not None
    }


def _changed_by(stores: Sequence[Store], guard: Guard) -> Path | None:
    """What a program changes of what a guard looks at: the object itself, a container that it is
    in, or the attribute that leads to it."""
    if guard.path is None or guard.user_frame is None or guard.kind not in _OF_VALUES:
        return None
    below: Path | None = None
    for path in reversed(guard.path.line):
        for store in stores:
            if store.target is None or store.target.text != path.text:
                continue
            if below is None or below.access in (Access.ITEM, Access.KEYED):
                return path
            # Numbers in attributes become dynamic, unless a setting says otherwise.
            if below.key == store.key and not isinstance(guard.value, int | float):
                return below
        below = path
    return None


def _first_use_of(path: Path | None, region: Callable[..., Any]) -> Frame | None:
    """Where a region reads what it is given."""
    code = code_of(region)
    if path is None or code is None:
        return None
    for each in dis.get_instructions(code):
        line = each.positions.lineno if each.positions is not None else None
        if each.argval == path.root.key and line is not None:
            return Frame(code.co_filename, line, code.co_name)
    return None
