"""How each size and integer of an entry stands: static, dynamic or unbacked; since when, by whose
word, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.capture.dynamism_policy import DimDecision
from anyshape.policy.decide import Choice
from anyshape.policy.hints import what_changes
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Range


@dataclass(frozen=True, slots=True)
class DimStatus:
    """One dimension or integer in one entry."""

    source: str
    #: "static", "dynamic", "unbacked"; "fixed" for a dynamic one that the program left one value
    state: str
    #: what it may be: a value, or a range
    values: str
    #: whose word it is: "a mark", "the profile", "rank 0 and rank 3"
    by: str
    reason: str
    change: str
    #: the first entry, of those in a row, in which it stands so
    since: str = ""
    #: what was asked for and not followed
    ignored: str = ""

    @property
    def is_free(self) -> bool:
        return self.state in ("dynamic", "unbacked")

    def __str__(self) -> str:
        return f"{self.source} {'in' if self.is_free else '='} {self.values}"

    @property
    def why(self) -> str:
        return self.reason + (f" (not followed: {self.ignored})" if self.ignored else "")

    @property
    def background(self) -> str:
        return f"by {self.by}, since {self.since}; what would change it: {self.change}"


def standings(
    entry_id: str, rulings: Mapping[str, DimDecision], ranges: Mapping[str, Range]
) -> list[DimStatus]:
    """Of one entry; `ranges` is what the guards left to each symbol, by source."""
    return [
        _status(source, ruling, ranges.get(source), entry_id) for source, ruling in rulings.items()
    ]


def _status(source: str, ruling: DimDecision, left: Range | None, entry_id: str) -> DimStatus:
    value, decision = ruling
    made = DimStatus(
        source,
        decision.choice.value,
        str(value),
        decision.who or decision.by.value,
        decision.reason,
        what_changes(decision, _kind(source, value)),
        entry_id,
        decision.ignored,
    )
    if decision.choice is Choice.STATIC:
        return made
    if decision.choice is Choice.UNBACKED:
        return replace(made, values=str(decision.range))
    if left is not None and left.lower is not None and left.lower == left.upper:
        return replace(made, state="fixed", change=_FIXED, by="the program")
    return replace(made, values=str(decision.range if left is None else left))


def _kind(source: str, value: float) -> str:
    if type(value) is float:
        return "float"
    return "size" if ".size()[" in source else "int"


_FIXED: Final = "the lines that ask for this value, below"


def since_when(entries: Sequence[Sequence[DimStatus]]) -> list[list[DimStatus]]:
    """The standings of all entries in order, each with the first entry in which it was so."""
    before: dict[str, DimStatus] = {}
    made: list[list[DimStatus]] = []
    for entry in entries:
        row: list[DimStatus] = []
        for each in entry:
            last = before.get(each.source)
            if last is not None and _goes_on(last, each):
                # What made it so says more than that it was so before.
                each = replace(each, since=last.since, reason=last.reason)
            before[each.source] = each
            row.append(each)
        made.append(row)
    return made


def _goes_on(last: DimStatus, now: DimStatus) -> bool:
    same_word = last.state == now.state and last.by == now.by
    return same_word and (now.is_free or last.values == now.values)
