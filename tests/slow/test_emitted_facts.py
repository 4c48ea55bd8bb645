"""Conditions on sizes, as generated and minimised, against the recorded facts: all small values,
negative integers included. An entry may only run where every recorded fact holds."""

from __future__ import annotations

import inspect
import itertools
import os
import random

import pytest

from anyshape.errors import AnyshapeError
from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.guard import Kind, SymbolSource
from anyshape.guards.minimise import minimise
from anyshape.guards.path import local
from anyshape.symbolic import EVERYTHING, NATURAL, Fact, Range, as_symbol, holds, parse_fact, symbol
from tests.guards.verdicts import guard

_FACTS = int(os.environ.get("ANYSHAPE_EMITTED_FACTS", "1000"))
_PARTS = 10
_RANGES = {"s0": NATURAL, "s1": NATURAL, "n": EVERYTHING, "m": Range(1, 4)}
SYMBOLS = {name: symbol(name, range_) for name, range_ in _RANGES.items()}
SOURCES = [SymbolSource(as_symbol(s), local(name), None) for name, s in SYMBOLS.items()]
VALUES = range(-3, 6)


_FORMS = (
    *("({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} // {b})", "({a} % {b})"),
    *("min({a}, {b})", "max({a}, {b})"),
)


def function(s0: int, s1: int, n: int, m: int) -> None: ...


def size(random_: random.Random, depth: int) -> str:
    if depth == 0 or random_.random() < 0.3:
        return random_.choice([*SYMBOLS, *SYMBOLS, *map(str, range(-2, 9))])
    a, b = size(random_, depth - 1), size(random_, depth - 1)
    form = random_.choice(_FORMS)
    return form.format(a=a, b=b)


def fact(random_: random.Random, depth: int = 1) -> str:
    if depth and random_.random() < 0.2:
        word = random_.choice([" and ", " or "])
        return f"({fact(random_, depth - 1)}{word}{fact(random_, depth - 1)})"
    comparison = random_.choice(["<", "<=", "==", "!=", ">", ">="])
    return f"{size(random_, 2)} {comparison} {size(random_, 1)}"


def facts(random_: random.Random) -> list[Fact]:
    found: list[Fact] = []
    wanted = random_.randint(1, 4)
    while len(found) < wanted:
        try:
            found.append(parse_fact(fact(random_), SYMBOLS))
        except AnyshapeError:
            continue  # divides by 0
    return found


def true_of(recorded: list[Fact], values: dict) -> bool | None:
    """Whether all facts hold; None where one has no value."""
    try:
        return False not in [holds(each, values) for each in recorded]
    except AnyshapeError:
        return None


@pytest.mark.parametrize("part", range(_PARTS))
def test_an_entry_runs_only_where_the_facts_hold(part: int):
    random_ = random.Random(part)
    ran = refused = 0
    for _ in range(_FACTS // _PARTS):
        recorded = facts(random_)
        guards = [guard(Kind.SIZES, None, each) for each in recorded]
        for kept in (guards, minimise(guards, SOURCES)):
            entry = EntryPlan(kept, SOURCES, (), lambda: True)
            dispatcher = build_dispatcher(inspect.signature(function), [entry], lambda _: False)
            for values in itertools.product(VALUES, repeat=4):
                named = dict(zip(map(as_symbol, SYMBOLS.values()), values, strict=True))
                declared = all(s.declared.contains(value) for s, value in named.items())
                expected = declared and true_of(recorded, named)
                found = dispatcher(*values)
                if expected is None and kept is not guards:
                    continue  # Where a divisor is 0 laws say nothing: whoever divides guards that.
                assert found is bool(expected), (recorded, kept, values)
                ran += found is True
                refused += found is False
    assert ran > 1000
    assert refused > 1000
