"""The events of a trace, as they are on disk.

A trace may have been cut off, may be of several processes, and may come from anybody: what cannot
be read is left out, and nothing in it is looked up on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from anyshape.events.trace.own_events import FORMAT, VERSION
from anyshape.support.lazy_dataclass import dataclass

_FILES: Final = "anyshape_events_*.jsonl"

#: An event is an object of JSON; what its fields hold is checked where it is used.
Event = Mapping[str, Any]


class SourceLine(NamedTuple):
    """A line of the program."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Process:
    """What one process wrote."""

    file: Path
    rank: int | None
    #: where the program was run
    folder: str
    events: tuple[Event, ...]


def read_processes(folder: Path) -> list[Process]:
    """Those of a folder of a trace, or of one file."""
    files = sorted(folder.glob(_FILES)) if folder.is_dir() else [folder]
    return [process for file in files if (process := _read(file)) is not None]


def _read(file: Path) -> Process | None:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    header = _object(lines[0]) if lines else None
    if header is None or (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        return None
    rank = header.get("rank")
    known = rank if isinstance(rank, int) else None
    return Process(file, known, text_of(header, "folder"), tuple(_events(lines[1:])))


def _events(lines: list[str]) -> Iterator[Event]:
    for line in lines:
        found = _object(line)
        if found is not None and isinstance(found.get("event"), str):
            yield found


def _object(line: str) -> dict[str, Any] | None:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):  # the last line of a program that was killed
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


# -- fields, whatever they hold -------------------------------------------------------------------


def text_of(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def number_of(event: Event, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0


def items_of(event: Event, name: str) -> list[Any]:
    value: object = event.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def mapping_of(event: Event, name: str) -> dict[str, Any]:
    value: object = event.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def place_of(value: object) -> SourceLine | None:
    match value:
        case [str() as file, int() as line, str() as function]:
            return SourceLine(file, line, function)
        case _:
            return None
