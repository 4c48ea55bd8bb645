"""The elimination of terms: inequalities that follow from inequalities."""

from __future__ import annotations

import pytest

from anyshape.symbolic import Expr, parse_fact
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.linear import Budget, Inequalities
from anyshape.symbolic.logic import Nonnegative
from tests.symbolic.small_integers import SYMBOLS


def _size(text: str) -> Expr:
    fact = parse_fact(text, SYMBOLS)
    assert isinstance(fact, Nonnegative)
    return fact.size


@pytest.mark.parametrize(
    ("known", "question"),
    [
        (("a <= b",), "a <= b + 1"),
        (("a <= b", "b <= c"), "a <= c"),
        (("a <= b", "b <= c", "c <= k"), "a <= k"),
        (("s1 <= s2",), "s0*s1 <= s0*s2"),
        (("2*a <= 2*b + 1",), "a <= b"),
        ((), "8*((s + 7)//8) >= s"),
        ((), "8*(a//8) <= a"),
        ((), "a % p <= p - 1"),
        ((), "min(a, b) <= a"),
        ((), "max(a, b) >= b"),
        (("s + t <= 100",), "s <= 100"),
        (("a >= s",), "a//3 >= 0"),
    ],
)
def test_follows(known, question):
    given = Inequalities([_size(text) for text in known], DECLARED)
    assert given.nonnegative(_size(question))


@pytest.mark.parametrize(
    ("known", "question"),
    [
        (("a <= b",), "b <= a"),
        ((), "8*(a//8) >= a"),
        (("s1 <= s2",), "a*s1 <= a*s2"),
        ((), "a >= b"),
    ],
)
def test_does_not_follow(known, question):
    given = Inequalities([_size(text) for text in known], DECLARED)
    assert not given.nonnegative(_size(question))


def test_a_spent_budget_ends_in_not_shown():
    budget = Budget()
    budget.searches = 0
    given = Inequalities([_size("a <= b"), _size("b <= c")], DECLARED, budget)
    assert not given.nonnegative(_size("a <= c"))
    assert given.nonnegative(_size("a <= b"))
