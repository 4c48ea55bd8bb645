"""Threads: for small jobs in the background, and for what may hang."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

_Job = TypeVar("_Job", bound=Hashable)
_T = TypeVar("_T")


class Worker(Generic[_Job]):
    """Does what it is asked for after `delay` seconds; until then the same request is one job. The
    thread lives until the process ends: none can be started while Python shuts down."""

    def __init__(self, name: str, work: Callable[[_Job], None], delay: float = 0.0) -> None:
        self._name = name
        self._work = work
        self._delay = delay
        self._changed = threading.Condition()
        self._jobs: dict[_Job, None] = {}
        self._is_busy = False
        self._in_a_hurry = 0
        self._thread: threading.Thread | None = None

    def ask(self, job: _Job) -> None:
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()  # an error while Python shuts down
                self._thread = thread
            self._jobs[job] = None
            self._changed.notify_all()

    def finish(self, limit: float) -> bool:
        """Have all that was asked for done now; False if that takes longer than `limit`."""
        with self._changed:
            self._in_a_hurry += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._jobs and not self._is_busy, limit)
            finally:
                self._in_a_hurry -= 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._jobs))
                self._changed.wait_for(lambda: self._in_a_hurry > 0, self._delay)
                jobs, self._jobs = self._jobs, {}
                self._is_busy = True
            try:
                for job in jobs:
                    self._work(job)
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()


def within(limit: float, function: Callable[[], _T], name: str) -> _T:
    """The result of a function that may hang, in a thread of this name; TimeoutError if it takes
    longer than `limit`."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(limit)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {limit:g} seconds")
    return results[0]


def at_end_of_program(function: Callable[[], object]) -> None:
    """Call it when the program ends, as long as threads can still work; what was asked for last
    first. Python has no public way for that: at `atexit`, what runs in pools of threads (most of
    fsspec) is refused. Forked processes of `multiprocessing` end there as well, and without
    `atexit`. It is called twice."""
    atexit.register(function)
    register: Any = getattr(threading, "_register_atexit", None)
    if register is not None:
        try:
            register(function)
        except RuntimeError:
            return  # it is ending
