"""Values at a point, and expressions with symbols replaced."""

from __future__ import annotations

import pytest

from anyshape.errors import SymbolicTypeError, UndefinedDivision, UnknownSymbol
from anyshape.symbolic import (
    as_symbol,
    evaluate,
    holds,
    parse_fact,
    parse_size,
    substitute,
    substitute_fact,
)
from tests.symbolic.small_integers import SYMBOLS, by_symbol

s, t = SYMBOLS["s"], SYMBOLS["t"]


def test_a_missing_symbol_is_named():
    with pytest.raises(UnknownSymbol, match="t"):
        evaluate(s * t, by_symbol({"s": 3}))


def test_division_by_zero_is_an_error_of_ours():
    with pytest.raises(UndefinedDivision):
        evaluate(s // t, by_symbol({"s": 3, "t": 0}))
    with pytest.raises(ZeroDivisionError):
        evaluate(s % t, by_symbol({"s": 3, "t": 0}))


def test_substitution_is_simultaneous_and_canonical():
    swapped = substitute(s - 2 * t, {as_symbol(s): t, as_symbol(t): s})
    assert swapped == t - 2 * s
    assert substitute((s * t) // 4, {as_symbol(s): 4}) == t
    assert substitute(parse_size("max(s, t)", SYMBOLS), {as_symbol(t): s + 1}) == s + 1


def test_substitution_in_facts():
    fact = parse_fact("s % 8 == 0 or s < t", SYMBOLS)
    assert substitute_fact(fact, {as_symbol(s): 16}) is parse_fact("True", SYMBOLS)
    assert str(substitute_fact(fact, {as_symbol(s): 3})) == "t >= 4"


def test_a_division_that_loses_its_value_is_left_alone():
    assert substitute(s // t, {as_symbol(t): 0}) == s // t


def test_parts_are_tried_in_order():
    fact = parse_fact("t != 0 and s // t == 2", SYMBOLS)
    assert not holds(fact, by_symbol({"s": 4, "t": 0}))
    assert holds(fact, by_symbol({"s": 4, "t": 2}))


def test_wrong_keys_and_values_are_clear_errors():
    for wrong in ({"s": 3}, {s: 3}):
        with pytest.raises(UnknownSymbol):
            evaluate(s + 1, wrong)  # pyright: ignore[reportArgumentType] this is the point
        with pytest.raises(SymbolicTypeError):
            substitute(s + 1, wrong)  # pyright: ignore[reportArgumentType] this is the point
    with pytest.raises(SymbolicTypeError, match="range"):
        substitute(s + 1, {as_symbol(s): -3})
    with pytest.raises(SymbolicTypeError):
        parse_size("s", {"s": 2.5})  # pyright: ignore[reportArgumentType] this is the point
