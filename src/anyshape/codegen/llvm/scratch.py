"""The memory that a thread has for itself: private buffers, then its part of folds.

Threads that share a row leave what each has folded in their own memory, for all to read.
"""

from __future__ import annotations

from anyshape.codegen.llvm.plan import KernelPlan
from anyshape.loops.expr import WIDTH
from anyshape.symbolic import Size, floordiv

#: bytes; a line of the cache, so that threads do not share one
ALIGNMENT = 64


def private_offsets(plan: KernelPlan) -> dict[str, Size]:
    """Bytes from the beginning of a thread's memory."""
    return _layout(plan)[0]


def folds_offset(plan: KernelPlan) -> Size:
    """Where the folds lie that one thread shows to the others."""
    return _layout(plan)[1]


def bytes_for_a_thread(plan: KernelPlan) -> Size:
    return _layout(plan)[1] + folds_bytes(plan)


def fold_bytes(plan: KernelPlan) -> int:
    """Of one fold: two parts of at most 8 bytes for each lane of each copy."""
    return 16 * plan.lanes * max(plan.unroll)


def folds_bytes(plan: KernelPlan) -> int:
    if not plan.splits:
        return 0
    return max(len(stage.folds) for stage in plan.kernel.stages) * fold_bytes(plan)


def _layout(plan: KernelPlan) -> tuple[dict[str, Size], Size]:
    # With vectors along a parallel axis, each lane has a buffer of its own.
    lanes = 1 if plan.column is None else plan.lanes
    offsets: dict[str, Size] = {}
    end: Size = 0
    for name, (dtype, elements) in plan.kernel.private.items():
        offsets[name] = end
        # Whole vectors: those at the end of a row need no mask.
        unit = max(ALIGNMENT, WIDTH[dtype] * plan.lanes)
        size = elements * (WIDTH[dtype] * lanes)
        end = end + floordiv(size + (unit - 1), unit) * unit
    return offsets, end
