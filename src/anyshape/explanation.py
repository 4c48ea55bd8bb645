"""What `explain` says: what is dynamic and why, what is fixed and by which line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from linecache import getline

from anyshape.guards.guard import Frame, Guard, Kind


@dataclass(frozen=True, slots=True)
class DynamicSource:
    """A size or integer that an entry does not fix to the value it had."""

    symbol: str
    source: str
    range: str
    reason: str


@dataclass(frozen=True, slots=True)
class EntryExplanation:
    """One compiled program."""

    id: str
    dynamic: Sequence[DynamicSource]
    #: conditions on sizes and integers, each with the line that asked for it
    conditions: Sequence[Guard]
    hits: int
    graphs: int = 1
    #: where a graph ends and another begins: the reason and the line
    breaks: Sequence[tuple[str, Frame | None]] = ()

    def lines(self) -> list[str]:
        graphs = "" if self.graphs == 1 else f", {self.graphs} graphs"
        lines = [f"entry {self.id}: served {self.hits} calls after the first{graphs}"]
        lines += [
            f"  dynamic: {each.source} in {each.range}"
            + (f": {each.reason}" if each.reason else "")
            for each in self.dynamic
        ]
        if not self.dynamic:
            lines.append("  dynamic: nothing, every size is fixed")
        for guard in self.conditions:
            lines.append(f"  only if {guard.text}: {guard.reason}")
            if guard.user_frame is not None:
                lines += _place(guard.user_frame)
        for reason, frame in self.breaks:
            lines.append(f"  a graph ends: {reason}")
            if frame is not None:
                lines += _place(frame)
        return lines


def _place(frame: Frame) -> list[str]:
    code = getline(frame.filename, frame.line).strip()
    return [f"      at {frame}", *([f"         {code}"] if code else [])]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Prints well."""

    function: str
    entries: Sequence[EntryExplanation]
    #: why it runs eagerly, if it does
    eager: str = ""
    eager_frame: Frame | None = None
    #: why calls were compiled again, oldest first
    recompiles: Sequence[str] = ()
    #: of a function that runs as plain Python: what it calls, compiled
    parts: Sequence[Explanation] = ()

    def __str__(self) -> str:
        lines = [f"{self.function}: {len(self.entries)} compiled"]
        if self.eager:
            how = "as plain Python, in parts" if self.parts else "eagerly"
            lines.append(f"  runs {how}: {self.eager}")
            if self.eager_frame is not None:
                lines += _place(self.eager_frame)
        for entry in self.entries:
            lines += entry.lines()
        lines += [f"compiled again because {reason}" for reason in self.recompiles]
        for part in self.parts:
            lines += [f"  | {line}" for line in str(part).splitlines()]
        return "\n".join(lines)


def conditions_of(guards: Sequence[Guard]) -> list[Guard]:
    """The guards that a size or integer may fail."""
    return [
        guard
        for guard in guards
        if guard.kind is Kind.SIZES or (guard.kind is Kind.EQUALS and type(guard.value) is int)
    ]
