"""Sizes that break a fact within a contract; None where there are none."""

from __future__ import annotations

import pytest

from anyshape.shapes.counterexamples import counterexample
from anyshape.symbolic import Range, Size, Symbol, as_symbol, parse_fact, symbol

a, b = symbol("a", Range(0, 4096)), symbol("b", Range(1, 8192))
t = symbol("t")
NAMES: dict[str, Size] = {"a": a, "b": b, "t": t}
MEANINGS: dict[Symbol, Size] = {as_symbol(t): 2 * b + 1}
HINTS = {as_symbol(a): 3, as_symbol(b): 5}


@pytest.mark.parametrize(
    ("fact", "relations", "breaks"),
    [
        ("a < 10", [], True),
        ("a == 3", [], True),
        ("a != 777", [], True),
        ("a % 8 == 0", [], True),
        ("a % 8 == 0", ["a % 16 == 0"], False),
        ("a % 16 == 0", ["a % 8 == 0"], True),
        ("a <= 4096", [], False),
        ("b >= 1", [], False),
        ("b >= 2", [], True),
        ("a <= b", [], True),
        ("a <= b", ["a <= b"], False),
        ("a*b % 4 == 0", [], True),
        ("a*b % 4 == 0", ["a % 4 == 0"], False),
        ("t >= 3", [], False),
        ("t % 2 == 1", [], False),
        ("t != 2001", [], True),
        ("a != 1234", ["a % 2 == 0"], True),
    ],
)
def test_breaks(fact: str, relations: list[str], breaks: bool):
    given = [parse_fact(text, NAMES) for text in relations]
    found = counterexample(parse_fact(fact, NAMES), given, MEANINGS, HINTS)
    assert (found is not None) is breaks, found
