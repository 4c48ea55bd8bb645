"""Work that waits until the program has a moment.

A compile takes a few milliseconds, and to write about it takes a third of that. What is put here is
done by a thread, a moment after the last of it came: the compile does not wait, and a burst of
compiles is written in one go. What is left is done when the program ends.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

#: Nothing new for so long: there is time.
QUIET_SECONDS: Final = 0.05
#: What a program that is killed may lose.
LONGEST_SECONDS: Final = 0.5

#: Between two ticks, at least and at most: a job of days must not fill a disk.
TICK_SECONDS: Final = (1.0, 10.0)

Work = Callable[[], None]


def _between(age: float) -> float:
    least, most = TICK_SECONDS
    return min(max(age / 100, least), most)


class Background:
    """Does what it is given in order, in a thread of its own."""

    def __init__(self, tick: Work | None = None) -> None:
        #: done about every second, and more seldom as time goes on
        self._tick = tick
        self._waiting: deque[Work] = deque()
        self._last = 0.0
        self._start_lock = threading.Lock()
        #: held by whoever does the work, so that it stays in order
        self._working = threading.RLock()
        self._thread: threading.Thread | None = None
        self._is_something = threading.Event()
        self._process = os.getpid()
        #: whether there is nobody to do it later
        self._at_once = False
        atexit.register(self._end)

    def put(self, work: Work) -> None:
        self._waiting.append(work)
        self._last = time.monotonic()
        if self._at_once:
            self.finish()
        elif self._thread is None:
            self._start()
        elif not self._is_something.is_set():
            self._is_something.set()

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is not None:
                return
            try:
                thread = threading.Thread(target=self._run, name="anyshape-trace", daemon=True)
                thread.start()
            except RuntimeError:  # Python is ending
                self._at_once = True
            else:
                self._thread = thread
        if self._at_once:
            self.finish()

    def _run(self) -> None:
        first = ticked = time.monotonic()
        while True:
            began = time.monotonic()
            while (quiet := time.monotonic() - self._last) < QUIET_SECONDS:
                if time.monotonic() - began >= LONGEST_SECONDS:
                    break
                time.sleep(QUIET_SECONDS - quiet)
            # Before the work: what comes meanwhile sets it again.
            self._is_something.clear()
            self.finish()
            now = time.monotonic()
            if self._tick is not None and now - ticked >= _between(now - first):
                ticked = now
                self._tick()
            self._is_something.wait(None if self._tick is None else TICK_SECONDS[0])

    def finish(self) -> None:
        """Do all of it now."""
        with self._working:
            while self._waiting:
                self._waiting.popleft()()

    def _end(self) -> None:
        self._at_once = True
        if self._process == os.getpid():
            self.finish()

    def after_fork(self) -> None:
        """In a forked process there is no thread, and what waits is the parent's. It may end
        without telling: what is put is done at once."""
        self._waiting.clear()
        self._working = threading.RLock()
        self._start_lock = threading.Lock()
        self._is_something = threading.Event()
        self._thread = None
        self._process = os.getpid()
        self._at_once = True
