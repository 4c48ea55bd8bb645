"""What of a kernel's plan may be chosen without changing what it computes.

The defaults are right for most kernels and sizes on most processors. `mode="max-autotune"` measures
what else there is: `backends/native/autotune.py`.
"""

from __future__ import annotations

from typing import Final

from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CpuChoice:
    #: registers of a vector against what is usual: 1 is twice as many, -1 half
    width: int = 0
    #: vectors that a round of a loop takes, likewise
    unroll: int = 0
    #: instructions on elements that make a thread worth waking, likewise
    grain: int = 0

    def lanes(self, usual: int) -> int:
        return max(2, usual >> -self.width if self.width < 0 else usual << self.width)

    def copies(self, usual: int) -> int:
        return max(1, usual >> -self.unroll if self.unroll < 0 else usual << self.unroll)


USUAL: Final = CpuChoice()
#: By parameter: what is tried in place of the default.
ALTERNATIVES: Final[dict[str, tuple[int, ...]]] = {
    "width": (1, -1),
    "unroll": (1, -1, 2),
    "grain": (-2, 2),
}
