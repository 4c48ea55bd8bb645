"""Facts: pure questions, explicit assumptions, hints that only choose."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anyshape.errors import Contradiction, SymbolicTypeError, UnknownSymbol
from anyshape.symbolic import (
    Answer,
    Facts,
    Range,
    eq,
    ge,
    lt,
    ne,
    parse_fact,
    parse_size,
    symbol,
)
from tests.symbolic.small_integers import SYMBOLS

s, t = SYMBOLS["s"], SYMBOLS["t"]
u = symbol("u0", backed=False)


def given(*texts: str) -> Facts:
    facts = Facts()
    for text in texts:
        facts = facts.assume(parse_fact(text, SYMBOLS), "given")
    return facts


def test_a_question_changes_nothing():
    facts = given("s >= 3")
    before = (facts.assumptions, facts.range(s), str(facts.simplify(s * 2)))
    for text in ("s == 5", "s % 8 == 0", "s < t", "s*t == 12", "max(s, t) == 3"):
        facts.prove(parse_fact(text, SYMBOLS))
    assert (facts.assumptions, facts.range(s), str(facts.simplify(s * 2))) == before


def test_assuming_leaves_the_old_facts_alone():
    old = Facts()
    new = old.assume(eq(s, 5), "this run")
    assert old.prove(eq(s, 5)) is Answer.UNKNOWN
    assert new.prove(eq(s, 5)) is Answer.YES
    assert [str(a) for a in new.assumptions] == ["s == 5  because this run"]


def test_what_follows_is_not_recorded():
    facts = given("s >= 3")
    assert facts.assume(ge(s, 2), "again") is facts


def test_contradictions_name_what_is_known():
    with pytest.raises(Contradiction, match=r"s <= 2.*s >= 3|s >= 3") as error:
        given("s >= 3").assume(lt(s, 3), "a narrow view")
    assert "a narrow view" in str(error.value)


def test_hints_choose_but_never_prove():
    facts = Facts().declare(s, 5)
    assert facts.prove(eq(s, 5)) is Answer.UNKNOWN
    assert facts.hint(s * 2 + 1) == 11
    assert facts.holds_now(lt(s, 10)) is True
    assert facts.holds_now(lt(s, 5)) is False


def test_unbacked_symbols_have_no_hint():
    facts = Facts().declare(s, 5).declare(u)
    assert facts.hint(u + s) is None
    assert facts.holds_now(lt(u, s)) is None
    assert facts.prove(ge(u, 0)) is Answer.YES


def test_declarations_are_checked():
    facts = Facts().declare(s, 5)
    with pytest.raises(SymbolicTypeError, match="hint"):
        Facts().declare(s)
    with pytest.raises(SymbolicTypeError, match="unbacked"):
        Facts().declare(u, 3)
    with pytest.raises(SymbolicTypeError, match="range"):
        Facts().declare(s, -1)
    with pytest.raises(SymbolicTypeError, match="range"):
        Facts().declare(s, True)
    with pytest.raises(SymbolicTypeError, match="two different"):
        facts.declare(symbol("s", Range(2, None)), 5)
    with pytest.raises(SymbolicTypeError, match="not a symbol"):
        Facts().declare(s * 2, 5)  # pyright: ignore[reportArgumentType] this is the point
    with pytest.raises(UnknownSymbol):
        facts.hint(s + t)


def test_bad_questions_are_clear_errors():
    for wrong in (True, 3, s, None, "s < 3"):
        with pytest.raises(SymbolicTypeError):
            Facts().prove(wrong)  # pyright: ignore[reportArgumentType] this is the point
    for wrong in (True, 1.5, None, lt(s, 3)):
        with pytest.raises(SymbolicTypeError):
            Facts().simplify(wrong)  # pyright: ignore[reportArgumentType] this is the point


@pytest.mark.parametrize(
    ("facts", "size", "simplified"),
    [
        (("s == 5",), "s*t + s", "5*t + 5"),
        (("t == 2*s",), "t // 2", "s"),
        (("s % 8 == 0",), "s // 8 * 8", "s"),
        (("s % 8 == 0",), "s % 4", "0"),
        (("s <= t",), "min(s, t)", "s"),
        (("s >= 1",), "max(1, s)", "s"),
        (("s < 4",), "s // 4", "0"),
        (("s < t",), "s % t", "s"),
        (("s // 4 == 2", "s % 4 == 1"), "s", "9"),
        ((), "s + t", "s + t"),
    ],
)
def test_simplify(facts, size, simplified):
    found = given(*facts).simplify(parse_size(size, SYMBOLS))
    assert str(found) == simplified


@pytest.mark.parametrize(
    ("facts", "size", "value"),
    [
        (("s == 5",), "s*2", 10),
        (("s >= 5", "s <= 5"), "s", 5),
        (("s > 4", "s < 6"), "s", 5),  # two one-sided branches pin it (pytorch#122307)
        (("s*t == 1",), "t", 1),
        (("3*s == 2*t", "t >= 1", "t <= 5"), "s", 2),
        (("s != 0", "s <= 1"), "s", 1),
        (("max(s, t) == 0",), "t", 0),
        (("s >= 5",), "s", None),
    ],
)
def test_value(facts, size, value):
    assert given(*facts).value(parse_size(size, SYMBOLS)) == value


def test_ranges():
    facts = given("s >= 3", "s <= 9", "t == 2*s + 1")
    assert facts.range(s) == Range(3, 9)
    assert facts.range(t) == Range(7, 19)
    assert facts.range(s // 4) == Range(0, 2)


def test_a_range_is_never_wider_than_the_declared_one():
    """A size that is rewritten in terms of others keeps what was declared of it."""
    a, b = symbol("a", Range(2, 10)), symbol("b", Range(1, 20))
    facts = Facts().assume(parse_fact("(a + b + 2) % 3 == 0", {"a": a, "b": b}), "a reason")
    assert facts.range(a) == (2, 10)
    assert facts.range(b) == (1, 20)


def test_many_assumptions_stay_quick():
    """Hundreds of guards must not make each other slow: the work of one more is bounded."""
    facts = Facts()
    symbols = [symbol(f"m{i}") for i in range(120)]
    for left, right in pairwise(symbols):
        facts = facts.assume(ge(right, left), "sorted").assume(ne(left, 7), "odd one out")
    assert facts.prove(ge(symbols[1], symbols[0])) is Answer.YES
    assert len(facts.assumptions) == 238


def test_symbols_of_one_name_are_not_mixed_up():
    a, other = symbol("twin"), symbol("twin", Range(1, None))
    facts = Facts().assume(eq(a % 8, 0), "").assume(eq(other % 8, 0), "")
    assert facts.prove(eq(a, other)) is Answer.UNKNOWN


def test_a_hint_is_not_replaced():
    with pytest.raises(SymbolicTypeError, match="hint"):
        Facts().declare(s, 5).declare(s, 7)
    assert Facts().declare(s, 5).declare(s, 5).hint(s) == 5


def test_what_is_not_hashable_is_no_fact():
    with pytest.raises(SymbolicTypeError):
        Facts().prove([])  # pyright: ignore[reportArgumentType] this is the point
