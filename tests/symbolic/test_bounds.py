"""Bounds: what they say of an expression holds for all small integers."""

from __future__ import annotations

import pytest

from anyshape.symbolic import Range, evaluate, parse_size
from anyshape.symbolic.bounds import DECLARED, Bounds
from anyshape.symbolic.expr import as_symbol
from tests.symbolic.small_integers import SYMBOLS, assignments, by_symbol, names_in

#: text -> whether `>= 0` is expected to be seen
NONNEGATIVE = {
    "s": True,
    "s*t": True,
    "a": False,
    "a*a": True,
    "p - 1": True,
    "s*p - s": True,
    "s*t - s": False,
    "p*p - p": True,
    "s % 7": True,
    "a % 7": True,
    "6 - s % 7": True,
    "a//3": False,
    "s//3": True,
    "min(s, t)": True,
    "max(a, 0)": True,
    "max(a, s)": True,
    "min(a, s)": False,
    "s*t*p - s*t": True,
}


@pytest.mark.parametrize("text", NONNEGATIVE)
def test_nonnegative(text):
    size = parse_size(text, SYMBOLS)
    assert DECLARED.nonnegative(size) is NONNEGATIVE[text]


@pytest.mark.parametrize(
    "text", [*NONNEGATIVE, "a*b", "a*a*a", "s - t", "a//b", "a % b", "7*s - 3"]
)
def test_ranges_hold_every_value(text):
    size = parse_size(text, SYMBOLS)
    found = DECLARED.of(size)
    for values in assignments(names_in(text)):
        if values.get("b") != 0:
            assert found.contains(evaluate(size, by_symbol(values))), values


def test_narrower_ranges_are_used():
    s, t = SYMBOLS["s"], SYMBOLS["t"]
    bounds = Bounds({as_symbol(t).index: Range(0, 6)})
    assert bounds.nonnegative(6 * s - s * t)
    assert bounds.of(t * 2 + 1) == Range(1, 13)
    assert not DECLARED.nonnegative(6 * s - s * t)


def test_extremes_are_compared_by_their_arguments():
    s = SYMBOLS["s"]
    assert DECLARED.at_least(s, parse_size("max(s - 3, 0)", SYMBOLS))
    assert DECLARED.at_least(parse_size("min(s + 1, s + t + 2)", SYMBOLS), s)
    assert not DECLARED.at_least(s, parse_size("max(s, 1)", SYMBOLS))
