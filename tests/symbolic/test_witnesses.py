"""Witnesses: points at which the facts hold, and nothing else."""

from __future__ import annotations

import pytest

from anyshape.symbolic import parse_fact
from anyshape.symbolic.knowledge import NOTHING
from anyshape.symbolic.learn import learn
from anyshape.symbolic.linear import Budget
from anyshape.symbolic.witnesses import Witnesses
from tests.symbolic.small_integers import SYMBOLS


@pytest.mark.parametrize(
    ("given", "question", "tendency"),
    [
        ((), "s == 5", (True, True)),
        ((), "s % 2 == 0", (True, True)),
        ((), "a < b", (True, True)),
        (("s >= 3",), "s >= 2", (True, False)),
        (("s <= t",), "t < s", (False, True)),
        (("s % 8 == 0",), "s % 4 == 0", (True, False)),
        (("s <= t", "t <= s2"), "s <= s2", (True, False)),
        (("s*t >= 5",), "s == 0", (False, True)),
    ],
)
def test_tendency(given, question, tendency):
    known = learn(NOTHING, [parse_fact(text, SYMBOLS) for text in given], Budget())
    fact = known.normal_fact(parse_fact(question, SYMBOLS))
    if not fact.symbols:  # already decided by its normal form
        return
    found = Witnesses(known).tendency(fact)
    assert all(wanted or not seen for seen, wanted in zip(found, tendency, strict=True))
    assert any(found), "at least one point is found"
