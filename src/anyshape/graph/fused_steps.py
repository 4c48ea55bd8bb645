"""Fusion over a run of native steps: which kernels become one, and which buffers go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.graph.plan import Compute, Held, Native, Step
from anyshape.graph.touched import touched
from anyshape.loops.fusion import Same, fused, without_buffers
from anyshape.loops.kernels import Kernel

#: How far back to look for a kernel to join.
_FAR: Final = 6


def fused_steps(
    steps: Sequence[Step], held: Mapping[str, Held], after: set[str], same: Same
) -> list[Step]:
    """The steps with kernels joined. `after`: the buffers that are used later."""
    result: list[Compute | Native] = []
    for step in steps:
        assert isinstance(step, Compute | Native)
        place = _place_to_join(result, step, same)
        if place is None:
            result.append(step)
        else:
            number, kernel = place
            result[number] = computing(kernel)
    return [_lean(step, result, held, after) for step in result]


def computing(kernel: Kernel) -> Compute:
    reads, writes, numbers = touched(kernel)
    return Compute(kernel, reads, writes, numbers)


def _place_to_join(
    result: Sequence[Compute | Native], step: Compute | Native, same: Same
) -> tuple[int, Kernel] | None:
    """A kernel that the step can be part of, and what that makes of it."""
    if not isinstance(step, Compute):
        return None
    for number in reversed(range(max(0, len(result) - _FAR), len(result))):
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
    step: Compute | Native,
    all_steps: Sequence[Compute | Native],
    held: Mapping[str, Held],
    after: set[str],
) -> Compute | Native:
    """Without buffers that only this kernel uses."""
    if not isinstance(step, Compute):
        return step
    others: set[str] = set(after)
    for each in all_steps:
        if each is not step:
            others |= each.reads | each.writes
    own = [name for name in sorted(step.writes) if name not in others and not held[name].given]
    return computing(without_buffers(step.kernel, own)) if own else step
