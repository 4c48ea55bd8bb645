"""Times of several calls that take turns, so that their ratios mean something on a shared machine.

With two threads a call waits at the end of every parallel loop for the slower one; if another
process has that core, it waits for the scheduler (8 ms here, whatever the loop costs). A round in
which other processes took processor time is therefore taken again, as long as there is time. Where
that leaves fewer than three, each system's own fastest three rounds count, quiet or not: they are
the nearest to a quiet machine that there is. The share of quiet rounds is kept with the figures.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Seconds that one system's part of a round lasts at least, and the most calls in it.
_PART: Final = 0.008
_MOST_CALLS: Final = 2000
#: Rounds in which others took more of the wall clock than this are not quiet; the clock of the
#: kernel's counters ticks every 10 ms.
_MOST_OTHERS, _TICKS = 0.15, 0.02
_LEAST: Final = 3


@dataclass(frozen=True)
class Rounds:
    """Seconds a call, round by round, and how many of the rounds taken were quiet."""

    seconds: dict[str, list[float]]
    quiet: float


def take_turns(
    calls: Mapping[str, Callable[[], Any]], *, budget: float, most: int, processor: bool = False
) -> Rounds:
    """Up to `most` quiet rounds within `budget` seconds, but never less than three. `processor`:
    count processor time, of one thread: then every round counts."""
    clock = time.process_time if processor else time.perf_counter
    repeats = {name: _repeats(call, clock) for name, call in calls.items()}
    quiet: list[dict[str, float]] = []
    disturbed: list[dict[str, float]] = []
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        started = time.perf_counter()
        while len(quiet) < most:
            done = len(quiet) + len(disturbed)
            if done >= _LEAST and time.perf_counter() - started > budget:
                break
            # Another order each time: who follows whom must not matter.
            turn = done % len(names)
            order = names[turn:] + names[:turn]
            busy, since = _others(), time.perf_counter()
            times = {name: _part(calls[name], repeats[name], clock) for name in order}
            wall = time.perf_counter() - since
            calm = processor or _others() - busy <= _MOST_OTHERS * wall + _TICKS
            (quiet if calm else disturbed).append(times)
    finally:
        gc.enable()
    share = len(quiet) / (len(quiet) + len(disturbed))
    if len(quiet) >= _LEAST:
        return Rounds({name: [times[name] for times in quiet] for name in names}, share)
    every = quiet + disturbed
    fastest = {name: sorted(times[name] for times in every)[:_LEAST] for name in names}
    return Rounds(fastest, share)


def _repeats(call: Callable[[], Any], clock: Callable[[], float]) -> int:
    call()
    start = clock()
    call()
    return max(1, min(_MOST_CALLS, int(_PART / max(clock() - start, 1e-9))))


def _part(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    # The first call finds memory as another system left it: glibc gives the end of the heap back
    # when a large block there is freed, and whoever allocates next waits for fresh pages.
    call()
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def _others() -> float:
    """Processor seconds that others have had of the cores we may use, more or less."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    busy = 0
    with open("/proc/stat", encoding="ascii") as counters:
        for line in counters:
            name, *counts = line.split()
            if name in ours:
                user, nice, system, _idle, _wait, irq, soft, steal, *_ = map(int, counts)
                busy += user + nice + system + irq + soft + steal
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()
