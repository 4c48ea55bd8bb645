"""Which sizes go where: the entries of a function as the leaves of a tree of questions.

    x.size()[0] == 10 ──yes──► 0/0
                      ──no───► x.size()[0] < 31 ──yes──► 0/1
                                                ──no───► 0/2

Entries that are static differ in a number: then the question has an answer for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from anyshape.events.kinds import Frame
from anyshape.explain.report.analysis.conditions import Condition, conditions_of
from anyshape.explain.trace_model import TracedEntry, TracedFunction
from anyshape.support.lazy_dataclass import dataclass, field

#: Nobody reads on where the questions go deeper.
_DEEPEST: Final = 60


@dataclass(slots=True)
class Question:
    text: str
    place: Frame | None
    branches: list[Branch] = field(default_factory=list["Branch"])


@dataclass(slots=True)
class Leaf:
    entry: TracedEntry
    #: what else a call must have that nobody else is asked
    conditions: list[Condition]


class Branch(NamedTuple):
    #: "yes", "no", "= 10", "otherwise"
    answer: str
    to: Question | Leaf


class _Open(NamedTuple):
    """An entry, and what has not been asked yet."""

    entry: TracedEntry
    conditions: list[Condition]

    def without(self, asked: set[str]) -> _Open:
        return _Open(self.entry, [each for each in self.conditions if each.question not in asked])


def tree_of(function: TracedFunction) -> Question | Leaf | None:
    """None where nothing was compiled."""
    conditions = conditions_of(function)
    entries = [e for e in function.entries if e.key in conditions]
    return _split([_Open(entry, conditions[entry.key]) for entry in entries], 0)


def _split(entries: Sequence[_Open], depth: int) -> Question | Leaf | None:
    if not entries:
        return None
    first, *rest = entries
    if not rest:
        return Leaf(first.entry, first.conditions)
    if depth < _DEEPEST:
        for asked in first.conditions:
            made = None
            if asked.subject and asked.answer:
                made = _by_number(asked, entries, depth)
            made = made or _yes_or_no(asked, entries, depth)
            if made is not None:
                return made
    # Nothing tells them apart that is known here: in the order in which they are tried.
    leaves = [Leaf(each.entry, each.conditions) for each in entries]
    return Question("", None, [Branch("", leaf) for leaf in leaves])


def _by_number(asked: Condition, entries: Sequence[_Open], depth: int) -> Question | None:
    """Several entries want the same thing to be different numbers."""
    groups: dict[str, list[_Open]] = {}
    others: list[_Open] = []
    place = asked.place
    for each in entries:
        mine = [c for c in each.conditions if c.subject == asked.subject and c.answer]
        if mine:
            # Static sizes are asked for by no line; a branch on the same size may be.
            place = place or mine[0].place
            groups.setdefault(mine[0].value, []).append(each.without({mine[0].question}))
        else:
            others.append(each)
    is_also_denied = any(
        c.question == asked.question and not c.answer for each in others for c in each.conditions
    )
    if len(groups) < 2 and (is_also_denied or not others):
        return None
    made = Question(asked.subject, place)
    for value, group in groups.items():
        _add(made, f"= {value}", group, depth)
    asked_here = {f"{asked.subject} == {value}" for value in groups}
    _add(made, "anything else", [each.without(asked_here) for each in others], depth)
    return made


def _yes_or_no(asked: Condition, entries: Sequence[_Open], depth: int) -> Question | None:
    by_answer: dict[bool | None, list[_Open]] = {True: [], False: [], None: []}
    for each in entries:
        answer = next((c.answer for c in each.conditions if c.question == asked.question), None)
        by_answer[answer].append(each.without({asked.question}))
    if sum(bool(group) for group in by_answer.values()) < 2:
        return None
    made = Question(asked.question, asked.place)
    _add(made, "yes", by_answer[True], depth)
    _add(made, "no", by_answer[False], depth)
    _add(made, "otherwise", by_answer[None], depth)
    return made


def _add(question: Question, answer: str, entries: Sequence[_Open], depth: int) -> None:
    to = _split(entries, depth + 1)
    if to is not None:
        question.branches.append(Branch(answer, to))
