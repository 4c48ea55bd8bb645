"""Where temporaries lie: one workspace, in which buffers share memory whose lives do not meet.

Of any two buffers that are alive at once one lies below the other, whatever the sizes are: a buffer
begins where the last of those below it ends, which the program computes. Who lies below whom is
decided for sizes that are neither small nor large, the largest buffer first, each as low as it
goes: there the workspace is about as small as can be. For all others it is still right.

    b0: 4*s0 bytes in steps 0-1, b1: 4*s0 in 1-2, b2: 2*s0 in 2-3   ->   b1 above b0 and above b2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Final

from anyshape.loops.expr import WIDTH, reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Buffer, Launch, Step, buffers_of
from anyshape.loops.stages import all_roots
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, Symbol, evaluate, maximum, product
from anyshape.symbolic.expr import symbols_of

#: Of every buffer: whole cache lines, and what the widest vectors like.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer's bytes, and the first and last step that touch it."""

    name: str
    size: Size
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The buffers in an order such that those below come first, their bytes, and which lie directly
    below each: it begins behind the last of them, or at the start."""

    sizes: Mapping[str, Size]
    below: Mapping[str, tuple[str, ...]]


#: What a size is taken for where it may be anything.
_USUAL: Final = 64


def plan_memory(lives: Iterable[Life]) -> MemoryPlan:
    lives = list(lives)
    symbols = {symbol for life in lives for symbol in symbols_of(life.size)}
    usual = {symbol: _usual(symbol) for symbol in symbols}
    bytes_ = {life.name: max(evaluate(life.size, usual), 0) for life in lives}
    placed = _Placed()
    under: dict[str, set[str]] = {}
    for life in sorted(lives, key=lambda life: (-bytes_[life.name], life.first, life.last)):
        meeting = placed.meeting(life)
        size, start = bytes_[life.name], 0
        for begin, end, _ in meeting:  # in the order of their begins
            if start + size <= begin:
                break
            start = max(start, end)
        placed.add(start, start + size, life)
        under[life.name] = {o.name for a, _, o in meeting if a < start}
        for begin, _, other in meeting:
            if begin >= start:
                under[other.name].add(life.name)
    order = list(TopologicalSorter(under).static_order())  # each behind those under it
    below = {name: _direct(name, under) for name in order}
    sizes = {life.name: life.size for life in lives}
    return MemoryPlan({name: sizes[name] for name in order}, below)


class _Placed:
    """Where buffers lie, in the order of their begins."""

    def __init__(self) -> None:
        #: by step, those that are in use: most are for a few steps
        self._by_step: dict[int, list[tuple[int, int, int, Life]]] = {}
        self._count = 0

    def add(self, begin: int, end: int, life: Life) -> None:
        for step in range(life.first, life.last + 1):
            self._by_step.setdefault(step, []).append((begin, end, self._count, life))
        self._count += 1

    def meeting(self, life: Life) -> list[tuple[int, int, Life]]:
        """Those that are in use while this one is."""
        found = {
            each[2]: each
            for step in range(life.first, life.last + 1)
            for each in self._by_step.get(step, ())
        }
        # Numbers differ, so lives are not compared.
        return [(begin, end, other) for begin, end, _, other in sorted(found.values())]


def _usual(symbol: Symbol) -> int:
    low, high = symbol.declared
    return min(max(_USUAL, low or 0), _USUAL if high is None else high)


def _direct(name: str, under: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Without those that lie under another one of them: it begins behind these anyway."""
    found = under[name]
    return tuple(sorted(found - {lower for each in found for lower in under[each]}))


def in_place(
    lives: Iterable[Life], steps: Sequence[Step], widths: Mapping[str, int]
) -> dict[str, str]:
    """By name of a buffer: another one that it may take the place of, element by element. It ends
    in the step that makes this one, which reads of it nothing but the element that it writes."""
    by_name = {life.name: life for life in lives}
    found: dict[str, str] = {}
    for number, step in enumerate(steps):
        if not isinstance(step, Launch) or step.kernel.ordered or len(step.kernel.stages) != 1:
            continue
        names = {f"k{place}": name for place, name in enumerate(step.buffers)}
        stores = step.kernel.stages[0].stores
        written = Counter(store.buffer for store in stores)
        written.update(scan.buffer for scan in step.kernel.stages[0].scans)
        read = _addresses_read(step.kernel)
        for store in stores:
            made = by_name.get(names.get(store.buffer, ""))
            whole = store.mode == "set" and store.mask is None and written[store.buffer] == 1
            if made is None or made.first != number or not whole or store.buffer in read:
                continue
            for own, addresses in read.items():
                old = by_name.get(names.get(own, ""))
                if (
                    old is not None
                    and old.first < number == old.last
                    and addresses == {store.address}
                    and own not in written
                    and old.size == made.size
                    and widths[old.name] == widths[made.name]
                    and old.name not in found.values()
                ):
                    found[made.name] = old.name
                    break
    return found


def _addresses_read(kernel: Kernel) -> dict[str, set[Size]]:
    """What a kernel reads of each buffer, also to find positions."""
    found: dict[str, set[Size]] = {}
    for scalar in reached(all_roots(kernel)):
        if scalar.op == "load":
            found.setdefault(scalar.data[0], set()).add(scalar.data[1])
    return found


def merged(lives: Iterable[Life], places: Mapping[str, str]) -> list[Life]:
    """The lives of buffers that are in the place of others count as theirs."""
    found = {life.name: life for life in lives}
    for name in sorted(places, key=lambda name: -found[name].first):
        old, new = found[places[name]], found.pop(name)
        found[old.name] = replace(old, last=max(old.last, new.last))
    return list(found.values())


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
