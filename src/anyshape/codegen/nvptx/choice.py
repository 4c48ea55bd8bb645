"""What of a kernel's plan may be chosen without changing what it computes.

The defaults are right for most kernels and sizes on most GPUs. `mode="max-autotune"` measures what
else there is: `backends/native/autotune.py`.
"""

from __future__ import annotations

from typing import Final

from anyshape.support.lazy_dataclass import dataclass

#: Threads that share a row which they have in registers, at most.
_MOST_THREADS: Final = 1024
#: Elements of such a row, at most, where each thread has as many as are usual.
_LONGEST: Final = 16 * _MOST_THREADS


@dataclass(frozen=True, slots=True)
class GpuChoice:
    #: bytes that a thread moves at a time
    access: int = 16
    #: threads of a block, where there are many points or short rows
    threads: int = 256
    #: elements of a row that a thread has in registers; with 0 all rows are read again, or are in
    #: shared memory. On an H200, more of them take so many registers that too few threads are there
    #: to wait for memory
    held: int = 16
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
        return min(_MOST_THREADS, _LONGEST // max(self.held, 1))

    @property
    def registers(self) -> int:
        """Of a thread, for what is handed from stage to stage. It has 64, if there are as many
        threads as there may be."""
        return max(32, 2 * self.held)


USUAL: Final = GpuChoice()
#: By parameter: what is tried in place of the default.
ALTERNATIVES: Final[dict[str, tuple[int, ...]]] = {
    "held": (8, 32, 0),
    "access": (8, 32),
    "threads": (128, 512),
    "each": (4, 16),
    "share": (1, 16, 0),
}
