"""What of a kernel's plan may be chosen without changing what it computes.

The defaults are right for most kernels and sizes on most GPUs. `mode="max-autotune"` measures what
else there is: `backends/native/autotune.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anyshape.support.lazy_dataclass import dataclass

#: Threads of a block, at most.
_MOST_THREADS: Final = 1024
#: Elements of a row that threads with many registers have, at most.
_LONGEST: Final = 16 * _MOST_THREADS
#: Elements that a thread has of a short row: with more, too many would be idle; and of one that is
#: but moved: so many threads wait for memory that more of it in each only makes it busier.
_FEW: Final = 16
#: Rows that give all processors enough to do, however few threads have each.
_MANY_ROWS: Final = 256
#: Threads that go together.
WARP: Final = 32


@dataclass(frozen=True, slots=True)
class GpuChoice:
    #: bytes that a thread moves at a time
    access: int = 16
    #: threads of a block, where there are many points or short rows
    threads: int = 128
    #: elements of a row that a thread has in registers, of one that is not short; with 0 all rows
    #: are read again, or are in shared memory. What a thread does once for a row, reductions above
    #: all, is as much again as 16 elements of a norm
    held: int = 32
    #: registers of a thread for such rows: with more, fewer threads are there to wait for memory
    registers: int = 64
    #: vectors of a row that a thread takes before more threads share it, where it has none in
    #: registers
    each: int = 8
    #: rounds that the threads of a block make before another block shares the row or the strip;
    #: with 0 none does
    share: int = 4

    @property
    def row_threads(self) -> int:
        """Threads that share a row which they have in registers, at most: fewer have more registers
        each."""
        return min(_MOST_THREADS, _LONGEST // max(self.held, 1) // WARP * WARP)

    def ways_to_hold(self, is_light: bool) -> Iterator[tuple[int, int, int]]:
        """(elements of a thread, threads that share a row at most, rows at least), for longer and
        longer rows. `is_light`: what is done is little beside what is moved."""
        few = min(self.held, _FEW)
        if few:
            yield few, WARP, 0
        if few < self.held:
            if not is_light:
                yield self.held, self.row_threads, _MANY_ROWS
            yield few, self.row_threads if is_light else _MOST_THREADS, 0
        if is_light or few == self.held:
            yield self.held, self.row_threads, 0
        if self.row_threads < _MOST_THREADS:
            yield self.held, _MOST_THREADS, 0

    @property
    def for_stages(self) -> int:
        """Registers of a thread for what is handed from stage to stage."""
        return max(32, 2 * self.held)


USUAL: Final = GpuChoice()
#: By parameter: what is tried in place of the default.
ALTERNATIVES: Final[dict[str, tuple[int, ...]]] = {
    "held": (8, 16, 0),
    "registers": (48, 96),
    "access": (8, 32),
    "threads": (256, 512),
    "each": (4, 16),
    "share": (1, 16, 0),
}
