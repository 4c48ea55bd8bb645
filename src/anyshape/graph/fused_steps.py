"""Fusion over a run of native steps: which kernels become one, and which buffers go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.graph.plan import BufferDecl, Compute, Native, Step, computing
from anyshape.loops.fusion import fused, without_buffers
from anyshape.loops.kernels import Kernel
from anyshape.loops.linear import ProvablyEqual

#: How far back to look for a kernel to join.
FAR: Final = 6


def fused_steps(
    steps: Sequence[Step], held: Mapping[str, BufferDecl], after: set[str], same: ProvablyEqual
) -> tuple[list[Compute | Native], list[list[int]]]:
    """The steps with kernels joined, and the numbers of those that each was made of. `after`: the
    buffers that are used later."""
    result: list[Compute | Native] = []
    made_of: list[list[int]] = []
    for each, step in enumerate(steps):
        assert isinstance(step, Compute | Native)
        place = _place_to_join(result, step, same)
        if place is None:
            result.append(step)
            made_of.append([each])
        else:
            number, kernel = place
            result[number] = computing(kernel)
            made_of[number].append(each)
    uses = Counter(name for step in result for name in step.reads | step.writes)
    uses.update(after)
    return [_lean(step, uses, held) for step in result], made_of


def _place_to_join(
    result: Sequence[Compute | Native], step: Compute | Native, same: ProvablyEqual
) -> tuple[int, Kernel] | None:
    """A kernel that the step can be part of, and what that makes of it."""
    if not isinstance(step, Compute):
        return None
    for number in reversed(range(max(0, len(result) - FAR), len(result))):
        earlier = result[number]
        if isinstance(earlier, Compute):
            made = fused(earlier.kernel, step.kernel, same)
            if made is not None:
                return number, made
        if not _independent(earlier, step):
            return None
    return None


def _independent(earlier: Compute | Native, later: Compute | Native) -> bool:
    return not (earlier.writes & (later.reads | later.writes) or later.writes & earlier.reads)


def _lean(
    step: Compute | Native, uses: Mapping[str, int], held: Mapping[str, BufferDecl]
) -> Compute | Native:
    """Without buffers that only this kernel uses."""
    if not isinstance(step, Compute):
        return step
    # In the order of the stores: names say nothing.
    written = dict.fromkeys(
        part.buffer for stage in step.kernel.stages for part in (*stage.stores, *stage.scans)
    )
    own = [
        name for name in written if name in step.writes and uses[name] == 1 and not held[name].given
    ]
    return computing(without_buffers(step.kernel, own)) if own else step
