"""z3 as a second opinion on random questions: never YES or NO where z3 has a counterexample.

`ANYSHAPE_Z3_QUESTIONS=200000` asks more than the suite does.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
import z3

from anyshape.symbolic import Answer, not_, parse_fact
from tests.symbolic.questions import SYMBOLS, Question, QuestionMaker
from tests.symbolic.z3_oracle import counterexample

_QUESTIONS = int(os.environ.get("ANYSHAPE_Z3_QUESTIONS", "20000"))
_PARTS = 20


def ask(question: Question) -> tuple[Answer, str]:
    """Our answer, and what z3 says of it: right, wrong, undecided by z3, or nothing to check."""
    answer = question.facts().prove(question.fact)
    if answer is Answer.UNKNOWN:
        return answer, "nothing to check"
    claim = question.fact if answer is Answer.YES else not_(question.fact)
    given = [parse_fact(text, SYMBOLS) for text in question.given]
    found = counterexample(given, claim, 300)
    if found is None:
        return answer, "right"
    return answer, "undecided by z3" if found is z3.unknown else "wrong"


@pytest.mark.parametrize("part", range(_PARTS))
def test_z3_has_no_counterexample(part):
    maker = QuestionMaker(1000 + part)
    counts: Counter[tuple[Answer, str]] = Counter()
    for _ in range(_QUESTIONS // _PARTS):
        question = maker.question()
        answer, opinion = ask(question)
        assert opinion != "wrong", (question, answer)
        counts[answer, opinion] += 1
    print({f"{answer.value}, {opinion}": count for (answer, opinion), count in counts.items()})
    decided = sum(count for (answer, _), count in counts.items() if answer is not Answer.UNKNOWN)
    assert decided >= _QUESTIONS // _PARTS // 20, "too few questions are decided to learn anything"
