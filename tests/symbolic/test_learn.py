"""Learning: what is known afterwards holds wherever the facts hold, and contradictions are seen."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from anyshape.errors import Contradiction
from anyshape.symbolic import Facts, Range, evaluate, holds, parse_fact, parse_size
from anyshape.symbolic.knowledge import NOTHING
from anyshape.symbolic.learn import Inconsistent, learn
from anyshape.symbolic.linear import Budget
from tests.symbolic.small_integers import SYMBOLS, assignments, by_symbol, names_in, python_value

GIVEN = [
    ("s == 5",),
    ("t == 2*s",),
    ("s == t", "t == s2", "s2 <= 4"),
    ("s % 8 == 0",),
    ("(s + 3) % 4 == 0",),
    ("(a - 1) % 3 == 0",),
    ("s % p == 0",),
    ("s == 4*(s//4)",),
    ("s == 8*((s + 7)//8)",),
    ("s//2 == 3",),
    ("s//3 >= 2", "s//3 <= 2"),
    ("3*s == 2*t",),
    ("(s + t) % 2 == 0", "s <= t"),
    ("min(s, t) == s",),
    ("max(s, t) == 3",),
    ("min(s, t) >= 2",),
    ("s*t == 0", "s != 0"),
    ("s*t == 6",),
    ("s*t >= 4",),
    ("s != 0", "s <= 1"),
    ("s == 1 or t == 1", "s >= 2"),
    ("a*a == 4",),
    ("a % 4 == 3",),
]
QUESTIONED = (
    "s",
    "t",
    "s + t",
    "s*t",
    "s//2",
    "s % 4",
    "min(s, t)",
    "max(1, s)",
    "(s + 7)//8*8",
    "a//2",
    "a % 6",
)


def assumed(texts: Iterable[str]) -> Facts:
    facts = Facts()
    for text in texts:
        facts = facts.assume(parse_fact(text, SYMBOLS), "given")
    return facts


@pytest.mark.parametrize("given", GIVEN, ids=" and ".join)
def test_normal_forms_are_equal_where_the_facts_hold(given):
    """Solved facts say nothing but what was assumed: replacements, ranges, values."""
    facts = assumed(given)
    names = sorted({"s", "t", "a"}.union(*map(names_in, given)))
    points = [v for v in assignments(names, -4, 9, 6000) if all(python_value(g, v) for g in given)]
    assert points, "the facts can hold"
    for text in QUESTIONED:
        size = parse_size(text, SYMBOLS)
        simple, within, value = facts.simplify(size), facts.range(size), facts.value(size)
        for point in points:
            wanted = evaluate(size, by_symbol(point))
            assert evaluate(simple, by_symbol(point)) == wanted, (text, simple, point)
            assert within.contains(wanted), (text, within, point)
            assert value is None or value == wanted, (text, value, point)


@pytest.mark.parametrize(
    "given",
    [
        ("s == 5", "s == 6"),
        ("s >= 3", "s <= 2"),
        ("s % 8 == 0", "s == 12"),
        ("s < t", "t < s"),
        ("s == t", "s != t"),
        ("s*t == 0", "s >= 1", "t >= 1"),
        ("s//2 == 3", "s >= 8"),
        ("min(s, t) == 4", "s == 3"),
        ("s == 1 or t == 1", "s == 2", "t == 2"),
        ("2*s == 2*t + 1",),
    ],
    ids=" and ".join,
)
def test_contradictions_are_seen(given):
    with pytest.raises(Contradiction):
        assumed(given)


def test_the_order_of_facts_does_not_matter():
    texts = ("s % 4 == 0", "t == 2*s", "s <= 9", "s != 0", "s != 8")
    for turn in range(len(texts)):
        facts = assumed(texts[turn:] + texts[:turn])
        assert facts.value(SYMBOLS["s"]) == 4
        assert facts.range(SYMBOLS["t"]) == Range(8, 8)


def test_without_budget_less_is_known_and_nothing_wrong():
    budget = Budget()
    budget.searches = 0
    facts = [parse_fact(text, SYMBOLS) for text in ("s <= t", "t <= s2", "min(s, s2) == 3")]
    known = learn(NOTHING, facts, budget)
    for point in assignments(["s", "t", "s2"], 0, 6):
        values = by_symbol(point)
        if all(holds(fact, values) for fact in facts):
            for text in ("s", "t", "s2", "min(s, t)"):
                size = parse_size(text, SYMBOLS)
                assert evaluate(known.normal(size), values) == evaluate(size, values)


def test_what_is_learned_can_be_inconsistent():
    with pytest.raises(Inconsistent):
        learn(NOTHING, [parse_fact("s == 3 and s == 4", SYMBOLS)], Budget())
