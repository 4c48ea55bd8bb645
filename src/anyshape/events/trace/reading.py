"""The files of events in a folder of a trace, read back; what could not be read is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from anyshape.events.decode import Record, event_of, number, record_of, seconds
from anyshape.events.kinds import Event
from anyshape.events.trace.own_events import FORMAT, VERSION
from anyshape.support.lazy_dataclass import dataclass, field

PATTERN: Final = "anyshape_events_*.jsonl"
_OTHERS: Final = "dedicated_log_torch_trace_*.log"
#: A longer line is no event of ours.
_LONGEST_LINE: Final = 64 * 2**20


class NotATrace(Exception):
    """There is nothing to read; the text says why, and what to do."""


class Told(NamedTuple):
    """An event, and when it was."""

    time: float
    event: Event


@dataclass(slots=True)
class EventsFile:
    """What one process wrote."""

    name: str
    header: Record
    events: list[Told] = field(default_factory=list[Told])
    problems: list[str] = field(default_factory=list[str])


def read_folder(folder: Path) -> tuple[list[EventsFile], list[str]]:
    """The files of a folder in the order of their beginning, and what is wrong with others."""
    if not folder.is_dir():
        raise NotATrace(
            f"{folder} is a file: give the folder that it is in"
            if folder.exists()
            else f"there is no folder {folder}"
        )
    found: list[EventsFile] = []
    problems: list[str] = []
    for file in sorted(folder.glob(PATTERN)):
        try:
            found.append(read_file(file))
        except NotATrace as why:
            problems.append(str(why))
    if not found:
        raise NotATrace(_nothing(folder, problems))
    found.sort(key=lambda each: (seconds(each.header.get("time")), each.name))
    return found, problems


def _nothing(folder: Path, problems: list[str]) -> str:
    if problems:
        return f"nothing in {folder} can be read:\n  " + "\n  ".join(problems)
    if any(folder.glob(_OTHERS)):
        return (
            f"{folder} has traces for tlparse only ({_OTHERS}), and no {PATTERN} beside them; make"
            " the trace with ANYSHAPE_TRACE, and keep both"
        )
    return f"{folder} has no {PATTERN}: run the program with ANYSHAPE_TRACE={folder}"


def read_file(file: Path) -> EventsFile:
    try:
        with file.open(encoding="utf-8", errors="replace", newline="\n") as opened:
            first = opened.readline(_LONGEST_LINE)
            found = EventsFile(file.name, _header(file.name, first))
            for line_number, line in enumerate(iter(lambda: opened.readline(_LONGEST_LINE), ""), 2):
                _take(found, line_number, line)
    except OSError as error:
        raise NotATrace(f"{file.name} cannot be read: {error.strerror or error}") from None
    return found


def _header(name: str, line: str) -> Record:
    header = record_of(line)
    if not line.strip():
        raise NotATrace(f"{name} is empty: the program ended before it wrote anything")
    if header is None or header.get("format") != FORMAT:
        raise NotATrace(f"{name} does not begin as a trace does: it is damaged, or something else")
    version = header.get("version")
    if version != VERSION:
        shown = number(version) or 0 if isinstance(version, int) else "an unknown version"
        raise NotATrace(
            f"{name} is of version {shown}, and this anyshape reads version {VERSION}: make the"
            " report with the anyshape that made the trace"
        )
    return header


def _take(found: EventsFile, line_number: int, line: str) -> None:
    record = record_of(line)
    if record is not None and isinstance(record.get("event"), str):
        event = event_of(record)
        if event is not None:
            found.events.append(Told(seconds(record.get("time")), event))
    elif line.strip() and not line.endswith("\n"):
        found.problems.append(
            f"{found.name} ends in the middle of line {line_number}: the program was killed, or the"
            " file was cut"
        )
    elif line.strip():
        found.problems.append(f"line {line_number} of {found.name} is no event, and is left out")


def problems_in_short(problems: list[str], most: int = 20) -> Iterator[str]:
    """The first of them, and how many more there are: rubbish has one in every line."""
    yield from problems[:most]
    if len(problems) > most:
        yield f"and {len(problems) - most} more like these"
