"""A trace as values: processes have functions, functions have entries, entries have attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anyshape.explain.report.reading.fields import SourceLine
from anyshape.support.lazy_dataclass import dataclass, field


class TracedGuard(NamedTuple):
    """A guard of an entry, as it is checked."""

    kind: str
    text: str
    source: str
    reason: str
    place: SourceLine | None


class Assumed(NamedTuple):
    """What a line of the program made a compile rely on."""

    #: in symbols: "Eq(s0, 5)", and in terms of inputs
    expr: str
    text: str
    reason: str
    place: SourceLine | None
    at_run_time: bool


class Failed(NamedTuple):
    """Why an entry did not serve a call."""

    entry_id: str
    text: str
    place: SourceLine | None


class Fixed(NamedTuple):
    """A symbol got one value."""

    value: int
    reason: str
    place: SourceLine | None


@dataclass(slots=True)
class TracedSymbol:
    name: str
    value: int | None
    source: str
    range: str
    reason: str
    place: SourceLine | None
    #: as it became less
    ranges: list[str] = field(default_factory=list[str])
    replaced_by: str = ""
    fixed: Fixed | None = None


class Stage(NamedTuple):
    name: str
    started: float
    seconds: float


class Break(NamedTuple):
    """A graph ends, or a call is not compiled."""

    reason: str
    place: SourceLine | None
    hints: Sequence[str]


@dataclass(slots=True)
class Graph:
    code: str
    operators: Sequence[str]
    inputs: Mapping[str, str]
    backend: Sequence[str]
    number: int
    after: int | None
    outcome: str
    asks: str
    place: SourceLine | None


@dataclass(slots=True)
class Attempt:
    """One compile: the first of an entry, or one by which it grew, or one that failed."""

    time: float
    stack: Sequence[SourceLine] = ()
    recompile: Sequence[Failed] = ()
    #: "compiled", "eager", "failed", or "unfinished" where the trace ends
    status: str = "unfinished"
    seconds: float = 0.0
    stages: Sequence[Stage] = ()
    operations: int = 0
    error: str = ""
    stopped: Break | None = None
    symbols: list[TracedSymbol] = field(default_factory=list[TracedSymbol])
    assumed: list[Assumed] = field(default_factory=list[Assumed])
    breaks: list[Break] = field(default_factory=list[Break])
    schedules: list[str] = field(default_factory=list[str])
    code: list[str] = field(default_factory=list[str])
    graphs: list[Graph] = field(default_factory=list[Graph])
    #: sizes of tensors and integers, by source: "tensor size=[10, 4] stride=[4, 1]"
    seen: Mapping[str, str] = field(default_factory=dict[str, str])
    #: "static" and why, by source
    decisions: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    #: marks that a setting stands above
    ignored: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    #: what was read from ("get") and written to ("put") disk, and whether it is shared
    profile: list[tuple[str, bool, str]] = field(default_factory=list[tuple[str, bool, str]])
    collective: Collective | None = None
    defects: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Served:
    """Calls in a row with the same sizes."""

    first: float
    last: float
    count: int
    #: by source: sizes of a tensor, or an integer
    values: Mapping[str, Sequence[int] | int]


class Collective(NamedTuple):
    """What ranks told each other before a compile."""

    round: int
    ranks: Sequence[int]
    missing: Sequence[int]
    seconds: float
    differing: Mapping[str, str]


@dataclass(slots=True)
class TracedEntry:
    """What a number like 0/1 stands for."""

    id: str
    key: str
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    guards: Sequence[TracedGuard] = ()
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
    def hits(self) -> int:
        listed = sum(each.count for each in self.served) + self.left_out
        return max(listed, self.run_count or 0)

    @property
    def graphs(self) -> list[Graph]:
        return [graph for attempt in self.attempts for graph in attempt.graphs]

    @property
    def seconds(self) -> float:
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def decided(self) -> Attempt:
        """The attempt with the sizes that the entry was made for."""
        made = [a for a in self.attempts if a.seen and a.status == "compiled"]
        return made[0] if made else next((a for a in self.attempts if a.seen), self.attempts[0])


@dataclass(slots=True)
class TracedFunction:
    number: str
    key: str
    name: str
    file: str
    line: int
    entries: list[TracedEntry] = field(default_factory=list[TracedEntry])
    #: the limit that was reached, and the last reason
    limit: tuple[int, str] | None = None


@dataclass(slots=True)
class Process:
    """One process, which has one rank."""

    key: str
    file: str
    rank: int | None
    pid: int
    host: str
    command: str
    folder: str
    started: float
    versions: Mapping[str, str]
    functions: list[TracedFunction] = field(default_factory=list[TracedFunction])
    #: lines of the program by file and number
    sources: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    defects: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
