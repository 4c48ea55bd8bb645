"""The compiles of each function in order, out of the functions of a process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from anyshape.events.kinds import (
    Decided,
    Frame,
    GraphBreak,
    GraphCompiled,
    GuardFailure,
    GuardSaid,
    RecompileLimit,
    RunsEagerly,
    Specialised,
)
from anyshape.events.trace.reading import PATTERN, NotATrace, read_file
from anyshape.explain.advice.source_lines import Listing
from anyshape.explain.trace_model import Process, TracedEntry, TracedFunction, process_of
from anyshape.support.lazy_dataclass import dataclass, field


class Compile:
    """An entry that was made: what it was for, and what came of it."""

    def __init__(self, entry: TracedEntry) -> None:
        decided = entry.decided
        self.id: str = entry.id
        self.stack = decided.stack
        #: why earlier entries did not serve the call
        self.reasons: dict[str, GuardFailure] = {r.entry_id: r for r in reversed(decided.recompile)}
        #: what the call had: in words, and sizes and integers by source
        self.seen = decided.seen
        self.values: dict[str, int] = decided.values
        self.decisions: dict[str, Decided] = dict(decided.decisions)
        self.guards: tuple[GuardSaid, ...] = tuple(entry.guards)
        #: sources that were dynamic and have one value left
        self.specialised = {s for each in decided.all(Specialised) for s in each.sources}
        graphs = decided.all(GraphCompiled)
        #: of the graphs that it began with
        self.operators = [name for graph in graphs for name in graph.operators]
        self.inputs = [
            name for graph in graphs for name, kind in graph.inputs.items() if "[" in kind
        ]
        self.breaks = [each for attempt in entry.made for each in attempt.all(GraphBreak)]
        #: how often it was compiled for again, because data went another way
        self.growths = max(len(entry.made) - 1, 0)
        #: what it relies on beside sizes: see `similar.py`, which keeps it here
        self.signature: object = None


def call_place(compiled: Compile) -> Frame | None:
    """The line of the program that made the call."""
    calls = [each for each in compiled.stack if not each.filename.startswith("<")]
    return calls[-1] if calls else None


@dataclass(slots=True)
class FunctionHistory:
    """A compiled function, or one life of it: `reset` begins another."""

    name: str
    file: str
    line: int
    #: when its first compile began
    began: float = 0.0
    compiles: list[Compile] = field(default_factory=list[Compile])
    #: since when it runs eagerly for what no entry serves
    limit: RecompileLimit | None = None
    #: calls, or all calls, that run eagerly,
    #: and where the program made the call
    left: list[tuple[RunsEagerly, Sequence[Frame]]] = field(
        default_factory=list[tuple[RunsEagerly, Sequence[Frame]]]
    )


@dataclass(slots=True)
class History:
    rank: int | None
    functions: list[FunctionHistory]
    listing: Listing


def read_histories(path: Path, skip: frozenset[str] = frozenset()) -> Iterator[History]:
    """Those of a folder of a trace, or of one file, without the files of these names. What cannot
    be read is left out."""
    for file in sorted(path.glob(PATTERN)) if path.is_dir() else [path]:
        if file.name not in skip:
            try:
                yield _history(process_of(read_file(file)))
            except NotATrace:
                continue


def _history(process: Process) -> History:
    lives = [life for function in process.functions for life in _lives(function)]
    listing = Listing(process.folder, process.sources)
    return History(process.rank, sorted(lives, key=lambda life: life.began), listing)


def _lives(function: TracedFunction) -> Iterator[FunctionHistory]:
    life = FunctionHistory(function.name, function.file, function.line)
    for position, entry in enumerate(function.entries):
        if position == 0:
            life.began = entry.first.time
        elif life.compiles and entry.id.endswith("/0"):
            # Nothing but a reset counts from the start again.
            yield life
            began = entry.first.time
            life = FunctionHistory(function.name, function.file, function.line, began)
        life.left += [(each, a.stack) for a in entry.attempts for each in a.all(RunsEagerly)]
        if entry.made:
            life.compiles.append(Compile(entry))
    life.limit = function.limit
    yield life
