"""The sink that writes a trace, and the environment variable that starts it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple

from anyshape.events.kinds import Event
from anyshape.events.stream import Stream, stream
from anyshape.events.trace.envelope import Envelopes
from anyshape.events.trace.files import LazyFile, Rank, file_name
from anyshape.events.trace.own_events import OwnEvents
from anyshape.events.trace.tlparse_rows import ROWS, Writing

VARIABLE: Final = "ANYSHAPE_TRACE"


class _Files(NamedTuple):
    """What one process writes as one rank."""

    rank: int | None
    trace: LazyFile
    events: LazyFile
    writing: Writing
    own: OwnEvents


class TraceSink:
    """Writes every event to the files of the rank that this process has now."""

    def __init__(self, folder: Path, rank: Rank = lambda: None) -> None:
        self._folder = folder
        self._rank = rank
        self._lock = RLock()
        self._files: _Files | None = None

    def __call__(self, event: Event) -> None:
        with self._lock:
            files = self._current()
            files.own(event)
            row = ROWS.get(type(event))
            if row is not None:
                row(event, files.writing)

    def _current(self) -> _Files:
        rank, files = self._rank(), self._files
        if files is None or files.rank != rank or not files.trace.is_mine:
            if files is not None:
                files.trace.close()
                files.events.close()
            files = self._files = self._open(rank)
        return files

    def _open(self, rank: int | None) -> _Files:
        trace = LazyFile(self._folder, file_name("dedicated_log_torch_trace", rank, "log"))
        events = LazyFile(self._folder, file_name("anyshape_events", rank, "jsonl"))
        out = Envelopes(trace.write, rank)
        own = OwnEvents(events.write)
        own.header({**_about_process(), "rank": rank})
        about = {"name": "torch_version", "encoding": "json"}
        out.envelope("artifact", about, f'"{_version("torch")}"')
        return _Files(rank, trace, events, Writing(out), own)

    def after_fork(self) -> None:
        """The lock may be held by a thread that is not here."""
        self._lock = RLock()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _about_process() -> dict[str, object]:
    return {
        "anyshape": _version("anyshape"),
        "torch": _version("torch"),
        "python": platform.python_version(),
        "pid": os.getpid(),
        "host": platform.node(),
        "arguments": list(sys.argv),
        "folder": os.getcwd(),
    }


def start_trace(
    folder: str | Path, rank: Rank = lambda: None, events: Stream = stream
) -> Callable[[], None]:
    """Write all events to files in the folder; the result ends it."""
    sink = TraceSink(Path(folder), rank)
    os.register_at_fork(after_in_child=sink.after_fork)
    return events.subscribe(sink)


def start_trace_from_environment(rank: Rank, environment: Mapping[str, str] = os.environ) -> bool:
    """Write a trace if ANYSHAPE_TRACE names a folder."""
    folder = environment.get(VARIABLE, "")
    if folder:
        start_trace(folder, rank)
    return bool(folder)
