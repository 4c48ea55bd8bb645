"""Threads that make machine code while Python goes on.

They are there as long as there is something to do, so that none waits when the process ends or
forks: at the end what has begun is finished and kept on disk, and a fork waits for it, since a
child has the locks of its parent's threads and not the threads.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from anyshape.runtime.loader.errors import NativeUnavailable

T = TypeVar("T")
P = TypeVar("P")

#: Python changes threads so often while some are at work: each of them wants it for a moment only,
#: and whoever compiles has it all the time.
_SECONDS: Final = 0.0005


class Task(Generic[T]):
    """What is to be done once, and what comes of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self.future: Final[Future[T]] = Future()

    def __call__(self) -> None:
        work, self._work = self._work, None
        assert work is not None, "done once"
        try:
            result = work()
        except Exception as error:
            # Who waits gets it, and not what those who waited before were called with.
            self.future.set_exception(error.with_traceback(None))
        except BaseException:
            self.future.set_exception(NativeUnavailable("it was interrupted"))
            raise
        else:
            self.future.set_result(result)


def when_all(parts: Sequence[Future[P]], then: Callable[[list[P]], T]) -> Future[T]:
    """What is made of the results by the thread that has the last of them."""
    task = Task(lambda: then([part.result() for part in parts]))
    # A future keeps its callbacks for good: they keep nothing when the last one is done.
    waiting = [task]
    left = [len(parts)]
    lock = threading.Lock()

    def one_less(_: Future[P]) -> None:
        with lock:
            left[0] -= 1
            is_last = not left[0]
        if is_last:
            waiting.pop()()

    future = task.future
    del task
    for part in parts:
        part.add_done_callback(one_less)
    return future


class Workers:
    """Tasks, and the threads that do them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: list[Callable[[], object]] = []
        self._threads = 0
        #: threads that have one task each, and mostly wait
        self._apart = 0
        self._usual: float | None = None

    def do(self, tasks: Sequence[Callable[[], object]], most: int) -> None:
        """Do these, the first one first, and all before what was asked for earlier: the code that
        was compiled last is wanted next. Tasks raise nothing."""
        if not tasks:
            return
        with self._changed:
            self._tasks += reversed(tasks)
            for _ in range(min(most - self._threads, len(tasks))):
                if not self._start():
                    break
            is_alone = not self._threads
            self._threads += is_alone
            self._hurry()
        if is_alone:
            self._work()

    def _start(self) -> bool:
        # Counted before: who is interrupted while a thread starts has started it.
        self._threads += 1
        try:
            threading.Thread(target=self._work, name="anyshape native").start()
        except RuntimeError:  # at the end of the process, or there are too many
            self._threads -= 1
            return False
        return True

    def do_last(self, task: Callable[[], object]) -> None:
        """Do it when nothing else is left to do; now, if no thread is at work."""
        with self._changed:
            if self._threads:
                self._tasks.insert(0, task)
                return
        task()

    def do_apart(self, task: Callable[[], object]) -> None:
        """Do it in a thread of its own: it waits for other processes, and nothing waits behind
        it."""

        def work() -> None:
            try:
                task()
            finally:
                with self._changed:
                    self._apart -= 1
                    self._changed.notify_all()

        with self._changed:
            self._apart += 1
        try:
            threading.Thread(target=work, name="anyshape native wait").start()
        except RuntimeError:  # at the end of the process, or there are too many
            work()

    def finish(self) -> None:
        """Wait until nothing is left to do."""
        with self._changed:
            self._changed.wait_for(lambda: not self._threads and not self._apart)

    def _work(self) -> None:
        is_done = False
        try:
            while (task := self._next()) is not None:
                task()
            is_done = True
        finally:
            if not is_done:  # interrupted, or a task is wrong: another thread goes on
                with self._changed:
                    if self._tasks:
                        self._start()
                    self._ended()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            if self._tasks:
                return self._tasks.pop()
            self._ended()
            return None

    def _ended(self) -> None:
        self._threads -= 1
        if not self._threads:
            self._rest()
            self._changed.notify_all()

    def renew(self) -> None:
        """In a child that was forked, where there are no threads."""
        self._rest()
        self.__init__()

    def _hurry(self) -> None:
        if self._usual is None and sys.getswitchinterval() > _SECONDS:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(_SECONDS)

    def _rest(self) -> None:
        if self._usual is not None and sys.getswitchinterval() == _SECONDS:
            sys.setswitchinterval(self._usual)
        self._usual = None


workers: Final = Workers()

atexit.register(workers.finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=workers.finish, after_in_child=workers.renew)
