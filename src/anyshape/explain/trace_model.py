"""A trace as values: processes have functions, functions have entries, entries have attempts.

An attempt holds the events of one compile as they were told. A trace may have been cut off, and may
be of several runs: whatever is missing is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar, cast

from anyshape.events import kinds
from anyshape.events.decode import Record, number, seconds, text, texts
from anyshape.events.kinds import Event, Frame
from anyshape.events.trace.own_events import Source
from anyshape.events.trace.reading import EventsFile, read_folder
from anyshape.explain.guard_texts import with_fields
from anyshape.support.lazy_dataclass import dataclass, field

Outcome = kinds.Compiled | kinds.RunsEagerly | kinds.CompileFailed
_STATUS: Final[dict[type, str]] = {
    kinds.Compiled: "compiled",
    kinds.RunsEagerly: "eager",
    kinds.CompileFailed: "failed",
}
_E = TypeVar("_E", bound=Event)


@dataclass(slots=True)
class TracedSymbol:
    """A dynamic size, and what became of it."""

    born: kinds.CreateSymbol
    #: as it became less
    ranges: list[str] = field(default_factory=list[str])
    replaced_by: str = ""
    fixed: kinds.Specialised | None = None


class Attempt:
    """One compile: the first of an entry, or one by which it grew, or one that failed."""

    def __init__(self, time: float, recompile: Sequence[kinds.GuardFailure] = ()) -> None:
        self.time = time
        #: why earlier entries did not serve the call
        self.recompile = recompile
        self.outcome: Outcome | None = None
        self.symbols: list[TracedSymbol] = []
        self._told: dict[type[Event], list[Event]] = {}

    def tell(self, event: Event) -> None:
        self._told.setdefault(type(event), []).append(event)
        match event:
            case kinds.Compiled() | kinds.RunsEagerly() | kinds.CompileFailed():
                self.outcome = event
            case kinds.CreateSymbol():
                self.symbols.append(TracedSymbol(event))
            case kinds.RangeUpdated() | kinds.Replaced() | kinds.Specialised():
                self._tell_symbol(event)
            case _:
                pass

    def _tell_symbol(self, event: kinds.RangeUpdated | kinds.Replaced | kinds.Specialised) -> None:
        named = [each for each in self.symbols if each.born.symbol == event.symbol]
        for symbol in named[-1:]:
            match event:
                case kinds.RangeUpdated():
                    symbol.ranges.append(event.range)
                case kinds.Replaced():
                    symbol.replaced_by = event.by
                case kinds.Specialised():
                    symbol.fixed = event

    def all(self, kind: type[_E]) -> Sequence[_E]:
        """What was told of this kind, in order."""
        return cast("Sequence[_E]", self._told.get(kind, ()))

    def last(self, kind: type[_E]) -> _E | None:
        found = self.all(kind)
        return found[-1] if found else None

    @property
    def status(self) -> str:
        """ "compiled", "eager", "failed", or "unfinished" where the trace ends."""
        return _STATUS.get(type(self.outcome), "unfinished")

    @property
    def measures(self) -> kinds.Measures:
        return kinds.Measures() if self.outcome is None else self.outcome.measures

    @property
    def stack(self) -> Sequence[Frame]:
        """Where the program made the call, the outermost first."""
        start = self.last(kinds.FrameStart)
        return () if start is None else start.stack

    @property
    def seconds(self) -> float:
        listed = sum(max(stage.seconds, 0.0) for stage in self.measures.stages)
        whole = self.outcome.seconds if isinstance(self.outcome, kinds.Compiled) else 0.0
        return max(whole or listed, 0.0)

    @property
    def seen(self) -> Mapping[str, str]:
        """What the call had, by source: "tensor size=[10, 4] stride=[4, 1]"."""
        return (self.last(kinds.SizesSeen) or kinds.SizesSeen("", {})).seen

    @property
    def decisions(self) -> Mapping[str, kinds.Decided]:
        return (self.last(kinds.SizesSeen) or kinds.SizesSeen("", {})).decisions

    @property
    def values(self) -> dict[str, int]:
        """Sizes and integers of the call: `{"L['x'].size()[0]": 10, ...}`."""
        return values_seen(self.seen)


_SIZES: Final = re.compile(r"tensor size=\[((?:[0-9]{1,15}(?:, )?)*)\]")
_SCALAR: Final = re.compile(r"scalar (-?[0-9]{1,15})")


def values_seen(seen: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for source, said in seen.items():
        if (sizes := _SIZES.match(said)) is not None:
            found |= by_dimension(source, [int(each) for each in sizes[1].split(", ") if each])
        elif (scalar := _SCALAR.fullmatch(said)) is not None:
            found[source] = int(scalar[1])
    return found


def by_dimension(source: str, sizes: Sequence[int]) -> dict[str, int]:
    return {f"{source}.size()[{dim}]": size for dim, size in enumerate(sizes)}


@dataclass(frozen=True, slots=True)
class Served:
    """Calls in a row with the same sizes."""

    first: float
    count: int
    #: by source: sizes of a tensor, or an integer
    given: Mapping[str, Sequence[int] | int]

    @property
    def values(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for source, value in self.given.items():
            found |= {source: value} if isinstance(value, int) else by_dimension(source, value)
        return found


@dataclass(slots=True)
class TracedEntry:
    """What a number like 0/1 stands for."""

    id: str
    key: str
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    #: as told when the program ended
    run_count: int | None = None
    served: list[Served] = field(default_factory=list[Served])
    #: calls that were served and not listed
    left_out: int = 0

    @property
    def first(self) -> Attempt:
        return self.attempts[0]

    @property
    def status(self) -> str:
        """The best that came of it."""
        found = [attempt.status for attempt in self.attempts]
        return next((s for s in ("compiled", "eager", "failed") if s in found), "unfinished")

    @property
    def made(self) -> list[Attempt]:
        """The compiles that it is of: the first, and those by which it grew because data went
        another way."""
        return [attempt for attempt in self.attempts if attempt.status == "compiled"]

    @property
    def decided(self) -> Attempt:
        """The attempt with the sizes that the entry was made for."""
        seen = [attempt for attempt in (*self.made, *self.attempts) if attempt.seen]
        return (seen or self.made or self.attempts)[0]

    @property
    def guards(self) -> Sequence[kinds.GuardSaid]:
        """As they are checked; those of the last compile."""
        found = [attempt.last(kinds.Compiled) for attempt in self.made[-1:]]
        return () if not found or found[0] is None else found[0].guard_lines

    @property
    def hits(self) -> int:
        listed = sum(each.count for each in self.served) + self.left_out
        return max(listed, self.run_count or 0)

    @property
    def graphs(self) -> list[kinds.GraphCompiled]:
        return [graph for attempt in self.attempts for graph in attempt.all(kinds.GraphCompiled)]

    @property
    def seconds(self) -> float:
        return sum(attempt.seconds for attempt in self.attempts)


@dataclass(slots=True)
class TracedFunction:
    number: str
    key: str
    name: str = ""
    file: str = ""
    line: int = 0
    entries: list[TracedEntry] = field(default_factory=list[TracedEntry])
    limit: kinds.RecompileLimit | None = None
    #: as told last
    counts: kinds.CallCounts | None = None

    @property
    def hits(self) -> int:
        told = 0 if self.counts is None else self.counts.hits
        return max(told, sum(entry.hits for entry in self.entries))

    @property
    def eager_calls(self) -> int:
        return 0 if self.counts is None else self.counts.eager_calls


@dataclass(slots=True)
class Process:
    """One process, which has one rank."""

    key: str
    #: the name of what it wrote
    file: str
    rank: int | None
    pid: int
    host: str
    command: str
    #: where the program was run
    folder: str
    started: float
    versions: Mapping[str, str]
    #: which of the folders that are compared it is in; empty where there is one
    run: str = ""
    functions: list[TracedFunction] = field(default_factory=list[TracedFunction])
    #: lines of the program by file and number
    sources: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    defects: list[str] = field(default_factory=list[str])
    #: the time of its end, if it has told
    ended: float | None = None
    problems: list[str] = field(default_factory=list[str])


# -- from the events of a process to its functions -------------------------------------------------


def read_trace(folder: Path) -> tuple[list[Process], list[str]]:
    """The processes of a trace, and what could not be read of it."""
    return read_traces({"": folder})


def read_traces(folders: Mapping[str, Path]) -> tuple[list[Process], list[str]]:
    """The same of several runs, by name."""
    processes: list[Process] = []
    problems: list[str] = []
    for run, folder in folders.items():
        files, unread = read_folder(folder)
        problems += [f"{run}: {text}" if run else text for text in unread]
        processes += [process_of(each, n, run) for n, each in enumerate(files, len(processes))]
    return processes, problems


def process_of(file: EventsFile, position: int = 0, run: str = "") -> Process:
    building = Building(begun(file.name, file.header, position, run))
    building.process.problems += file.problems
    for time, event in file.events:
        building.take(time, event)
    # Code that was generated for nothing, and numbers that nothing was compiled under.
    process = building.process
    for function in process.functions:
        function.entries = [entry for entry in function.entries if entry.attempts]
    process.functions = [f for f in process.functions if f.entries or f.limit]
    return process


def begun(name: str, header: Record, position: int = 0, run: str = "") -> Process:
    """A process of which only the first line is read."""
    return Process(
        key=f"p{position}",
        file=name,
        rank=number(header.get("rank")),
        pid=number(header.get("pid")) or 0,
        host=text(header.get("host")),
        command=" ".join(texts(header.get("arguments")))[:2000],
        folder=text(header.get("folder")),
        started=seconds(header.get("time")),
        versions={name: text(header.get(name)) for name in ("torch", "python")},
        run=run,
    )


#: What an attempt holds; those of the second row may be told of no compile at all.
_OF_ATTEMPT: Final = frozenset(
    {
        *(kinds.CreateSymbol, kinds.RangeUpdated, kinds.Replaced, kinds.Specialised),
        *(kinds.GuardAdded, kinds.GraphCompiled, kinds.GraphBreak, kinds.Compiled),
        *(kinds.RunsEagerly, kinds.CompileFailed, kinds.ProfileState, kinds.CompilerCollective),
    }
)
_IF_COMPILING: Final = frozenset(
    {
        *(kinds.MarkIgnored, kinds.Defect, kinds.Schedule, kinds.OutputCode, kinds.TrainingGraphs),
        *(kinds.KernelMeasured, kinds.GraphRecorded),
    }
)


class Building:
    """A process while its events are read: which function, entry and attempt an event is of."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._functions: dict[str, TracedFunction] = {}
        self._entries: dict[str, TracedEntry] = {}
        #: why no entry fits, told before the compile that it leads to
        self._recompiles: dict[str, Sequence[kinds.GuardFailure]] = {}

    def take(self, time: float, event: Event) -> None:
        compile_id = event.compile_id
        match event:
            case Source():
                known = self.process.sources.setdefault(event.file, {})
                known.update(enumerate(event.lines[:1000], event.first_line))
            case kinds.Recompile():
                self._name(compile_id, event)
                self._recompiles[compile_id] = [
                    with_fields(each, self._guards_of(each.entry_id)) for each in event.reasons
                ]
            case kinds.RecompileLimit():
                self._name(compile_id, event)
                self._function(compile_id).limit = event
            case kinds.FrameStart():
                self._name(compile_id, event)
                self._begin(compile_id, time).tell(event)
            case kinds.SizesSeen():
                self._start_over(compile_id)
                self._attempt(compile_id, time).tell(event)
            case kinds.RunCount():
                entry = self._entry(compile_id)
                entry.run_count = (entry.run_count or 0) + max(event.hits, 0)
            case kinds.CallCounts():
                self._name(compile_id, event)
                self._function(compile_id).counts = event
            case kinds.ProgramEnded():
                self.process.ended = time
            case kinds.CallsServed():
                self._served(self._entry(compile_id), event)
            case _ if type(event) in (_OF_ATTEMPT | _IF_COMPILING if compile_id else _OF_ATTEMPT):
                self._attempt(compile_id, time).tell(event)
            case _:
                pass
        if isinstance(event, Outcome):
            self._name(compile_id, event.measures)
        elif isinstance(event, kinds.Defect):
            self.process.defects.append(f"{event.stage}: {event.text}")
        elif isinstance(event, kinds.MarkIgnored) and not compile_id:
            said = f"the mark of {event.source} is not used: {event.reason}"
            self.process.defects.append(said)

    def _function(self, compile_id: str) -> TracedFunction:
        frame = compile_id.partition("/")[0]
        if frame not in self._functions:
            key = f"{self.process.key}-f{_key(frame, len(self._functions))}"
            made = self._functions[frame] = TracedFunction(frame, key)
            self.process.functions.append(made)
        return self._functions[frame]

    def _name(
        self,
        compile_id: str,
        said: kinds.FrameStart
        | kinds.Recompile
        | kinds.RecompileLimit
        | kinds.CallCounts
        | kinds.Measures,
    ) -> None:
        function = self._function(compile_id)
        function.name, function.file = function.name or said.function, function.file or said.file
        function.line = function.line or said.line

    def _entry(self, compile_id: str) -> TracedEntry:
        if compile_id not in self._entries:
            self._new_entry(compile_id, "")
        return self._entries[compile_id]

    def _guards_of(self, compile_id: str) -> Sequence[kinds.GuardSaid]:
        entry = self._entries.get(compile_id)
        return () if entry is None else entry.guards

    def _new_entry(self, compile_id: str, more: str) -> TracedEntry:
        key = f"{self.process.key}-e{_key(compile_id, len(self._entries))}{more}"
        made = self._entries[compile_id] = TracedEntry(compile_id, key)
        self._function(compile_id).entries.append(made)
        return made

    def _begin(self, compile_id: str, time: float) -> Attempt:
        attempt = Attempt(time, self._recompiles.pop(compile_id, ()))
        self._entry(compile_id).attempts.append(attempt)
        return attempt

    def _attempt(self, compile_id: str, time: float) -> Attempt:
        """The compile at hand; one whose beginning is not in the file begins here."""
        attempts = self._entry(compile_id).attempts
        return attempts[-1] if attempts else self._begin(compile_id, time)

    def _start_over(self, compile_id: str) -> None:
        """The compile at hand is no growth of an entry that is there: the function was reset, and
        counts from zero."""
        entry = self._entry(compile_id)
        if any(attempt.status == "compiled" for attempt in entry.attempts[:-1]):
            attempt = entry.attempts.pop()
            same = sum(each.id == compile_id for each in self._function(compile_id).entries)
            self._new_entry(compile_id, f"-again{same}").attempts.append(attempt)

    @staticmethod
    def _served(entry: TracedEntry, event: kinds.CallsServed) -> None:
        entry.left_out += max(event.left_out, 0)
        for each in event.calls:
            given = dict(zip(event.sources, each.values, strict=False))
            known = {source: value for source, value in given.items() if value is not None}
            entry.served.append(Served(each.first, max(each.calls, 0), known))


def _key(id: str, otherwise: int) -> str:
    """As it stands in addresses; what is no number of ours gets another."""
    return id.replace("/", "-") if re.fullmatch(r"[0-9]+(/[0-9]+)?", id) else f"x{otherwise}"
