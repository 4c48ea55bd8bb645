"""The kinds of events. Each is a value of its own: texts, numbers, places in the user's program.

`compile_id` is "0/1": the second compile of the first function; empty where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Frame(Protocol):
    """A place in the user's program."""

    @property
    def filename(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def function(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have."""

    compile_id: str = ""


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
class GuardAdded(Event):
    """The compiled code relies on this from here on."""

    expr: str
    user_frame: Frame | None = None
    reason: str = ""


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


@dataclass(frozen=True, slots=True)
class Schedule(Event):
    """The loops that a graph became, as text."""

    text: str


@dataclass(frozen=True, slots=True)
class Compiled(Event):
    """A compile is done."""

    seconds: float
    graphs: int
    guards: int
    #: the guards of the entry in order, where somebody listens for them
    guard_lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Defect(Event):
    """A mistake of ours that did no harm: the stage noticed it and took the safe way."""

    stage: str
    text: str
