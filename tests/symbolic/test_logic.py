"""Facts: canonical comparisons, negation without a node for it, conjunctions and disjunctions."""

from __future__ import annotations

from itertools import product

import pytest

from anyshape.errors import SymbolicTypeError
from anyshape.symbolic import (
    FALSE,
    TRUE,
    and_,
    eq,
    ge,
    gt,
    holds,
    le,
    lt,
    ne,
    not_,
    or_,
    parse_fact,
)
from tests.symbolic.small_integers import SYMBOLS, assignments, by_symbol, names_in, python_value

a, b, s, t, p = (SYMBOLS[name] for name in "abstp")

CANONICAL = {
    "s < 10": "s <= 9",
    "2*s >= 3": "s >= 2",
    "2*a > 3": "a >= 2",
    "-3*a >= 7": "a <= -3",
    "6*a == 4*b": "3*a == 2*b",
    "a == b": "b == a",
    "2*s == 3": "False",
    "2*s != 3": "True",
    "s >= 0": "True",
    "s < 0": "False",
    "p == 0": "False",
    "s + t >= s": "True",
    "s*t >= -1": "True",
    "not (s == 5)": "s != 5",
    "not (s < 5)": "s >= 5",
    "not (s == 5 and t == 2)": "s != 5 or t != 2",
    "not (s == 5 or t < 2)": "s != 5 and t >= 2",
    "a < b or b <= a": "True",
    "a == b and a != b": "False",
    "a < b and a < b": "a < b",
    "a < 2 and True": "a < 2",
    "a < 2 or True": "True",
    "0 <= a < 4": "a >= 0 and a <= 3",
    "Eq(s, 5)": "s == 5",
}


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_form(text):
    assert parse_fact(text, SYMBOLS) is parse_fact(CANONICAL[text], SYMBOLS)


@pytest.mark.parametrize("text", [text for text in CANONICAL if not text.startswith("Eq")])
def test_canonical_form_is_what_python_says(text):
    fact = parse_fact(text, SYMBOLS)
    for values in assignments(names_in(text)):
        assert holds(fact, by_symbol(values)) == python_value(text, values), values


_PARTS = [
    lt(a, 2),
    ge(b, 1),
    eq(a, b),
    ne(a, 3),
    or_(lt(a, 0), eq(b, 2)),
    and_(gt(a, -2), le(b, 4)),
]


def test_negation_is_true_exactly_where_the_fact_is_not():
    """pytorch#113875's class of bug: a negated conjunction that never fails."""
    for x, y in product(_PARTS, _PARTS):
        for fact in (x, and_(x, y), or_(x, y), and_(x, not_(y)), or_(not_(x), y)):
            assert not_(not_(fact)) is fact or isinstance(fact, type(TRUE))
            for values in assignments(["a", "b"], -3, 5):
                point = by_symbol(values)
                assert holds(not_(fact), point) is not holds(fact, point)


def test_parts_keep_their_order():
    """`n != 0 and m // n > 2` must not be turned around: the first part protects the second."""
    fact = parse_fact("s != 0 and t // s > 2", SYMBOLS)
    assert holds(fact, by_symbol({"s": 0, "t": 7})) is False


def test_facts_have_no_truth_value_and_are_not_integers():
    with pytest.raises(SymbolicTypeError, match="prove"):
        bool(lt(s, 3))
    for wrong in (True, 1, s, None, "s < 3"):
        with pytest.raises(SymbolicTypeError):
            and_(lt(s, 3), wrong)  # pyright: ignore[reportArgumentType] this is the point
        with pytest.raises(SymbolicTypeError):
            not_(wrong)  # pyright: ignore[reportArgumentType] this is the point
    with pytest.raises(SymbolicTypeError):
        eq(s, lt(s, 3))  # pyright: ignore[reportArgumentType] this is the point


def test_empty_junctions():
    assert and_() is TRUE
    assert or_() is FALSE
