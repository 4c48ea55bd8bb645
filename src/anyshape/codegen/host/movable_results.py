"""Results of products that may be in each other's place.

Products of one matrix are one product of a batch where their results lie in the order of their
weights (`products.py`). Where these lie is known when a call comes: results that are equal
temporaries live equally long, so that then the first may change places with the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anyshape.codegen.host.products import ProductGroups
from anyshape.loops.memory_plan import Life
from anyshape.loops.program import Buffer, Repeated, Segment
from anyshape.support.lazy_dataclass import replace


def movable_results(
    segment: Segment,
    buffers: Mapping[str, Buffer],
    lives: Iterable[Life],
    in_place: Mapping[str, str],
) -> tuple[list[Life], dict[str, list[str]]]:
    """The lives of what lies in the workspace with those results living as long as each other; and
    by name of a result, all that is in its place. What is known of places ends with a round of
    steps that come again."""
    by_name = {life.name: life for life in lives}
    beside: dict[str, list[str]] = {}
    for name in in_place:
        beside.setdefault(_root(name, in_place), []).append(name)
    rounds = segment.repeated
    found: dict[int, list[Life]] = {}
    for group in _equal_temporaries(ProductGroups(segment.steps, buffers), buffers):
        own = [by_name[name] for name in group.values() if name in by_name]
        if len(own) < len(group):
            continue
        first, last = min(life.first for life in own), max(life.last for life in own)
        if rounds is None or _in_one_round(rounds, first, last):
            found[min(group)] = [replace(life, first=first, last=last) for life in own]
    movable: dict[str, list[str]] = {}
    for number, own in found.items():
        # One code is for all rounds.
        if rounds is None or all(each in found for each in _in_all_rounds(rounds, number)):
            by_name |= {life.name: life for life in own}
            movable |= {life.name: [life.name, *beside.get(life.name, ())] for life in own}
    return list(by_name.values()), movable


def _equal_temporaries(
    groups: ProductGroups, buffers: Mapping[str, Buffer]
) -> Iterable[dict[int, str]]:
    """Results of products that may be one, by the numbers of their steps."""
    for parts in groups.parts.values():
        for part in parts:
            results = {n: groups.products[n].d for n in part if n in groups.products}
            own = [buffers[area.buffer] for area in results.values()]
            is_whole = all(
                area.offset == 0 and buffer.role == "temporary"
                for area, buffer in zip(results.values(), own, strict=True)
            )
            alike = {(buffer.sizes, buffer.strides, buffer.dtype) for buffer in own}
            if len(results) > 1 and is_whole and len(alike) == 1:
                yield {number: area.buffer for number, area in results.items()}


def _root(name: str, in_place: Mapping[str, str]) -> str:
    while name in in_place:
        name = in_place[name]
    return name


def _in_one_round(repeated: Repeated, first: int, last: int) -> bool:
    """Whether these steps are in one round, or all before or behind the rounds."""
    begin, end = repeated.first, repeated.first + repeated.length * repeated.rounds
    if last < begin or first >= end:
        return True
    is_inside = begin <= first and last < end
    return is_inside and (first - begin) // repeated.length == (last - begin) // repeated.length


def _in_all_rounds(repeated: Repeated, number: int) -> list[int]:
    """The numbers of a step that comes again and again."""
    place = number - repeated.first
    if not 0 <= place < repeated.length * repeated.rounds:
        return [number]
    first = repeated.first + place % repeated.length
    return [first + repeated.length * each for each in range(repeated.rounds)]
