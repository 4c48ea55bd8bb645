"""Where a long run of native steps is cut into several segments, so that memory goes back early.

A segment holds its inputs and outputs as long as it runs. A backward function takes all that was
kept and gives all gradients: in one segment there would be both at once. Cut in parts, what a part
has read last is given back before the next one makes its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from anyshape.graph.plan import BufferDecl
from anyshape.loops.expr import WIDTH
from anyshape.loops.linear import Hint
from anyshape.loops.program import Repeated, Step, buffers_of
from anyshape.symbolic import product

#: How many parts of about equal weight: what is there at once is more than need be by one of them.
_PARTS: Final = 8
#: A part has at least so many steps: a call of native code costs as much as a small kernel.
_LEAST_STEPS: Final = 4


def cuts(
    steps: Sequence[Step],
    held: Mapping[str, BufferDecl],
    visible: Set[str],
    after: Set[str],
    hint: Hint,
    repeated: Repeated | None,
) -> list[int]:
    """Numbers of the steps that begin a part, without the first. `visible`: inputs; `after`: what
    is used later; `hint`: what sizes were when the program was captured."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name in buffers_of(step):
            first.setdefault(name, number)
            last[name] = number
    weights = [0] * len(steps)
    #: bytes of temporaries that are alive before each step
    crossing = [0] * (len(steps) + 1)
    for name in first:
        size = _bytes(held[name], hint)
        if name in visible:
            weights[last[name]] += size
        elif name in after:
            weights[first[name]] += size
        else:
            crossing[first[name] + 1] += size
            crossing[last[name] + 1] -= size
    for number in range(1, len(crossing)):
        crossing[number] += crossing[number - 1]
    return _chosen(weights, crossing, repeated)


def _chosen(
    weights: Sequence[int], crossing: Sequence[int], repeated: Repeated | None
) -> list[int]:
    share = sum(weights) / _PARTS
    found: list[int] = []
    begin = 0
    while share and begin < len(weights):
        weight = 0
        best: int | None = None
        for number in range(begin, len(weights)):
            is_open = number - begin >= _LEAST_STEPS and len(weights) - number >= _LEAST_STEPS
            if is_open and weight >= share / 2 and _is_between(number, repeated):
                # Of places that are about as good, the one with the least to hand on.
                if best is None or crossing[number] < crossing[best]:
                    best = number
                if weight >= share * 3 / 2:
                    break
            weight += weights[number]
        if best is None:
            break
        found.append(best)
        begin = best
    return found


def part_of_rounds(repeated: Repeated | None, begin: int, end: int) -> Repeated | None:
    """Those rounds that are in a part, by numbers of its own."""
    if repeated is None:
        return None
    first, length, rounds = repeated
    inside = [n for n in range(rounds) if begin <= first + n * length and first + n * length < end]
    if len(inside) < 2:
        return None
    return Repeated(first + inside[0] * length - begin, length, len(inside))


def _is_between(number: int, repeated: Repeated | None) -> bool:
    if repeated is None:
        return True
    first, length, rounds = repeated
    inside = number - first
    return not 0 < inside < length * rounds or inside % length == 0


def _bytes(held: BufferDecl, hint: Hint) -> int:
    return max(hint(product(held.sizes)) or 0, 0) * WIDTH[held.dtype]
