"""Peak memory of a call, two ways, in a process of its own.

*Allocator*: torch's profiler sees every allocation and release that goes through torch's
allocator, also from native code; the highest running sum is the peak, results included. *Resident*:
how far the kernel's high-water mark of the process rises above what was resident before; it sees
memory from anywhere else, but only pages that were touched, and nothing below some 100 kB.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch.autograd.profiler import profile

from benchmarks.native.systems import SYSTEMS
from benchmarks.native.workload import Workload

_SIZES: Final = ("medium", "large")
_M_MMAP_THRESHOLD: Final = -3
_BLOCK: Final = 1 << 16
#: The least counts: whatever else the process does adds to it.
_REPEATS: Final = 3

Peaks = dict[str, dict[str, int]]


def memory(workload: Workload, systems: Sequence[str], threads: int) -> dict[str, Peaks]:
    """By size and system: bytes at the peak of a call that has run before."""
    torch.set_num_threads(threads)
    # A large block is a mapping of its own, which goes back when it is released. Otherwise the heap
    # keeps it, and what is resident says nothing about what is in use.
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _BLOCK)
    with torch.no_grad():
        function = workload.built()
        found: dict[str, Peaks] = {size: {} for size in _SIZES}
        for system in systems:
            compiled = SYSTEMS[system].compile(function)
            for size in _SIZES:
                args = workload.arguments(size)

                def call(compiled: Any = compiled, args: Any = args) -> Any:
                    return compiled(*args)

                call()
                call()
                found[size][system] = {
                    "allocator": allocator_peak(call),
                    "resident": min(_resident_peak(call) for _ in range(_REPEATS)),
                }
    return found


def allocator_peak(call: Callable[[], Any]) -> int:
    found: Any = profile(profile_memory=True, use_kineto=True)
    with _no_stderr(), found:
        result = call()
    del result
    results: Any = found.kineto_results  # typed without what its events say about memory
    changes = [event for event in results.events() if event.name() == "[memory]"]
    now = highest = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        now += event.nbytes()
        highest = max(highest, now)
    return highest


def _resident_peak(call: Callable[[], Any]) -> int:
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = call()
    del result
    return max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


@contextmanager
def _no_stderr() -> Iterator[None]:
    """The profiler's C++ part reports its start and stop there."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
