"""The sink that writes a trace, and the environment variable that starts it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from anyshape.events.kinds import Event
from anyshape.events.stream import Stream, stream, warn_of_failure
from anyshape.events.trace.background import Background
from anyshape.events.trace.envelope import Envelopes, Writing
from anyshape.events.trace.files import LazyFile, Rank, file_name
from anyshape.events.trace.own_events import OwnEvents
from anyshape.events.trace.tlparse_rows import ROWS
from anyshape.support.user_warning import warn_user


def _alone() -> int | None:
    return None


class _Files(NamedTuple):
    """What one process writes as one rank."""

    rank: int | None
    trace: LazyFile
    events: LazyFile
    writing: Writing
    own: OwnEvents


class TraceSink:
    """Writes every event to the files of the rank that this process has now."""

    def __init__(
        self,
        folder: Path,
        rank: Rank = _alone,
        versions: Mapping[str, str] = MappingProxyType({}),
        now_and_then: Callable[[], Iterable[Event]] | None = None,
    ) -> None:
        self._folder = folder
        self._rank = rank
        #: by package: "torch", "anyshape"
        self._versions = versions
        #: what is to be told though nothing happened: calls that entries serve are silent
        self._now_and_then = now_and_then
        self._background = Background(None if now_and_then is None else self._tick)
        self._files: _Files | None = None
        #: events that could not be written
        self.failures = 0

    def __call__(self, event: Event) -> None:
        when = time.time()
        self._background.put(lambda: self._write(when, event))

    def later(self, make: Callable[[], Event]) -> None:
        when = time.time()
        self._background.put(lambda: self._write(when, make()))

    def _tick(self) -> None:
        assert self._now_and_then is not None, "there is no tick without something to tell"
        for event in self._now_and_then():
            self(event)

    def flush(self) -> None:
        """Write what waits."""
        self._background.finish()

    def close(self) -> None:
        """Write what waits. What is told after this goes to other files."""
        self._background.finish()
        if self._files is not None:
            self._files.trace.close()
            self._files.events.close()
        self._files = None

    def _write(self, when: float, event: Event) -> None:
        try:
            files = self._current()
            files.own.write(when, event)
            row = ROWS.get(type(event))
            if row is not None:
                files.writing.out.when = when
                row(event, files.writing)
                files.trace.flush()
            files.events.flush()
        except Exception as error:
            self._failed(type(event), error)

    def _failed(self, kind: type[Event], error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            # Where warnings are errors, there is nobody to catch it in the background.
            with contextlib.suppress(Warning):
                if isinstance(error, OSError):
                    why = error.strerror or str(error)
                    text = f"the trace in {self._folder} lacks what comes from here on: {why}"
                    warn_user(text, RuntimeWarning)
                else:
                    warn_of_failure(kind, error)

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
        own.header({**self._versions, **_about_process(), "rank": rank})
        about = {"name": "torch_version", "encoding": "json"}
        out.envelope("artifact", about, json.dumps(self._versions.get("torch", "")))
        return _Files(rank, trace, events, Writing(out), own)

    def after_fork(self) -> None:
        self._background.after_fork()


def _about_process() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "pid": os.getpid(),
        "host": platform.node(),
        "arguments": list(sys.argv),
        "folder": os.getcwd(),
    }


def start_trace(
    folder: str | Path,
    rank: Rank = _alone,
    versions: Mapping[str, str] = MappingProxyType({}),
    events: Stream = stream,
    now_and_then: Callable[[], Iterable[Event]] | None = None,
) -> Callable[[], None]:
    """Write all events to files in the folder; the result ends it. `now_and_then` is asked by a
    thread for more of them."""
    sink = TraceSink(Path(folder), rank, versions, now_and_then)
    os.register_at_fork(after_in_child=sink.after_fork)
    unsubscribe = events.subscribe(sink)

    def stop() -> None:
        unsubscribe()
        sink.close()

    return stop
