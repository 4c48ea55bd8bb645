"""The lines of the files: JSON objects, and what could not be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from anyshape.events.trace.own_events import FORMAT, VERSION
from anyshape.explain.report.reading.fields import Record, int_of
from anyshape.support.lazy_dataclass import dataclass, field

PATTERN: Final = "anyshape_events_*.jsonl"
_OTHERS: Final = "dedicated_log_torch_trace_*.log"
#: A longer line is no event of ours.
_LONGEST_LINE: Final = 64 * 2**20


class NotATrace(Exception):
    """There is nothing to report on; the text says why, and what to do."""


@dataclass(slots=True)
class Lines:
    """What one process wrote."""

    file: str
    header: Record
    events: list[Record] = field(default_factory=list[Record])
    problems: list[str] = field(default_factory=list[str])


def read_folder(folder: Path) -> tuple[list[Lines], list[str]]:
    """The files of a folder in the order of their beginning, and what is wrong with others."""
    if not folder.is_dir():
        raise NotATrace(
            f"there is no folder {folder}" if not folder.exists() else _one_file(folder)
        )
    found: list[Lines] = []
    problems: list[str] = []
    for file in sorted(folder.glob(PATTERN)):
        try:
            found.append(_read(file))
        except NotATrace as why:
            problems.append(str(why))
    if not found:
        raise NotATrace(_nothing(folder, problems))
    found.sort(key=lambda each: (_time(each.header), each.file))
    return found, problems


def _one_file(path: Path) -> str:
    return f"{path} is a file: give the folder that it is in"


def _nothing(folder: Path, problems: list[str]) -> str:
    if problems:
        return f"nothing in {folder} can be read:\n  " + "\n  ".join(problems)
    if any(folder.glob(_OTHERS)):
        return (
            f"{folder} has traces for tlparse only ({_OTHERS}), and no {PATTERN} beside them; make"
            " the trace with ANYSHAPE_TRACE, and keep both"
        )
    return f"{folder} has no {PATTERN}: run the program with ANYSHAPE_TRACE={folder}"


def _time(header: Record) -> float:
    value = header.get("time")
    return value if isinstance(value, float) else 0.0


def _read(file: Path) -> Lines:
    try:
        with file.open(encoding="utf-8", errors="replace", newline="\n") as opened:
            first = opened.readline(_LONGEST_LINE)
            found = Lines(file.name, _header(file.name, first))
            for number, line in enumerate(iter(lambda: opened.readline(_LONGEST_LINE), ""), 2):
                _take(found, number, line)
    except OSError as error:
        raise NotATrace(f"{file.name} cannot be read: {error.strerror or error}") from None
    return found


def _header(name: str, line: str) -> Record:
    header = _object(line)
    if not line.strip():
        raise NotATrace(f"{name} is empty: the program ended before it wrote anything")
    if header is None or header.get("format") != FORMAT:
        raise NotATrace(f"{name} does not begin as a trace does: it is damaged, or something else")
    version = header.get("version")
    if version != VERSION:
        shown = int_of(version) if isinstance(version, int) else "an unknown version"
        raise NotATrace(
            f"{name} is of version {shown}, and this anyshape reads version {VERSION}: make the"
            " report with the anyshape that made the trace"
        )
    return header


def _take(found: Lines, number: int, line: str) -> None:
    record = _object(line)
    if record is not None and isinstance(record.get("event"), str):
        found.events.append(record)
    elif line.strip() and not line.endswith("\n"):
        found.problems.append(
            f"{found.file} ends in the middle of line {number}: the program was killed, or the file"
            " was cut"
        )
    elif line.strip():
        found.problems.append(f"line {number} of {found.file} is no event, and is left out")


def _object(line: str) -> Record | None:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("Record", found) if isinstance(found, dict) else None


def problems_in_short(problems: list[str], most: int = 20) -> Iterator[str]:
    """The first of them, and how many more there are: rubbish has one in every line."""
    yield from problems[:most]
    if len(problems) > most:
        yield f"and {len(problems) - most} more like these"
