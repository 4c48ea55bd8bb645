"""Threads of a GPU, which take turns in one thread of this process: each runs until it waits.

Whenever threads have met, they go on in the other order: what is read for want of a barrier before
it is written is read wrong each time, whichever thread writes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from greenlet import getcurrent, greenlet

#: What waits for somebody who is gone. To free it would be to let it go on.
_STUCK: Final[list[GpuThread]] = []


class GpuThread(greenlet):
    """A thread, by its number in the block."""

    def __init__(self, number: int, work: Callable[[int], object]) -> None:
        super().__init__(partial(work, number))
        self.number: Final = number


def current_number() -> int:
    thread = getcurrent()
    assert isinstance(thread, GpuThread)
    return thread.number


class Turns:
    """Whose turn it is."""

    def __init__(self) -> None:
        self._begun: list[GpuThread] = []
        self._new: deque[GpuThread] = deque()
        self._ready: deque[greenlet] = deque()

    def add(self, number: int, work: Callable[[int], object]) -> None:
        self._new.append(GpuThread(number, work))

    def run(self) -> bool:
        """Until nobody goes on; whether all are done."""
        while self._new or self._ready:
            if self._new:
                # From here alone: the stack of a thread begins where it was begun.
                self._begun.append(self._new[0])
            (self._new or self._ready).popleft().switch()
        stuck = [each for each in self._begun if not each.dead]
        _STUCK.extend(stuck)
        return not stuck

    def go_on(self, threads: Iterable[greenlet]) -> None:
        self._ready.extend(threads)

    def next(self) -> None:
        """Somebody else's turn: comes back when this thread is ready again."""
        current = getcurrent()
        is_anyone = self._ready and not self._new
        other = self._ready.popleft() if is_anyone else current.parent
        if other is not current:
            assert other is not None
            other.switch()

    def pause(self) -> None:
        self._ready.append(getcurrent())
        self.next()


class Meeting:
    """Where so many threads wait for each other, and see what each of them has brought."""

    def __init__(self, turns: Turns, count: int) -> None:
        self._turns, self._count = turns, count
        self._begin()

    def _begin(self) -> None:
        self._waiting: list[greenlet] = []
        self._brought: list[Any] = [None] * self._count

    def wait(
        self,
        place: int = 0,
        brought: object = None,
        together: Callable[[list[Any]], list[Any]] | None = None,
    ) -> list[Any]:
        """What all have brought, by place; with `together`, what is made of that."""
        waiting, all_brought = self._waiting, self._brought
        waiting.append(getcurrent())
        all_brought[place] = brought
        if len(waiting) == self._count:
            self._begin()
            if together is not None:
                all_brought[:] = together(all_brought)
            self._turns.go_on(reversed(waiting))
        self._turns.next()
        return all_brought
