"""What is known of a function's inputs, and how two records of it become one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from anyshape.policy.observations import MANY, Observation, merge
from anyshape.profile.histogram import Histogram, most_seen
from anyshape.support.lazy_dataclass import dataclass, field

#: The place of an integer among the dimensions.
INTEGER: Final = -1

#: So many sources of a function are kept, those that change before the others.
MOST_SOURCES: Final = 512

#: Longer names are not worth their room.
_LONGEST_NAME: Final = 300

_SIZE = re.compile(r"(?P<source>.*)\.size\(\)\[(?P<dim>\d+)\]", re.DOTALL)

CombineCounts = Callable[[Histogram, Histogram], Histogram]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One input, by name: what it was seen as, and how often at which sizes."""

    seen: Observation
    #: by dimension; an integer at INTEGER
    counts: Mapping[int, Histogram] = field(default_factory=dict[int, Histogram])
    #: a parameter or property of a module: static unless settings say otherwise
    of_module: bool = False

    @property
    def changes(self) -> bool:
        """Whether more than one size or value was seen."""
        sizes = self.seen.sizes
        return (
            self.seen.integer is MANY
            or sizes is MANY
            or (isinstance(sizes, tuple) and MANY in sizes)
        )


@dataclass(frozen=True, slots=True)
class FunctionRecord:
    """One function: its inputs, and where it was found last."""

    name: str = ""
    file: str = ""
    line: int = 0
    #: the last day of use, counted from 1970
    used: int = 0
    sources: Mapping[str, SourceRecord] = field(default_factory=dict[str, SourceRecord])
    #: integers that the program changes itself: counters
    written: frozenset[str] = frozenset()

    def seen(self, source: str) -> Observation | None:
        """What `L['x']` was in earlier runs."""
        found = self.sources.get(source)
        return None if found is None else found.seen

    def typical(self, source: str) -> tuple[int, ...]:
        """Values of `L['x'].size()[0]` or `L['n']` in earlier runs, the most frequent first."""
        size = _SIZE.fullmatch(source)
        name, place = (source, INTEGER) if size is None else (size["source"], int(size["dim"]))
        found = self.sources.get(name)
        return () if found is None else most_seen(found.counts.get(place, {}))


#: Of a function that no run has seen.
NOTHING: Final = FunctionRecord()


def record_of_call(observation: Observation, of_module: bool = False) -> SourceRecord:
    """One call: each of its sizes was seen once."""
    counts: dict[int, Histogram] = {}
    if isinstance(observation.integer, int):
        counts[INTEGER] = {observation.integer: 1}
    if isinstance(observation.sizes, tuple):
        for dim, size in enumerate(observation.sizes):
            if isinstance(size, int):
                counts[dim] = {size: 1}
    return SourceRecord(observation, counts, of_module)


def is_worth_keeping(source: str) -> bool:
    """Whether the next process will have a source of this name: not one with an address in it."""
    return len(source) <= _LONGEST_NAME and " at 0x" not in source


# -- two records of one thing ---------------------------------------------------------------------


def combine(a: FunctionRecord, b: FunctionRecord, counts: CombineCounts) -> FunctionRecord:
    """Both together; the later one knows better where the function is."""
    later = a if a.used > b.used else b
    sources = dict(a.sources)
    for name, record in b.sources.items():
        before = sources.get(name)
        sources[name] = record if before is None else _combine_sources(before, record, counts)
    return FunctionRecord(
        later.name, later.file, later.line, later.used, _fitting(sources), a.written | b.written
    )


def _combine_sources(a: SourceRecord, b: SourceRecord, counts: CombineCounts) -> SourceRecord:
    return SourceRecord(
        merge(a.seen, b.seen),
        {
            place: counts(a.counts.get(place, {}), b.counts.get(place, {}))
            for place in sorted({*a.counts, *b.counts})
        },
        # What turned out to be a counter is one of the inputs.
        a.of_module and b.of_module,
    )


def _fitting(sources: Mapping[str, SourceRecord]) -> Mapping[str, SourceRecord]:
    if len(sources) <= MOST_SOURCES:
        return sources
    kept = sorted(sources, key=lambda name: not sources[name].changes)[:MOST_SOURCES]
    return {name: sources[name] for name in kept}
