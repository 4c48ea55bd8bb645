"""The kinds of events. Each is a value of its own: texts, numbers, places in the user's program.

`compile_id` is "0/1": the second compile of the first function; empty where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from anyshape.support.lazy_dataclass import dataclass, field


class Frame(Protocol):
    """A place in the user's program."""

    @property
    def filename(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def function(self) -> str: ...


class Place(NamedTuple):
    """A frame that is not taken from a running program."""

    filename: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have."""

    compile_id: str = ""


class Stage(NamedTuple):
    """A part of a compile: when it began (seconds since 1970), and how long it took."""

    name: str
    started: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Measures:
    """What a compile was about, and what came of it in numbers."""

    function: str = ""
    file: str = ""
    line: int = 0
    stages: Sequence[Stage] = ()
    #: entries of the function, this one included
    entries: int = 0
    operations: int = 0
    nodes: int = 0
    inputs: int = 0


@dataclass(frozen=True, slots=True)
class FrameStart(Event):
    """A function is about to be compiled; `stack` is where it was called, the outermost first."""

    function: str
    file: str
    line: int
    stack: Sequence[Frame] = ()


@dataclass(frozen=True, slots=True)
class CreateSymbol(Event):
    """An input size or integer is dynamic. A symbol without a value is unbacked."""

    symbol: str
    value: int | None
    #: "L['x'].size()[0]"
    source: str
    #: "[0, int_oo]"
    range: str
    user_frame: Frame | None = None
    #: why it is dynamic
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SymbolShared(Event):
    """A size is taken to be the same as an equal one that has a symbol (`config.duck_shape`)."""

    symbol: str
    #: "L['y'].size()[0]"
    source: str
    user_frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class GuardAdded(Event):
    """The compiled code relies on this from here on."""

    #: in symbols: "Eq(s0, 5)"
    expr: str
    user_frame: Frame | None = None
    reason: str = ""
    #: in terms of the inputs: "L['x'].size()[0] == 5"
    text: str = ""
    #: whether it depends on data, so that it is checked where the data is known
    at_run_time: bool = False


@dataclass(frozen=True, slots=True)
class RangeUpdated(Event):
    """A symbol can be less than before."""

    symbol: str
    #: "[33, 33]"
    range: str


@dataclass(frozen=True, slots=True)
class Replaced(Event):
    """A symbol equals an expression of others."""

    symbol: str
    by: str
    range: str


@dataclass(frozen=True, slots=True)
class Specialised(Event):
    """A symbol can only have one value any more."""

    symbol: str
    sources: Sequence[str]
    value: int
    reason: str = ""
    user_frame: Frame | None = None


class GuardFailure(NamedTuple):
    """Why an entry could not be used: its id, and what failed."""

    entry_id: str
    text: str
    user_frame: Frame | None = None
    #: what it is about: the kind of the guard, what of a tensor ("size", "dtype"), of a symbol
    #: ("range", "one_symbol"); empty in traces of earlier versions
    kind: str = ""
    #: "L['x'].size()[0]"; empty where it is about several, or about none
    source: str = ""
    expected: str = ""
    actual: str = ""


@dataclass(frozen=True, slots=True)
class Recompile(Event):
    """No entry of the function fits this call."""

    function: str
    file: str
    line: int
    reasons: Sequence[GuardFailure]


@dataclass(frozen=True, slots=True)
class RecompileLimit(Event):
    """The function has too many entries: it runs eagerly from now on."""

    function: str
    file: str
    line: int
    limit: int
    last_reason: str


@dataclass(frozen=True, slots=True)
class GraphCompiled(Event):
    """One graph, as code, with the size of each tensor in it."""

    code: str
    sizes: Mapping[str, Sequence[int | str]] = field(default_factory=dict[str, Sequence[int | str]])
    name: str = ""
    #: the operators in order, without their sizes: what tells whether two graphs are similar
    operators: Sequence[str] = ()
    #: its inputs by name, with what they are ("f32[s0, 4]")
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    #: what the backend says of it: which operators are native, which are called out
    backend: Sequence[str] = ()
    #: its number among the graphs of the entry
    number: int = 0
    #: the graph that runs before it, and the outcome that leads here, where the way depends on data
    after: int | None = None
    outcome: str = ""
    #: what is asked where it ends, if the way on depends on data
    asks: str = ""
    user_frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class GraphBreak(Event):
    """A graph ends here, and another begins behind it."""

    reason: str
    user_frame: Frame | None = None
    hints: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunsEagerly(Event):
    """The call, or the function from now on, is not compiled."""

    reason: str
    user_frame: Frame | None = None
    hints: Sequence[str] = ()
    function: str = ""
    measures: Measures = field(default_factory=Measures)


@dataclass(frozen=True, slots=True)
class MarkedDynamic(Event):
    """A policy made a source dynamic: sizes seen, a profile, a mark."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class MarkIgnored(Event):
    """A mark that a setting stands above, or a name of a source that nothing has."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompilerCollective(Event):
    """Ranks told each other what they have seen of a function's inputs, before a compile of it."""

    function: str
    #: how many compiles of it the ranks have been through
    round: int
    #: who came in time
    ranks: Sequence[int]
    #: who was waited for in vain
    missing: Sequence[int]
    #: how long this rank has waited
    seconds: float
    #: sources that ranks have seen differently, and who has seen what
    differing: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class OutputCode(Event):
    """The code that was generated for a graph."""

    code: str
    filename: str = ""
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class Schedule(Event):
    """The loops that a graph became, as text."""

    text: str


@dataclass(frozen=True, slots=True)
class KernelMeasured(Event):
    """How long a kernel takes at sizes that are hot, and what it moves."""

    text: str
    #: bytes, as expressions of sizes
    reads: str = ""
    writes: str = ""
    #: in one call of its segment
    launches: int = 1
    #: a launch with the usual plan, and with the one that it has now, in microseconds
    before: float = 0.0
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class GraphRecorded(Event):
    """A shape became a CUDA graph, or why it did not."""

    #: shapes of the inputs that have changing ones, in order: `8x256, 8`
    shapes: str
    #: which part of a pair: "forward", "backward"; all of it if empty
    part: str = ""
    seconds: float = 0.0
    #: that its memory grew by, and that are copied into and out of it at each replay
    taken: int = 0
    copied: int = 0
    why_not: str = ""

    @property
    def text(self) -> str:
        name = " ".join(filter(None, (self.part, f"({self.shapes})")))
        if self.why_not:
            return f"no CUDA graph of {name}: {self.why_not}"
        moved = f"{self.copied / 1e6:.2f} MB copied at each replay"
        return f"CUDA graph of {name}: {self.seconds:.3f} s, {self.taken / 1e6:.1f} MB, {moved}"


@dataclass(frozen=True, slots=True)
class TrainingGraphs(Event):
    """What a graph with gradients became: the texts of a graph without writes, of one that gives
    what the gradients need as well, and of the gradients."""

    program: str
    forward: str
    backward: str

    @property
    def joint(self) -> str:
        return f"{self.program}\n# gradients\n{self.backward}"


class Decided(NamedTuple):
    """What a size or an integer was in a compile, and why."""

    #: "static", "dynamic", "unbacked"
    choice: str
    reason: str


@dataclass(frozen=True, slots=True)
class SizesSeen(Event):
    """What a call that was compiled for had: sizes of tensors, values of integers, by source."""

    function: str
    seen: Mapping[str, str]
    decisions: Mapping[str, Decided] = field(default_factory=dict[str, Decided])


@dataclass(frozen=True, slots=True)
class ProfileState(Event):
    """What is known of the sizes of a function was read from, or is written to, the disk."""

    #: "get" or "put"
    action: str
    #: whether it is shared with other machines
    remote: bool
    text: str


class GuardSaid(NamedTuple):
    """A guard of an entry, in words."""

    kind: str
    text: str
    #: what it looks at: "L['x']"
    source: str = ""
    reason: str = ""
    user_frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Compiled(Event):
    """A compile is done."""

    seconds: float
    graphs: int
    guards: int
    #: the guards of the entry in order, where somebody listens for them
    guard_lines: Sequence[GuardSaid] = ()
    #: the same by what they look at, one line a guard
    guard_tree: str = ""
    measures: Measures = field(default_factory=Measures)


@dataclass(frozen=True, slots=True)
class CompileFailed(Event):
    """A compile has ended with an error: of the program, or of what it asked for."""

    error: str
    text: str
    user_frame: Frame | None = None
    measures: Measures = field(default_factory=Measures)


@dataclass(frozen=True, slots=True)
class ProgramExported(Event):
    """An artifact was made."""

    function: str
    #: the program as text, with what its inputs must be
    code: str
    #: what must hold of the sizes, one sentence each
    constraints: Sequence[str] = ()
    #: what was asked for and is not so
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunCount(Event):
    """How often an entry has served a call, told when the program ends."""

    function: str
    hits: int


@dataclass(frozen=True, slots=True)
class CallCounts(Event):
    """How often a function was called so far, told now and then while the program runs: calls that
    its entries served, and calls that ran as plain Python."""

    function: str
    file: str
    line: int
    hits: int
    eager_calls: int


@dataclass(frozen=True, slots=True)
class ProgramEnded(Event):
    """The process ends: nothing is told after this."""


class CallRun(NamedTuple):
    """Calls in a row with the same sizes: when the first and the last were, how many, and their
    values in the order of the sources."""

    first: float
    last: float
    calls: int
    values: Sequence[Sequence[int] | int | None]


@dataclass(frozen=True, slots=True)
class CallsServed(Event):
    """Calls that an entry has served, with the sizes that its guards leave open."""

    function: str
    #: what is told of each call: "L['x']" for the sizes of a tensor, "L['n']" for an integer
    sources: Sequence[str]
    calls: Sequence[CallRun]
    #: how many more there were that are not listed
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class VerificationFailed(Event):
    """A compiled call differs from eager (`config.verify_calls`, `config.on_verify = "event"`)."""

    function: str
    #: one sentence for each thing that differs
    differences: Sequence[str]
    #: a program that shows it, if it could be written
    file: str = ""


@dataclass(frozen=True, slots=True)
class NotVerified(Event):
    """Calls of an entry cannot be compared with eager: something would be done twice, or cannot be
    copied."""

    function: str
    reason: str


@dataclass(frozen=True, slots=True)
class Defect(Event):
    """A mistake of ours that did no harm: the stage noticed it and took the safe way."""

    stage: str
    text: str
