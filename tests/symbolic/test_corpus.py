"""The corpus of real questions: never a wrong answer, and few that can be decided are left
undecided."""

from __future__ import annotations

from anyshape.symbolic import Answer, parse_fact
from tests.symbolic.corpus import questions

_RIGHT = {
    "yes": {Answer.YES, Answer.UNKNOWN},
    "no": {Answer.NO, Answer.UNKNOWN},
    "contingent": {Answer.UNKNOWN},
    "undecided": set(Answer),
}


def test_no_answer_is_wrong_and_few_are_missing():
    decidable = missing = 0
    for question in questions():
        answer = question.facts().prove(parse_fact(question.ask, question.table()))
        assert answer in _RIGHT[question.truth], question
        if question.truth in ("yes", "no"):
            decidable += 1
            missing += answer is Answer.UNKNOWN
    assert decidable >= 300
    assert missing / decidable <= 0.03, f"{missing} of {decidable} decidable questions undecided"
