"""Every event as one line of JSON, for `anyshape report`.

    {"format": "anyshape-events", "version": 1, "pid": 4242, "rank": null, ...}
    {"event": "create_symbol", "time": 1763190662.1, "compile_id": "0/0", "symbol": "s0", ...}

The first line says what the file is. An event has the fields of its class in `kinds.py`; a place
in the program is `{"file", "line", "function"}`. The lines around each place come before the first
event that names it, as an event `source`, so that a report can be made on another machine. A reader
skips events and fields that it does not know; whatever else changes gets another version.
"""

from __future__ import annotations

import json
import linecache
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final, cast

from anyshape.events.kinds import Event

FORMAT: Final = "anyshape-events"
VERSION: Final = 1

#: So many lines are kept before and after a line that is named.
_AROUND: Final = 4


def event_name(kind: type[Event]) -> str:
    """`create_symbol` for `CreateSymbol`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


class OwnEvents:
    """Writes the events of one rank."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._write = write
        self._clock = clock
        self._shown: set[tuple[str, int]] = set()

    def header(self, about: Mapping[str, object]) -> None:
        self._line({"format": FORMAT, "version": VERSION, "time": self._clock(), **about})

    def __call__(self, event: Event) -> None:
        places: list[tuple[str, int]] = []
        held = {field.name: _plain(getattr(event, field.name), places) for field in fields(event)}
        for place in places:
            self._source(place)
        # What all events have comes first, for people who read the file.
        head = {"event": event_name(type(event)), "time": self._clock()}
        self._line({**head, "compile_id": event.compile_id, **held})

    def _source(self, place: tuple[str, int]) -> None:
        if place in self._shown:
            return
        self._shown.add(place)
        file, line = place
        first = max(line - _AROUND, 1)
        lines = [text.rstrip("\n") for text in linecache.getlines(file)[first - 1 : line + _AROUND]]
        if lines:
            self._line({"event": "source", "file": file, "first_line": first, "lines": lines})

    def _line(self, held: Mapping[str, object]) -> None:
        self._write(json.dumps(held) + "\n")


def _plain(value: object, places: list[tuple[str, int]]) -> object:
    """A value as JSON has it; places that are met are noted."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "filename") and hasattr(value, "function"):
        return _place(value, places)
    names = cast("Sequence[str]", getattr(value, "_fields", ()))  # of a named tuple
    if is_dataclass(value):
        names = [each.name for each in fields(value)]
    if names:
        return {name: _plain(getattr(value, name), places) for name in names}
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _plain(each, places) for key, each in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each, places) for each in cast("Iterable[object]", value)]
    return str(value)


def _place(frame: object, places: list[tuple[str, int]]) -> object:
    file, line = str(getattr(frame, "filename", "")), int(getattr(frame, "line", 0))
    places.append((file, line))
    return {"file": file, "line": line, "function": str(getattr(frame, "function", ""))}
