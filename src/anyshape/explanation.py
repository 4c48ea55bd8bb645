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

    def lines(self) -> list[str]:
        lines = [f"entry {self.id}: served {self.hits} calls after the first"]
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

    def __str__(self) -> str:
        lines = [f"{self.function}: {len(self.entries)} compiled"]
        if self.eager:
            lines.append(f"  runs eagerly: {self.eager}")
            if self.eager_frame is not None:
                lines += _place(self.eager_frame)
        for entry in self.entries:
            lines += entry.lines()
        lines += [f"compiled again because {reason}" for reason in self.recompiles]
        return "\n".join(lines)


def conditions_of(guards: Sequence[Guard]) -> list[Guard]:
    """The guards that a size or integer may fail."""
    return [
        guard
        for guard in guards
        if guard.kind is Kind.SIZES or (guard.kind is Kind.EQUALS and type(guard.value) is int)
    ]
