"""Every event as one line of JSON, for `anyshape report`.

    {"format": "anyshape-events", "version": 1, "pid": 4242, "rank": null, ...}
    {"event": "create_symbol", "time": 1763190662.1, "compile_id": "0/0", "symbol": "s0", ...}

The first line says what the file is. An event has the fields of its class in `kinds.py`; named
tuples are lists, so that a place in the program is `[file, line, function]`. The lines around each
place come before the first event that names it, as an event `source`: a report can be made on
another machine. A reader skips events and fields that it does not know; whatever else changes gets
another version.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import time
import tokenize
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, cast

from anyshape.events.kinds import Event, FrameStart
from anyshape.events.log_lines import source_lines
from anyshape.support.lazy_dataclass import dataclass, fields, is_dataclass

FORMAT: Final = "anyshape-events"
VERSION: Final = 1

#: So many lines are kept before and after a line that is named.
_AROUND: Final = 4
#: So many lines are kept of a function that is compiled.
_MOST_LINES: Final = 200

#: Tells whether the program knows us, or is run unmodified.
OUR_IMPORT: Final = re.compile(r"\s*(import|from)\b.*\banyshape\b")


@dataclass(frozen=True, slots=True)
class Source(Event):
    """Lines of the program, which only a file of events has."""

    file: str
    first_line: int = 1
    lines: Sequence[str] = ()


@functools.cache
def event_name(kind: type[Event]) -> str:
    """`create_symbol` for `CreateSymbol`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


class OwnEvents:
    """Writes the events of one rank."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown: set[tuple[str, int]] = set()

    def header(self, about: Mapping[str, object]) -> None:
        self._line({"format": FORMAT, "version": VERSION, "time": time.time(), **about})

    def write(self, when: float, event: Event) -> None:
        # What all events have comes first, for people who read the file.
        held: dict[str, object] = {
            "event": event_name(type(event)),
            "time": when,
            "compile_id": event.compile_id,
        }
        for name in _names(type(event)):
            held[name] = getattr(event, name)
        for place in sorted(_places(event) - self._shown):
            self._source(place)
        if isinstance(event, FrameStart) and (event.file, -event.line) not in self._shown:
            self._shown.add((event.file, -event.line))
            self._function(event.file, event.line)
        self._line(held)

    def _function(self, file: str, line: int) -> None:
        """The whole of it: whoever reads may want to know where a parameter is first used."""
        lines = source_lines(file)
        self._lines(file, line, block_of(lines[line - 1 : line - 1 + _MOST_LINES]))
        if (file, 0) not in self._shown:
            self._shown.add((file, 0))
            for number, text in enumerate(lines, 1):
                if OUR_IMPORT.match(text):
                    self._lines(file, number, [text])

    def _source(self, place: tuple[str, int]) -> None:
        self._shown.add(place)
        file, line = place
        first = max(line - _AROUND, 1)
        self._lines(file, first, source_lines(file)[first - 1 : line + _AROUND])

    def _lines(self, file: str, first: int, lines: Sequence[str]) -> None:
        kept = [text.rstrip("\n") for text in lines]
        if kept:
            self._line({"event": "source", "file": file, "first_line": first, "lines": kept})

    def _line(self, held: Mapping[str, object]) -> None:
        self._write(json.dumps(held, default=_plain) + "\n")


def _plain(value: object) -> object:
    """What JSON has no form for: named tuples are lists already."""
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, Set):
        return sorted(map(str, cast("Set[object]", value)))
    return str(value)


def block_of(lines: Sequence[str]) -> Sequence[str]:
    """The function that begins with these lines."""
    try:
        return inspect.getblock(lines)
    except (SyntaxError, tokenize.TokenError):
        return lines[:1]


@functools.cache
def _names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name != "compile_id")


def _places(event: Event) -> set[tuple[str, int]]:
    """The lines of the program that an event names."""
    frames = [getattr(event, "user_frame", None), *getattr(event, "stack", ())]
    for listed in (getattr(event, "guard_lines", ()), getattr(event, "reasons", ())):
        frames += [each.user_frame for each in listed]
    places = {(frame.filename, frame.line) for frame in frames if frame is not None}
    # Where the function itself stands.
    if isinstance(event, FrameStart):
        places.add((event.file, event.line))
    return places
