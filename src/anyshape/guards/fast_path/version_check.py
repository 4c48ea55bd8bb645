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

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Final, NamedTuple

from anyshape.guards.fast_path.memory_watch import Watch
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory
from anyshape.guards.fast_path.watching import Dictionary, Entries, Watching, entries_hold
from anyshape.guards.guard import Guard
from anyshape.guards.kinds import KINDS
from anyshape.guards.path import Path

#: An entry that serves more objects than this is not stamped for all of them.
_MOST: Final = 256
#: Stamping may take this share of the time.
_SHARE: Final = 0.1

#: A dictionary whose version changed so often while all guards held is not watched by its version.
_RESTLESS: Final = 3


class Stamp(NamedTuple):
    """Generated code looks at the first four, by position."""

    view: memoryview
    expected: memoryview
    objects: tuple[object, ...]
    #: None where versions say it all
    entries: Entries | None
    watch: Watch
    #: dictionaries that are watched by their version, by the address of that; seldom more than one
    dictionaries: dict[int, list[Dictionary]]
    #: whatever else has an address that is watched, except the root
    kept: list[object]
    #: the root, weakly; a constant needs no holding
    root: weakref.ref[object] | None


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
        old = self.drop(root)
        if old is not None:
            self._changes.update(old.watch.changed(old.dictionaries))
        started = perf_counter()
        if started < self._not_before:
            return
        with suppress(Exception):
            self._take(root)
        now = perf_counter()
        self._not_before = now + (now - started) / _SHARE

    def drop(self, root: object) -> Stamp | None:
        """Forget a stamp that did not hold. Versions do not come back, and what it watches would be
        kept alive for nothing."""
        return self.by_root.pop(id(root), None)

    def _take(self, root: object) -> None:
        restless = {at for at, count in self._changes.items() if count >= _RESTLESS}
        walk = Watching(self._root, root, self._memory)
        for guard in self._guards:
            assert guard.path is not None, f"{guard.kind.name} is not stamped"
            KINDS[guard.kind].watch(walk, walk.at(guard.path), guard.value)
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
