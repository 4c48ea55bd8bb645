"""A trace while it is written: files that grow, and what has happened since one looked last.

    trace = FollowedTrace(Path("trace"))
    for happening in trace.look():
        print(happening.text)

A folder may not be there yet, a last line may be half written, a file may be cut, replaced or
removed: what is whole is read, what is new is told once.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from anyshape.events import kinds
from anyshape.events.decode import event_of, record_of, seconds
from anyshape.events.kinds import Event, Frame
from anyshape.events.trace.own_events import FORMAT, VERSION
from anyshape.events.trace.reading import PATTERN
from anyshape.explain.report.analysis.wording import in_words
from anyshape.explain.trace_model import Attempt, Building, Process, TracedFunction, begun

#: So much of a file is held at once.
_MOST_BYTES: Final = 8 * 2**20

_INPUT: Final = re.compile(r"\bL\['([A-Za-z_]\w*)'\]")
_PART: Final = re.compile(r" \(lines \d+-\d+\)$")


class Happening(NamedTuple):
    """Something that a person who watches wants to know at once."""

    time: float
    process: Process
    #: "compiled", "recompile", "graph break", "runs eagerly", "failed", "limit", "wrong answer"
    kind: str
    function: str
    compile_id: str
    text: str
    place: Frame | None = None


class FollowedTrace:
    """The files of a folder, read as far as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _Tail] = {}

    @property
    def processes(self) -> list[Process]:
        found = [tail.building.process for tail in self._files.values() if tail.building]
        return sorted(found, key=lambda each: (each.rank or 0, each.started, each.file))

    def look(self) -> list[Happening]:
        """What is new since this was asked last, in the order in which it happened."""
        found = sorted(self._folder.glob(PATTERN)) if self._folder.is_dir() else []
        for path in found:
            if path not in self._files:
                self._files[path] = _Tail(path, len(self._files))
        happened = [each for tail in self._files.values() for each in tail.read()]
        return sorted(happened, key=lambda each: each.time)


class _Tail:
    """One file that grows."""

    def __init__(self, path: Path, position: int) -> None:
        self._path = path
        self._position = position
        self._begin(0)

    def _begin(self, file: int) -> None:
        #: which file has the name: another one may be put in its place
        self._file = file
        self._offset = 0
        self._rest = b""
        self.building: Building | None = None

    def read(self) -> Iterator[Happening]:
        try:
            with self._path.open("rb") as opened:
                status = os.fstat(opened.fileno())
                if status.st_ino != self._file or status.st_size < self._offset:
                    self._begin(status.st_ino)
                opened.seek(self._offset)
                while new := opened.read(_MOST_BYTES):
                    self._offset += len(new)
                    # The last line may be half written: it waits for the rest.
                    *lines, self._rest = (self._rest + new).split(b"\n")
                    for line in lines:
                        yield from self._take(line.decode("utf-8", "replace"))
        except OSError:
            # Removed, or not ours to read: what is known stays.
            return

    def _take(self, line: str) -> Iterator[Happening]:
        record = record_of(line)
        if record is None:
            return
        if self.building is None:
            if record.get("format") == FORMAT and record.get("version") == VERSION:
                made = begun(self._path.name, record, self._position)
                self.building = Building(made)
            return
        event = event_of(record)
        if event is not None:
            when = seconds(record.get("time"))
            self.building.take(when, event)
            yield from _happenings(self.building.process, when, event)


def _happenings(process: Process, when: float, event: Event) -> Iterator[Happening]:
    told = _told(event)
    if told is None:
        return
    kind, text, place = told
    function = function_of(process, event.compile_id)
    name = "" if function is None else function.name
    yield Happening(when, process, kind, name, event.compile_id, text, place)


def _told(event: Event) -> tuple[str, str, Frame | None] | None:
    match event:
        case kinds.Recompile() if event.reasons:
            # The entry that came closest is the last.
            last = event.reasons[-1]
            return "recompile", in_words(last), last.user_frame
        case kinds.Compiled():
            graphs = f"{event.graphs} graph{'s' * (event.graphs != 1)}"
            return "compiled", f"{graphs} in {event.seconds:.2f} s", None
        case kinds.GraphBreak():
            return "graph break", event.reason, event.user_frame
        case kinds.RunsEagerly():
            return "runs eagerly", event.reason, event.user_frame
        case kinds.CompileFailed():
            return "failed", f"{event.error}: {event.text}", event.user_frame
        case kinds.RecompileLimit():
            said = f"{event.limit} entries, the limit: calls that match none of them run eagerly"
            return "limit", said, None
        case kinds.VerificationFailed():
            return "wrong answer", "; ".join(event.differences), None
        case _:
            return None


def function_of(process: Process, compile_id: str) -> TracedFunction | None:
    number = compile_id.partition("/")[0]
    return next((each for each in process.functions if each.number == number), None)


# -- how things stand ------------------------------------------------------------------------------


def under_way(process: Process) -> Iterator[tuple[TracedFunction, Attempt]]:
    """Compiles that have begun, and have not ended."""
    if process.ended is not None:
        return
    for function in process.functions:
        for entry in function.entries:
            for attempt in entry.attempts[-1:]:
                if attempt.outcome is None and attempt.stack:
                    yield function, attempt


def state_of(process: Process) -> str:
    """ "running", "ended", or "gone" for one that has told no end and is not there any more."""
    if process.ended is not None:
        return "ended"
    if process.pid > 0 and process.host == platform.node() and not _is_alive(process.pid):
        return "gone"
    return "running"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def shown_place(place: Frame | None) -> str:
    return "" if place is None else f"{PurePath(place.filename).name}:{place.line}"


def clock(when: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(when))


def in_short(text: str) -> str:
    """`L['x'].size()[0]` as people write it: `x.size()[0]`."""
    return _INPUT.sub(r"\1", text)


def is_part(function: TracedFunction) -> bool:
    """Of a function that runs in parts."""
    return _PART.search(function.name) is not None
