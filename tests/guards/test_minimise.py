"""What is dropped follows from what is kept."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape.guards.guard import Guard, Kind, SymbolSource
from anyshape.guards.minimise import minimise, needed_facts
from anyshape.guards.path import local
from anyshape.symbolic import as_symbol, holds, parse_fact, symbol
from tests.guards.cases import CASES, Case, function, spec
from tests.guards.test_emit import arguments
from tests.guards.verdicts import Verdicts, X, Y, guard, plan

TENSOR = guard(Kind.TENSOR, X, spec(None, 4))
NAMES = {name: symbol(name) for name in ("s0", "s1", "s2")}
SOURCES = [SymbolSource(as_symbol(s), local("xyz"[i]), 0) for i, s in enumerate(NAMES.values())]


def at(kind: Kind, value: object) -> Guard:
    return guard(kind, X, value)


#: kept, dropped
IMPLIED = [
    ([TENSOR], [at(Kind.TYPE, torch.Tensor)]),
    ([at(Kind.EQUALS, 3)], [at(Kind.TYPE, int)]),
    ([at(Kind.EQUALS, 3)], [at(Kind.EQUALS, 3)]),
    ([at(Kind.EQUALS, float("nan"))], [at(Kind.EQUALS, float("nan"))]),
    ([at(Kind.EQUALS, 1), at(Kind.EQUALS, True), at(Kind.EQUALS, 1.0)], []),
    ([at(Kind.EQUALS, 0.0), at(Kind.EQUALS, -0.0)], []),
    ([at(Kind.EQUALS, (1, 2))], [at(Kind.LENGTH, 2), at(Kind.TRUTH, True), at(Kind.TYPE, tuple)]),
    ([at(Kind.EQUALS, "")], [at(Kind.LENGTH, 0), at(Kind.TRUTH, False)]),
    ([at(Kind.EQUALS, (1, 2)), at(Kind.LENGTH, 3)], []),
    ([at(Kind.KEYS, ("a",))], [at(Kind.LENGTH, 1), at(Kind.CONTAINS, ("a", True))]),
    ([at(Kind.KEYS, ("a",)), at(Kind.TYPE, dict)], [at(Kind.TRUTH, True)]),
    ([at(Kind.KEYS, ("a",)), at(Kind.CONTAINS, ("b", False))], []),
    ([at(Kind.MEMBERS, frozenset("ab"))], [at(Kind.LENGTH, 2), at(Kind.TRUTH, True)]),
    ([at(Kind.LENGTH, 2)], [at(Kind.LENGTH, 2), at(Kind.TRUTH, True)]),
    ([at(Kind.LENGTH, 0)], [at(Kind.TRUTH, False)]),
    ([at(Kind.LENGTH, 0), at(Kind.TRUTH, True)], []),
    ([at(Kind.TRUTH, True)], []),
    ([at(Kind.IDENTITY, int)], [at(Kind.IDENTITY, int), at(Kind.TYPE, type)]),
    ([at(Kind.IDENTITY, function)], [at(Kind.TYPE, type(function))]),
    ([at(Kind.IDENTITY, torch), at(Kind.TYPE, type(torch))], []),
    ([TENSOR], [guard(Kind.TENSOR, X, spec(None, 4))]),
    ([TENSOR, guard(Kind.TENSOR, X, spec(None, 5)), guard(Kind.TENSOR, Y, spec(None, 4))], []),
    ([at(Kind.TYPE, list), guard(Kind.TYPE, Y, list)], [at(Kind.TYPE, list)]),
    ([guard(Kind.DISTINCT, None, (X, Y))], [guard(Kind.DISTINCT, None, (X, Y))]),
    ([guard(Kind.SAME_OBJECT, X, Y)], [guard(Kind.SAME_OBJECT, X, Y)]),
    ([guard(Kind.STATE, None, (1, True))], [guard(Kind.STATE, None, (1, True))]),
    ([guard(Kind.PREDICATE, X, callable), guard(Kind.PREDICATE, X, all)], []),
    (
        [at(Kind.NO_ATTRIBUTE, "a"), at(Kind.NO_INSTANCE_ATTRIBUTE, "a")],
        [at(Kind.NO_ATTRIBUTE, "a")],
    ),
]


@pytest.mark.parametrize(("kept", "dropped"), IMPLIED)
def test_implied_guards_go(kept: list[Guard], dropped: list[Guard]):
    said = [(g.kind, g.path, g.value) for g in kept]
    for guards in ([*kept, *dropped], [*dropped, *kept]):
        left = minimise(guards)
        assert sorted(map(repr, said)) == sorted(repr((g.kind, g.path, g.value)) for g in left)
        assert all(g.text for g in left)


#: recorded -> needed, given
FACTS = [
    ("s0 < 10; s0 < 5", "s0 < 5"),
    ("s0 < 5; s0 < 10", "s0 < 5"),
    ("s0 >= 2; s0 == 4; s0 < 9", "s0 == 4"),
    ("s0 == s1; s1 == s2; s0 == s2", "s0 == s1; s1 == s2"),
    ("s0 != 3; s0 > 3", "s0 > 3"),
    ("s0 >= 0", ""),
    ("s0 % 8 == 0; s0 % 4 == 0", "s0 % 8 == 0"),
    ("s0 != 0; s1 != 0", "s0 != 0; s1 != 0"),
    ("s0 < s1; s1 < s2; s0 < s2", "s1 < s2; s0 < s1"),
]


def facts(text: str) -> list:
    return [parse_fact(part, NAMES) for part in text.split(";") if part.strip()]


@pytest.mark.parametrize(("recorded", "needed"), FACTS)
def test_implied_facts_go(recorded: str, needed: str):
    assert needed_facts(facts(recorded)) == set(facts(needed))
    guards = [guard(Kind.SIZES, None, fact) for fact in facts(recorded)]
    assert {g.value for g in minimise(guards, SOURCES)} == set(facts(needed))


def test_facts_about_an_integer_that_is_compared_go():
    n = symbol("n")
    source = SymbolSource(as_symbol(n), X, None)
    guards = [guard(Kind.SIZES, None, parse_fact("n < 9", {"n": n})), at(Kind.EQUALS, 3)]
    assert [g.kind for g in minimise(guards, [source])] == [Kind.EQUALS]
    assert [g.kind for g in minimise([guards[0], at(Kind.EQUALS, 30)], [source])] == [
        Kind.SIZES,
        Kind.EQUALS,
    ]


def test_facts_about_a_static_size_go():
    n = symbol("n")
    source = SymbolSource(as_symbol(n), X, 1)
    guards = [guard(Kind.SIZES, None, parse_fact("n % 2 == 0", {"n": n})), TENSOR]
    assert [g.kind for g in minimise(guards, [source])] == [Kind.TENSOR]


def test_a_contradiction_keeps_all():
    recorded = facts("s0 == 3; s0 == 4")
    assert needed_facts(recorded) == set(recorded)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdicts_stay(case: Case):
    twice = minimise([*case.guards, *case.guards], case.symbols)
    assert len(twice) <= len(case.guards)
    verdicts = Verdicts(plan(twice, case.symbols, case.inputs), case.probe)
    for values, expected in arguments(case):
        assert verdicts.both(*values) is expected


COMPARISONS = st.builds(
    "{} {} {}".format,
    st.sampled_from(["s0", "s1", "s2", "2*s0", "s0 + s1", "s1 % 3", "s2 // 2", "s0*s1"]),
    st.sampled_from(["<", "<=", "==", "!=", ">", ">="]),
    st.sampled_from(["0", "1", "2", "3", "4", "s0", "s1", "s2"]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(COMPARISONS, max_size=6))
def test_needed_facts_imply_all(texts: list[str]):
    recorded = [parse_fact(text, NAMES) for text in texts]
    needed = needed_facts(recorded)
    for values in itertools.product(range(5), repeat=3):
        at_values = dict(zip(map(as_symbol, NAMES.values()), values, strict=True))
        if all(holds(fact, at_values) for fact in needed):
            assert all(holds(fact, at_values) for fact in recorded)


def test_thousands_of_guards_and_a_hundred_facts():
    root = local("self")
    paths = [root.instance("_modules").item(str(i)) for i in range(3000)]
    guards = [guard(Kind.TYPE, path, list) for path in paths for _ in range(2)]
    symbols = [symbol(f"t{i}") for i in range(50)]
    names = {s.name: symbols[i] for i, s in enumerate(map(as_symbol, symbols))}
    texts = [f"t{i} < {100 - i}" for i in range(50)] + [f"t{i} < {200 - i}" for i in range(50)]
    guards += [guard(Kind.SIZES, None, parse_fact(text, names)) for text in texts]
    sources = [SymbolSource(as_symbol(s), local("x"), i) for i, s in enumerate(symbols)]
    assert len(minimise(guards, sources)) == 3050
