"""Where temporaries lie: one workspace, in which buffers share memory whose lives do not meet.

The workspace is a row of slots. A buffer takes a slot that is free and provably large enough, or
one that it provably exceeds, which then grows; else a new one. Sizes are expressions, so "large
enough" must hold for every value of the symbols. Slots, not addresses, are decided: offsets are
sums that the program computes.

    b0: 4*s0 bytes in steps 0-1, b1: 4*s0 in 1-2, b2: 2*s0 in 2-3   ->   b0, b2 share; b1 apart
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from anyshape.loops.program import Area, Buffer, Extern, Launch, Step
from anyshape.loops.scalars import WIDTH
from anyshape.symbolic import Size, maximum, product
from anyshape.symbolic.bounds import DECLARED

#: Of every slot: whole cache lines, and what the widest vectors like.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer's bytes, and the first and last step that touch it."""

    name: str
    size: Size
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes of each slot, and the slot of each buffer."""

    slots: tuple[Size, ...]
    places: Mapping[str, int]


def plan_memory(
    lives: Iterable[Life], at_least: Callable[[Size, Size], bool] = DECLARED.at_least
) -> Plan:
    """`at_least(a, b)`: whether a >= b for all values that the symbols may take."""
    slots: list[Size] = []
    busy_until: list[int] = []
    places: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: (life.first, life.last)):
        free = [k for k in range(len(slots)) if busy_until[k] < life.first]
        k = _best(free, slots, life.size, at_least)
        if k is None:
            k = len(slots)
            slots.append(life.size)
            busy_until.append(life.last)
        else:
            if not at_least(slots[k], life.size):
                slots[k] = life.size
            busy_until[k] = life.last
        places[life.name] = k
    return Plan(tuple(slots), places)


def _best(
    free: list[int], slots: list[Size], size: Size, at_least: Callable[[Size, Size], bool]
) -> int | None:
    """The free slot of this very size; else one that is larger, the least of those; else one that
    is smaller, the largest of those."""
    best: int | None = None
    for k in free:
        if slots[k] is size or slots[k] == size:
            return k
        if at_least(slots[k], size) and (best is None or at_least(slots[best], slots[k])):
            best = k
    if best is None:
        for k in free:
            if at_least(size, slots[k]) and (best is None or at_least(slots[k], slots[best])):
                best = k
    return best


def bytes_of(buffer: Buffer) -> Size:
    """How much memory it takes; more, but never less, if some size is 0."""
    if _is_dense(buffer.sizes, buffer.strides):
        return product(buffer.sizes) * WIDTH[buffer.dtype]
    span: Size = 1
    for size, stride in zip(buffer.sizes, buffer.strides, strict=True):
        span = span + maximum(size - 1, 0) * stride
    return span * WIDTH[buffer.dtype]


def _is_dense(sizes: tuple[Size, ...], strides: tuple[Size, ...]) -> bool:
    """Whether the strides are those of a contiguous tensor with its dimensions in some order."""
    left = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    inner: Size = 1
    while left:
        following = next((pair for pair in left if pair[1] == inner), None)
        if following is None:
            return False
        left.remove(following)
        inner = inner * following[0]
    return True


def buffers_of(step: Step) -> set[str]:
    """The names of the buffers that a step touches."""
    match step:
        case Launch():
            return set(step.buffers)
        case Extern():
            return {area.buffer for area in step.arguments if isinstance(area, Area)}


def lives_of(buffers: Iterable[Buffer], steps: tuple[Step, ...]) -> list[Life]:
    """When each of them is in use; those that no step touches have no life."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name in buffers_of(step):
            first.setdefault(name, number)
            last[name] = number
    return [
        Life(buffer.name, bytes_of(buffer), first[buffer.name], last[buffer.name])
        for buffer in buffers
        if buffer.name in first
    ]
