"""The compiles of each function in order, out of the events of a process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from anyshape.explain.advice.reading import (
    Event,
    Process,
    SourceLine,
    items_of,
    mapping_of,
    number_of,
    place_of,
    text_of,
)
from anyshape.explain.advice.source_lines import Listing
from anyshape.support.lazy_dataclass import dataclass, field


class GuardRecord(NamedTuple):
    kind: str
    text: str
    source: str
    reason: str
    place: SourceLine | None


class Reason(NamedTuple):
    """Why an earlier entry did not serve the call."""

    entry_id: str
    text: str
    place: SourceLine | None


class DecisionRecord(NamedTuple):
    #: "static", "dynamic", "unbacked"
    choice: str
    reason: str

    @property
    def is_static(self) -> bool:
        return self.choice == "static"


class Stop(NamedTuple):
    """Where a graph ends, or why a call runs eagerly."""

    reason: str
    place: SourceLine | None
    hints: tuple[str, ...]


@dataclass(slots=True)
class Compile:
    """One compile: what it was for, and what came of it."""

    id: str
    #: where the program made the call, the outermost first
    stack: tuple[SourceLine, ...] = ()
    reasons: tuple[Reason, ...] = ()
    #: what the call had, by source, in words
    seen: dict[str, str] = field(default_factory=dict[str, str])
    decisions: dict[str, DecisionRecord] = field(default_factory=dict[str, DecisionRecord])
    guards: tuple[GuardRecord, ...] = ()
    #: sources that were dynamic and have one value left: why, and where
    specialised: dict[str, Stop] = field(default_factory=dict[str, Stop])
    #: of the graphs that it began with
    operators: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    breaks: list[Stop] = field(default_factory=list[Stop])
    #: how often it was compiled for again, because data went another way
    growths: int = 0
    hits: int = 0
    #: what it relies on beside sizes: see `similar.py`, which keeps it here
    signature: object = None

    @property
    def values(self) -> dict[str, int]:
        """Sizes and integers of the call, by source."""
        found: dict[str, int] = {}
        for source, said in self.seen.items():
            if (sizes := _SIZES.search(said)) is not None:
                for dim, size in enumerate(filter(None, sizes[1].split(", "))):
                    found[f"{source}.size()[{dim}]"] = int(size)
            elif (number := _SCALAR.fullmatch(said)) is not None:
                found[source] = int(number[1])
        return found


def call_place(compiled: Compile) -> SourceLine | None:
    """The line of the program that made the call."""
    calls = [each for each in compiled.stack if not each.file.startswith("<")]
    return calls[-1] if calls else None


#: Whoever calls from there is not the program.
_LIBRARY: Final = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d)")


def is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


_SIZES: Final = re.compile(r"size=\[((?:\d{1,18}(?:, )?)*)\]")
_SCALAR: Final = re.compile(r"scalar (-?\d{1,300})")


@dataclass(slots=True)
class FunctionHistory:
    """A compiled function, or one life of it: `reset` begins another."""

    name: str
    file: str
    line: int
    compiles: list[Compile] = field(default_factory=list[Compile])
    #: it runs eagerly for what no entry serves: the limit, and the last reason
    limit: int = 0
    last_reason: str = ""
    #: calls, or all calls, that run eagerly
    left: list[Stop] = field(default_factory=list[Stop])

    def compile(self, compile_id: str) -> Compile | None:
        return next((each for each in self.compiles if each.id == compile_id), None)


@dataclass(slots=True)
class History:
    rank: int | None
    functions: list[FunctionHistory]
    listing: Listing


def history_of(process: Process) -> History:
    return _Reader(process).history


class _Reader:
    def __init__(self, process: Process) -> None:
        self.history = History(process.rank, [], Listing(process.folder))
        #: the current life of each function, by the number before the slash
        self._functions: dict[str, FunctionHistory] = {}
        #: the compile that is under way, by id
        self._open: dict[str, Compile] = {}
        #: why it was needed is told before it begins
        self._reasons: dict[str, tuple[Reason, ...]] = {}
        for event in process.events:
            row = getattr(self, f"_on_{event['event']}", None)
            if row is not None:
                row(event)

    def _function(self, event: Event) -> FunctionHistory:
        number = text_of(event, "compile_id").partition("/")[0]
        found = self._functions.get(number)
        if found is None:
            found = self._begin(number, event)
        return found

    def _begin(self, number: str, event: Event) -> FunctionHistory:
        made = FunctionHistory(
            text_of(event, "function"), text_of(event, "file"), number_of(event, "line")
        )
        self._functions[number] = made
        self.history.functions.append(made)
        return made

    def _current(self, event: Event) -> Compile:
        """The compile that is under way, or the entry that is told of."""
        compile_id = text_of(event, "compile_id")
        found = self._open.get(compile_id) or self._function(event).compile(compile_id)
        return found or self._open.setdefault(compile_id, Compile(compile_id))

    # -- rows: one for each kind of event --------------------------------------------------------

    def _on_source(self, event: Event) -> None:
        self.history.listing.add(
            text_of(event, "file"),
            number_of(event, "first_line"),
            [line for line in items_of(event, "lines") if isinstance(line, str)],
        )

    def _on_recompile(self, event: Event) -> None:
        self._reasons[text_of(event, "compile_id")] = tuple(_reasons(items_of(event, "reasons")))

    def _on_frame_start(self, event: Event) -> None:
        self._function(event)
        compile_id = text_of(event, "compile_id")
        stack = tuple(p for each in items_of(event, "stack") if (p := place_of(each)) is not None)
        reasons = self._reasons.pop(compile_id, ())
        self._open[compile_id] = Compile(compile_id, stack, reasons)

    def _on_sizes_seen(self, event: Event) -> None:
        number, _, count = text_of(event, "compile_id").partition("/")
        known = self._functions.get(number)
        if known is not None and count == "0" and known.compiles:
            # Nothing but a reset counts from the start again.
            begun = self._begin(number, event)
            begun.file, begun.line = known.file, known.line
        current = self._current(event)
        current.seen = {k: v for k, v in mapping_of(event, "seen").items() if isinstance(v, str)}
        for source, said in mapping_of(event, "decisions").items():
            match said:
                case [str() as choice, str() as reason]:
                    current.decisions[source] = DecisionRecord(choice, reason)
                case _:
                    pass

    def _on_specialised(self, event: Event) -> None:
        why = Stop(text_of(event, "reason"), place_of(event.get("user_frame")), ())
        for source in items_of(event, "sources"):
            self._current(event).specialised.setdefault(str(source), why)

    def _on_graph_compiled(self, event: Event) -> None:
        current = self._current(event)
        current.operators += tuple(map(str, items_of(event, "operators")))
        kinds = mapping_of(event, "inputs")
        current.inputs += tuple(name for name, kind in kinds.items() if "[" in str(kind))

    def _on_graph_break(self, event: Event) -> None:
        self._current(event).breaks.append(_stop(event))

    def _on_runs_eagerly(self, event: Event) -> None:
        self._function(event).left.append(_stop(event))
        self._open.pop(text_of(event, "compile_id"), None)

    def _on_recompile_limit(self, event: Event) -> None:
        function = self._function(event)
        function.limit = number_of(event, "limit")
        function.last_reason = text_of(event, "last_reason")

    def _on_compiled(self, event: Event) -> None:
        compile_id, function = text_of(event, "compile_id"), self._function(event)
        current = self._open.pop(compile_id, None) or Compile(compile_id)
        before = function.compile(compile_id)
        guards = tuple(_guards(items_of(event, "guard_lines")))
        if before is None:
            current.guards = guards
            function.compiles.append(current)
            return
        before.guards = guards
        before.growths += 1
        before.breaks += current.breaks

    def _on_run_count(self, event: Event) -> None:
        found = self._function(event).compile(text_of(event, "compile_id"))
        if found is not None:
            found.hits = number_of(event, "hits")


def _reasons(items: Iterable[Any]) -> Iterable[Reason]:
    for item in items:
        match item:
            case [str() as entry, str() as text, place]:
                yield Reason(entry, text, place_of(place))
            case _:
                pass


def _guards(items: Iterable[Any]) -> Iterable[GuardRecord]:
    for item in items:
        match item:
            case [str() as kind, str() as text, str() as source, str() as reason, place]:
                yield GuardRecord(kind, text, source, reason, place_of(place))
            case _:
                pass


def _stop(event: Event) -> Stop:
    hints = tuple(map(str, items_of(event, "hints")))
    return Stop(text_of(event, "reason"), place_of(event.get("user_frame")), hints)
