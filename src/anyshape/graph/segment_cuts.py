"""Where a long run of native steps is cut into several segments, so that memory goes back early.

A segment holds its inputs and outputs as long as it runs. A backward function takes all that was
kept and gives all gradients: in one segment there would be both at once. Cut in parts, what a part
has read last is given back before the next one makes its results. A cut is where it makes the
most that is there at once less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Final, NamedTuple

from anyshape.graph.plan import BufferDecl
from anyshape.loops.expr import WIDTH
from anyshape.loops.linear import Hint
from anyshape.loops.memory_plan import Life, in_place
from anyshape.loops.program import Repeated, Step, buffers_of
from anyshape.symbolic import product

#: At most so many parts: a call of native code costs as much as a small kernel.
_MOST_PARTS: Final = 16
#: A cut is worth a call if it takes this share off the most that is there at once, and so much.
_LEAST_GAIN: Final = 0.03
_LEAST_BYTES: Final = 1 << 14
#: How many steps times places a part may have for all ways to cut it to be tried.
_MOST_TRIED: Final = 4096
#: More than the results of a function that keeps them for another one is there anyway.
_ENOUGH: Final = 1.1
#: What is there at once is looked at for the sizes that were seen, for small and for large ones.
_SCALES: Final = (1.0, 1 / 2, 1 / 4, 1 / 16, 1 / 64, 8.0, 64.0)


def cuts(
    steps: Sequence[Step],
    held: Mapping[str, BufferDecl],
    visible: Set[str],
    after: Set[str],
    hint: Hint,
    repeated: Repeated | None,
    owned: Set[str],
    *,
    keeps: bool = False,
) -> list[int]:
    """Numbers of the steps that begin a part, without the first. `visible`: inputs, of which those
    that are `owned` go back; `after`: what is used later; `hint`: what sizes were when the program
    was captured. `keeps`: results are there as long as another function needs them, which has more
    at once than that."""
    spans: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        for name in buffers_of(step):
            spans.setdefault(name, [number, number])[1] = number
    if not steps:
        return []
    found = [0, len(steps)]
    places = [n for n in range(1, len(steps)) if _is_between(n, repeated)]
    followed = _followed(spans, steps, held, visible | after)
    for scale in _SCALES:
        lives = [
            _Life(
                -1 if name in visible else first,
                len(steps) if name in after and name not in visible else last,
                last - (name in followed),
                _bytes(held[name], hint, scale),
            )
            for name, (first, last) in spans.items()
            if name in owned or name not in visible
        ]
        kept = sum(each.size for each in lives if each.last == len(steps)) if keeps else 0.0
        whole = _Held(lives, len(steps))
        # Where other buffers are most of it, eager code has more of them.
        if not keeps or whole.peak(0, len(steps)) <= 2 * kept:
            _cut_where_most_is(found, whole, places, _ENOUGH * kept)
    return found[1:-1]


def _cut_where_most_is(found: list[int], held: _Held, places: Sequence[int], enough: float) -> None:
    """Split the part that holds most as long as that gains something."""
    peaks = [held.peak(*part) for part in pairwise(found)]
    while len(found) <= _MOST_PARTS:
        most = max(peaks)
        number = peaks.index(most)
        begin, end = found[number : number + 2]
        inside = [place for place in places if begin < place < end]
        wanted = most - max(most * _LEAST_GAIN, _LEAST_BYTES)
        if most <= enough:
            return
        best = min(held.split(begin, end, inside), default=None)
        if best is not None and best[0] <= wanted:
            own = [best[-1]]
        elif (end - begin) * len(inside) <= _MOST_TRIED:
            own = held.partition(begin, end, inside, wanted)
        else:
            own = []
        if not own:
            return
        found[number + 1 : number + 1] = own
        peaks[number : number + 1] = [
            held.peak(*part) for part in pairwise(found[number : number + len(own) + 2])
        ]


def _followed(
    spans: Mapping[str, Sequence[int]],
    steps: Sequence[Step],
    held: Mapping[str, BufferDecl],
    others: Set[str],
) -> Set[str]:
    """The buffers whose memory serves for another one from their last step on, within a part."""
    own = {name: held[name] for name in spans if name not in others}
    lives = [Life(name, product(each.sizes), *spans[name]) for name, each in own.items()]
    widths = {name: WIDTH[each.dtype] for name, each in own.items()}
    return {*in_place(lives, steps, widths).values()}


class _Life(NamedTuple):
    """The steps that touch a buffer, the first and the last: -1 for an input, the number of all
    steps for what is used later; and the last in which it has memory to itself."""

    first: int
    last: int
    until: int
    size: float


class _Held:
    """What is there at once while a part runs: inputs that were not given back before, results,
    and of its own buffers as many as are needed at one time."""

    def __init__(self, lives: Sequence[_Life], count: int) -> None:
        self._by_first: list[list[_Life]] = [[] for _ in range(count + 1)]
        self._by_last: list[list[_Life]] = [[] for _ in range(count + 1)]
        #: of buffers that are there before a step, and needed by it or later
        self._before = [0.0] * (count + 1)
        for each in lives:
            self._by_first[max(each.first, 0)].append(each)
            self._by_last[each.last].append(each)
            self._before[each.first + 1] += each.size
            if each.last < count:
                self._before[each.last + 1] -= each.size
        for number in range(1, count + 1):
            self._before[number] += self._before[number - 1]

    def peak(self, begin: int, end: int) -> float:
        return self._up_to(begin, end)[end]

    def split(
        self, begin: int, end: int, places: Sequence[int]
    ) -> Iterator[tuple[float, float, int]]:
        """What a cut at each place leaves at most; of those that are as good, the one that hands
        least on comes first."""
        one, other = self._up_to(begin, end), self._down_from(begin, end)
        for place in places:
            yield max(one[place], other[place]), self._before[place], place

    def partition(self, begin: int, end: int, places: Sequence[int], wanted: float) -> list[int]:
        """Where to cut so that no part holds more than is wanted, as few times as can be; empty if
        there is no such way. One cut alone may gain nothing where two do."""
        #: by the end of a part: how many there are up to it, and where it begins
        known: dict[int, tuple[int, int]] = {begin: (0, begin)}
        for place in (begin, *places):
            if place not in known:
                continue
            following = known[place][0] + 1
            sizes = self._up_to(place, end)
            for later in (*places, end):
                if later > place and sizes[later] <= wanted:
                    known[later] = min(known.get(later, (following, place)), (following, place))
        found: list[int] = []
        place = end if end in known else begin
        while place != begin:
            place = known[place][1]
            found.insert(0, place)
        return found[1:]

    def _up_to(self, begin: int, end: int) -> dict[int, float]:
        """Of parts with this begin, by their ends."""
        own = _Overlaid(begin, end)
        found: dict[int, float] = {}
        given = 0.0
        for number in range(begin, end):
            given += sum(each.size for each in self._by_first[number] if each.first >= begin)
            for each in self._by_last[number]:
                if each.first >= begin:
                    given -= each.size
                    own.add(each)
            found[number + 1] = self._before[begin] + given + own.highest
        return found

    def _down_from(self, begin: int, end: int) -> dict[int, float]:
        """Of parts with this end, by their begins."""
        own = _Overlaid(begin, end)
        found: dict[int, float] = {}
        given = 0.0
        for number in reversed(range(begin, end)):
            for each in self._by_first[number]:
                if each.first < 0:
                    continue
                if each.last >= end:
                    given += each.size
                else:
                    own.add(each)
            found[number] = self._before[number] + given + own.highest
        return found


class _Overlaid:
    """How much of some buffers is needed at one time at most."""

    def __init__(self, begin: int, end: int) -> None:
        self._begin = begin
        self._sizes = [0.0] * (end - begin)
        self.highest = 0.0

    def add(self, life: _Life) -> None:
        for number in range(life.first - self._begin, life.until + 1 - self._begin):
            self._sizes[number] += life.size
            self.highest = max(self.highest, self._sizes[number])


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


def _bytes(held: BufferDecl, hint: Hint, scale: float) -> float:
    elements = product(held.sizes)
    if not isinstance(elements, int):
        return max(hint(elements) or 0, 0) * scale * WIDTH[held.dtype]
    return float(elements * WIDTH[held.dtype])
