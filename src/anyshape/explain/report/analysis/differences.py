"""What several ranks, or several runs, compiled: the same functions side by side, in numbers and by
cause, those that differ first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from anyshape.events import kinds
from anyshape.events.kinds import Frame
from anyshape.explain.report.analysis.wording import in_words
from anyshape.explain.trace_model import Attempt, Process, TracedFunction

#: Times of equal work differ: less than this, in proportion and in seconds, is no difference.
_SLOWER: Final = 1.5
_SLOWER_SECONDS: Final = 0.1


class Side(NamedTuple):
    """One of those that are compared: a rank, or all processes of a run."""

    name: str
    processes: Sequence[Process]


class Tally(NamedTuple):
    """What a side did, in numbers."""

    compiles: int = 0
    recompiles: int = 0
    graphs: int = 0
    breaks: int = 0
    #: compiles that ended with an error, or with a function that runs eagerly
    stopped: int = 0
    seconds: float = 0.0
    hits: int = 0


class Cause(NamedTuple):
    """Why there was a compile, a graph break or an eager call."""

    #: "recompile", "graph break", "runs eagerly", "failed", "limit"
    kind: str
    words: str
    place: Frame | None
    #: how often, by side
    counts: Sequence[int]


class Difference(NamedTuple):
    """One function on all sides."""

    name: str
    file: str
    line: int
    #: the functions of each side that it is, by key; of several processes several
    keys: Sequence[Sequence[str]]
    #: None where the side did not compile it
    tallies: Sequence[Tally | None]
    causes: Sequence[Cause]
    #: fields of `Tally`, "causes", and "absent", that are not the same on all
    differing: Sequence[str]


class Comparison(NamedTuple):
    sides: Sequence[Side]
    totals: Sequence[Tally]
    functions: Sequence[Difference]


def compare_sides(sides: Sequence[Side]) -> Comparison:
    found: dict[_Name, list[list[TracedFunction]]] = {}
    lines: dict[str, Mapping[int, str]] = {}
    for position, side in enumerate(sides):
        for process in side.processes:
            lines |= {
                function.key: process.sources.get(function.file, {})
                for function in process.functions
            }
            for name, function in _named(process):
                found.setdefault(name, [[] for _ in sides])[position].append(function)
    functions = sorted(
        (_difference(by_side, lines) for by_side in found.values()),
        key=_urgency,
    )
    totals = [
        _sum([t for f in functions if (t := f.tallies[position]) is not None])
        for position in range(len(sides))
    ]
    return Comparison(sides, totals, functions)


def _urgency(difference: Difference) -> tuple[bool, bool, float]:
    """Other numbers first, then other times, then what is the same; of each, the slowest first."""
    differing = difference.differing
    slowest = max(tally.seconds for tally in difference.tallies if tally)
    return not differing, differing == ["seconds"], -slowest


_Name = tuple[str, str, int]


def _named(process: Process) -> Iterator[tuple[_Name, TracedFunction]]:
    """Without lines and folders: the program may have been edited, or moved, between two runs. What
    has the same name in a file goes by its order."""
    seen: dict[tuple[str, str], int] = {}
    for function in process.functions:
        name = function.name, PurePath(function.file).name
        seen[name] = seen.get(name, -1) + 1
        yield (*name, seen[name]), function


def _difference(
    by_side: Sequence[Sequence[TracedFunction]], lines: Mapping[str, Mapping[int, str]]
) -> Difference:
    shown = next(function for functions in reversed(by_side) for function in functions)
    tallies = [_sum([_tally(f) for f in functions]) if functions else None for functions in by_side]
    causes = _causes(by_side, lines)
    return Difference(
        shown.name,
        shown.file,
        shown.line,
        [[function.key for function in functions] for functions in by_side],
        tallies,
        causes,
        _differing(tallies, causes),
    )


def _tally(function: TracedFunction) -> Tally:
    attempts = [attempt for entry in function.entries for attempt in entry.attempts]
    return Tally(
        compiles=len(attempts),
        recompiles=sum(bool(attempt.recompile) for attempt in attempts),
        graphs=sum(len(entry.graphs) for entry in function.entries),
        breaks=sum(len(attempt.all(kinds.GraphBreak)) for attempt in attempts),
        stopped=sum(attempt.status in ("eager", "failed") for attempt in attempts),
        seconds=sum(attempt.seconds for attempt in attempts),
        hits=function.hits,
    )


def _sum(tallies: Sequence[Tally]) -> Tally:
    return Tally(*(sum(values) for values in zip(Tally(), *tallies, strict=True)))


def _causes(
    by_side: Sequence[Sequence[TracedFunction]], lines: Mapping[str, Mapping[int, str]]
) -> list[Cause]:
    """Equal where they are about the same thing on the same line, whatever the sizes were."""
    found: dict[tuple[str, str, str], Cause] = {}
    for position, functions in enumerate(by_side):
        for function in functions:
            for kind, about, words, place in _told(function):
                line = "" if place is None else lines[function.key].get(place.line, "").strip()
                key = kind, about, line
                known = found.get(key) or Cause(kind, words, place, [0] * len(by_side))
                counts = list(known.counts)
                counts[position] += 1
                found[key] = known._replace(counts=counts)
    return sorted(found.values(), key=lambda cause: -max(cause.counts))


_Told = tuple[str, str, str, Frame | None]


def _told(function: TracedFunction) -> Iterator[_Told]:
    """What kind of cause, what it is about, its words, and its line."""
    for entry in function.entries:
        for attempt in entry.attempts:
            yield from _told_of(attempt)
    if (limit := function.limit) is not None:
        words = f"{limit.limit} entries: calls that match none of them run eagerly"
        yield "limit", "", words, None


def _told_of(attempt: Attempt) -> Iterator[_Told]:
    # The entry that came closest is the last.
    for failure in attempt.recompile[-1:]:
        about = failure.source or failure.kind or failure.text
        yield "recompile", about, in_words(failure), failure.user_frame
    for each in attempt.all(kinds.GraphBreak):
        yield "graph break", each.reason, each.reason, each.user_frame
    match attempt.outcome:
        case kinds.RunsEagerly() as outcome:
            yield "runs eagerly", outcome.reason, outcome.reason, outcome.user_frame
        case kinds.CompileFailed() as outcome:
            yield "failed", outcome.error, outcome.text, outcome.user_frame
        case _:
            pass


def _differing(tallies: Sequence[Tally | None], causes: Sequence[Cause]) -> list[str]:
    present = [tally for tally in tallies if tally is not None]
    found = ["absent"] if len(present) < len(tallies) else []
    # How many calls there were is the program's business, and is shown only.
    for name in ("compiles", "recompiles", "graphs", "breaks", "stopped"):
        if len({getattr(tally, name) for tally in present}) > 1:
            found.append(name)
    seconds = [tally.seconds for tally in present]
    if max(seconds) > max(min(seconds) * _SLOWER, min(seconds) + _SLOWER_SECONDS):
        found.append("seconds")
    if len(present) == len(tallies) and any(len(set(cause.counts)) > 1 for cause in causes):
        found.append("causes")
    return found
