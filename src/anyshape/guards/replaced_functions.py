"""Functions and methods of torch that a program has replaced since a capture found them.

    torch.Tensor.relu = mine

Captures take what classes and modules of torch hold for constant, and native code calls none of it.
So what captures found there is noted for the whole process, and a number says whether it is that
still: it is part of the state that every entry guards. As long as the versions of the dictionaries
are the same that is one comparison, however many names there are (`fast_path/memory_watch.py`).
Where versions cannot be watched the names are looked up.
"""

from __future__ import annotations

from collections.abc import Set
from threading import RLock
from typing import Final, cast

from anyshape.guards.fast_path.memory_watch import (
    SUPPORTED,
    Unwatchable,
    Watch,
    address_of_version,
    dictionary_of_class,
)

_ABSENT: Final = object()
_Names = dict[str, object]


class Replaced:
    """What was noted, and whether it is that still."""

    __slots__ = ("_classes", "_kept", "_lock", "_noted", "_numbers", "_watch", "number")

    def __init__(self) -> None:
        #: dictionaries by identity, and what was found in them first
        self._noted: dict[int, tuple[dict[object, object], _Names]] = {}
        #: by identity, classes and the same of theirs
        self._classes: dict[int, tuple[type, _Names]] = {}
        self._watch: Watch | None = None
        #: what ever stood there instead
        self._kept: list[object] = []
        #: 0 while everything is as it was found
        self.number = 0
        self._numbers: dict[frozenset[tuple[int, str, int]], int] = {frozenset(): 0}
        self._lock = RLock()

    def knows(self, owner: type, name: str) -> bool:
        """Whether a name of a class has been noted."""
        known = self._classes.get(id(owner))
        return known is not None and name in known[1]

    def note_class(self, owner: type, names: Set[str]) -> None:
        """A capture has found, or missed, these names in the class itself."""
        known = self._classes.get(id(owner))
        if known is not None and known[1].keys() >= names:
            return
        try:
            dictionary = dictionary_of_class(owner)
        except Unwatchable:
            dictionary = cast("dict[object, object]", owner.__dict__)
        self._classes[id(owner)] = (owner, self.note(dictionary, names))

    def note(self, dictionary: dict[object, object], names: Set[str]) -> _Names:
        """A capture has found, or missed, these names in the dictionary. Gives all that were."""
        known = self._noted.get(id(dictionary))
        if known is not None and known[1].keys() >= names:
            return known[1]
        with self._lock:
            if known is None:
                known = self._noted.setdefault(id(dictionary), (dictionary, {}))
                self._watch = None
            for name in names:
                known[1].setdefault(name, dictionary.get(name, _ABSENT))
        return known[1]

    def now(self) -> int:
        """A number that is the same whenever the same functions stand at the noted names."""
        watch = self._watch
        if watch is not None and watch.view == watch.expected:
            return self.number
        return self._look()

    def _look(self) -> int:
        with self._lock:
            noted = list(self._noted.values())
            watch = _watching(noted)
            # Looked at behind the versions: what changes meanwhile changes them again.
            others = [
                (id(dictionary), name, other)
                for dictionary, names in noted
                for name, value in names.items()
                if (other := dictionary.get(name, _ABSENT)) is not value
            ]
            found = frozenset((where, name, id(other)) for where, name, other in others)
            if found not in self._numbers:
                # Kept alive, so that its identity is nobody else's.
                self._kept += [other for *_, other in others]
            self.number = self._numbers.setdefault(found, len(self._numbers))
            self._watch = watch
            return self.number


def _watching(noted: list[tuple[dict[object, object], _Names]]) -> Watch | None:
    if not SUPPORTED:
        return None
    try:
        return Watch([address_of_version(dictionary) for dictionary, _ in noted])
    except Unwatchable:
        return None


#: Of this process.
replaced: Final = Replaced()
