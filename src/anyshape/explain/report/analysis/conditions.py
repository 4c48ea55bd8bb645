"""What a call must have for an entry: conditions, so that two entries can be told apart by them.

`L['x'].size()[0] != 10` is the question `L['x'].size()[0] == 10` answered with no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from anyshape.events.kinds import Frame, GuardAdded, GuardSaid
from anyshape.explain.guard_texts import tensor_fields
from anyshape.explain.report.analysis.sizes import State, changing_sources, states_of
from anyshape.explain.report.analysis.wording import state_fields
from anyshape.explain.trace_model import TracedEntry, TracedFunction

#: Each relation as a question, and whether it is the answer yes.
_QUESTIONS: Final = {
    "==": ("==", True),
    "!=": ("==", False),
    "<": ("<", True),
    ">=": ("<", False),
    "<=": ("<=", True),
    ">": ("<=", False),
}
_RELATION: Final = re.compile(r"(?s)(.+?) (==|!=|<=|>=|<|>) (.+)")


class Condition(NamedTuple):
    question: str
    answer: bool
    #: of "x == 10": what is compared, and with which number; empty for all else
    subject: str
    value: str
    place: Frame | None
    reason: str

    @property
    def key(self) -> tuple[str, bool]:
        return self.question, self.answer


def condition(text: str, place: Frame | None, reason: str) -> Condition:
    found = _RELATION.fullmatch(text)
    if found is None:
        return Condition(text, True, "", "", place, reason)
    left, relation, right = found.groups()
    asked, answer = _QUESTIONS[relation]
    is_equality = asked == "=="
    return Condition(
        f"{left} {asked} {right}",
        answer,
        left if is_equality else "",
        right if is_equality else "",
        place,
        reason,
    )


def conditions_of(function: TracedFunction) -> dict[str, list[Condition]]:
    """By entry, in the order in which the program asked; what all entries share is left out."""
    entries = [entry for entry in function.entries if entry.status == "compiled"]
    sources = changing_sources(function)
    apart = _other_guards(entries)
    found: dict[str, list[Condition]] = {}
    for entry in entries:
        listed = [
            *_static(entry, sources),
            *(
                condition(each.text or each.expr, each.user_frame, each.reason)
                for attempt in entry.attempts
                for each in attempt.all(GuardAdded)
                if not each.at_run_time
            ),
            *apart[entry.key],
        ]
        found[entry.key] = list({each.key: each for each in reversed(listed)}.values())[::-1]
    return found


def _static(entry: TracedEntry, sources: Sequence[str]) -> list[Condition]:
    states: Mapping[str, State] = states_of(entry)
    return [
        condition(f"{source} == {state.value}", None, state.reason)
        for source in sources
        if (state := states.get(source)) and state.state == "static" and state.value is not None
    ]


def _other_guards(entries: Sequence[TracedEntry]) -> dict[str, list[Condition]]:
    """Guards on other things than sizes that entries have of the same object, and differently."""
    texts: dict[tuple[str, str], set[str]] = {}
    of_entry: dict[str, dict[tuple[str, str], GuardSaid]] = {}
    for entry in entries:
        mine = of_entry[entry.key] = {}
        for guard in entry.guards:
            if guard.kind == "SHAPE_GUARD":
                continue
            key = guard.kind, guard.source
            if key not in mine:
                mine[key] = guard
                texts.setdefault(key, set()).add(guard.text)
    return {
        entry.key: [
            condition(text, guard.user_frame, guard.reason)
            for key, guard in of_entry[entry.key].items()
            if len(texts[key]) > 1
            for text in _differing(guard, texts[key])
        ]
        for entry in entries
    }


def _differing(guard: GuardSaid, texts: set[str]) -> list[str]:
    """What of the guard is not the same in all of them."""
    if guard.kind == "TENSOR_MATCH":
        take = partial(tensor_fields, order="layout class")
    elif guard.kind == "GLOBAL_STATE":
        take = state_fields
    else:
        return [guard.text]
    mine = take(guard.text)
    others = [take(text) for text in texts]
    name = f"{guard.source} " if guard.source else ""
    return [
        f"{name}{field} == {value}"
        for field, value in mine.items()
        if field != "size" and any(other.get(field) != value for other in others)
    ]
