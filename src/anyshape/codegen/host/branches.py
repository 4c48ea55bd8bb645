"""Products that may run side by side: branches of a CUDA graph.

Those of one matrix with several weights (queries, keys and values; gates) are independent of each
other, and small ones leave most of a GPU idle. Where a run is recorded, each but the first is in a
branch of its own, which ends behind the last. Between them nothing is freed that another one could
be given: what they read is one buffer, and weights that the caller has; what they write is read
behind them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from anyshape.loops.program import MOST_BRANCHES, Area, Buffer, Extern, Step, buffers_of

#: Functions that write to their first argument, by the place of the matrix that is multiplied.
_PRODUCTS: Final = {"mm_out": 1, "addmm_out": 2}

#: What the code says where a group begins; a branch has its number from 1 on, and 0 ends them.
BEGIN: Final = -1
END: Final = 0


def branches_of(
    steps: Sequence[Step], buffers: Mapping[str, Buffer], borders: Collection[int] = ()
) -> dict[int, int]:
    """By number of a step that is in a group, its place there. No group goes on at a border."""
    found: dict[int, int] = {}
    group: list[int] = []
    last: Area | None = None
    last_touch = {name: number for number, step in enumerate(steps) for name in buffers_of(step)}
    for number, step in enumerate([*steps, None]):
        shared = None if step is None else _shared(step, buffers)
        if shared is not None and step is not None:
            target = buffers_of(step)[0]
            # What nobody reads may share its memory with what the next product writes.
            if buffers[target].role != "output" and last_touch[target] == number:
                shared = None
        is_end = shared is None or shared != last or number in borders
        if group and (is_end or len(group) > MOST_BRANCHES):
            if len(group) > 1:
                found |= {each: place for place, each in enumerate(group)}
            group = []
        if shared is not None:
            group.append(number)
        last = shared
    return found


def _shared(step: Step, buffers: Mapping[str, Buffer]) -> Area | None:
    """The matrix that is multiplied, if all else that is read is the caller's."""
    if not isinstance(step, Extern) or step.function not in _PRODUCTS:
        return None
    place = _PRODUCTS[step.function]
    if len(step.arguments) <= place:
        return None  # It is refused where the call is written.
    target, matrix = step.arguments[0], step.arguments[place]
    others = [
        each
        for number, each in enumerate(step.arguments)
        if number not in (0, place) and isinstance(each, Area)
    ]
    if not isinstance(matrix, Area) or not isinstance(target, Area):
        return None
    given = all(buffers[each.buffer].role == "input" for each in others)
    return matrix if given and target.buffer != matrix.buffer else None
