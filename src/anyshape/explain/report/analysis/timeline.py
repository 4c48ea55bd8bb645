"""The calls of a function in order, with the sizes that change, and what served each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from anyshape.explain.trace_model import TracedEntry, TracedFunction

#: More than a picture can show; compiles are always kept.
MOST_POINTS: Final = 1500
_MOST_SOURCES: Final = 12


class Point(NamedTuple):
    time: float
    calls: int
    #: "hit", or what came of a compile
    what: str
    entry: str
    attempt: int
    values: Sequence[int | None]


class Timeline(NamedTuple):
    sources: Sequence[str]
    points: Sequence[Point]
    #: hits that are not drawn
    left_out: int


class _Call(NamedTuple):
    time: float
    calls: int
    what: str
    entry: TracedEntry
    attempt: int
    values: Mapping[str, int]


def timeline_of(function: TracedFunction) -> Timeline:
    calls = sorted(_calls(function), key=lambda call: call.time)
    sources = _changing(calls)
    hits = [call for call in calls if call.what == "hit"]
    keep = _thinned(hits, max(MOST_POINTS - (len(calls) - len(hits)), 200))
    kept = [call for call in calls if call.what != "hit" or id(call) in keep]
    drawn = sum(call.calls for call in kept if call.what == "hit")
    return Timeline(
        sources,
        [
            Point(
                c.time, c.calls, c.what, c.entry.key, c.attempt, [c.values.get(s) for s in sources]
            )
            for c in kept
        ],
        sum(entry.hits for entry in function.entries) - drawn,
    )


def _calls(function: TracedFunction) -> list[_Call]:
    found: list[_Call] = []
    for entry in function.entries:
        known = entry.decided.values
        for number, attempt in enumerate(entry.attempts):
            values = attempt.values or known
            found.append(_Call(attempt.time, 1, attempt.status, entry, number, values))
        for served in entry.served:
            values = {**known, **served.values}
            found.append(_Call(served.first, served.count, "hit", entry, 0, values))
    return found


def _changing(calls: Sequence[_Call]) -> list[str]:
    """Sources with more than one value, those with most first."""
    values: dict[str, set[int]] = {}
    for call in calls:
        for source, value in call.values.items():
            values.setdefault(source, set()).add(value)
    changing = [source for source, found in values.items() if len(found) > 1]
    if not changing:  # a picture of one line is better than none
        changing = [source for source in values if source.startswith("L['")][:2]
    changing.sort(key=lambda source: -len(values.get(source, ())))
    return changing[:_MOST_SOURCES]


def _thinned(hits: Sequence[_Call], most: int) -> set[int]:
    step = max(len(hits) / most, 1.0)
    return {id(hits[int(index * step)]) for index in range(min(len(hits), most))}


def sizes_served(entry: TracedEntry) -> list[tuple[dict[str, int], int]]:
    """Sizes with how many calls had them, the one that compiled included; the most frequent
    first."""
    counts: dict[tuple[tuple[str, int], ...], int] = {}
    known = entry.decided.values
    if known:
        counts[tuple(known.items())] = 1
    for served in entry.served:
        key = tuple({**known, **served.values}.items())
        counts[key] = counts.get(key, 0) + served.count
    return [(dict(key), count) for key, count in sorted(counts.items(), key=lambda kv: -kv[1])]
