"""How guards print."""

from __future__ import annotations

import math

import pytest
import torch

from anyshape.guards.guard import Guard, Kind, SymbolSource
from anyshape.guards.kinds import guard_text, with_text, writer
from anyshape.guards.path import constant, local
from anyshape.guards.text import fact_text, names_of
from anyshape.symbolic import as_symbol, parse_fact, symbol
from tests.guards.cases import Color, Foreign, spec
from tests.guards.verdicts import X, Y, guard

SYMBOLS = {name: symbol(name) for name in ("s0", "s1", "n")}
NAMES = names_of(
    [
        SymbolSource(as_symbol(SYMBOLS["s0"]), X, 0),
        SymbolSource(as_symbol(SYMBOLS["s1"]), Y, 1),
        SymbolSource(as_symbol(SYMBOLS["n"]), local("n"), None),
        SymbolSource(as_symbol(SYMBOLS["s0"]), Y, 3),
    ]
)

FACTS = [
    ("s0 < 10", "L['x'].size()[0] < 10"),
    ("s0 >= 10", "L['x'].size()[0] >= 10"),
    ("s0 == s1", "L['x'].size()[0] == L['y'].size()[1]"),
    ("s0 != s1", "L['x'].size()[0] != L['y'].size()[1]"),
    ("s0 < s1", "L['x'].size()[0] < L['y'].size()[1]"),
    ("s0 <= s1", "L['x'].size()[0] <= L['y'].size()[1]"),
    ("s0 % 8 == 0", "L['x'].size()[0] % 8 == 0"),
    ("n == 3", "L['n'] == 3"),
    ("2*s0 + n < 7", "2*L['x'].size()[0] + L['n'] < 7"),
    ("s0 < 3 or s1 == 2", "L['x'].size()[0] < 3 or L['y'].size()[1] == 2"),
    (
        "(s0 < 3 and n == 1) or s1 == 2",
        "(L['x'].size()[0] < 3 and L['n'] == 1) or L['y'].size()[1] == 2",
    ),
    ("s0 + 2 <= s1 // 2", "L['x'].size()[0] + 2 <= L['y'].size()[1]//2"),
]


@pytest.mark.parametrize(("fact", "text"), FACTS)
def test_facts(fact: str, text: str):
    assert fact_text(parse_fact(fact, SYMBOLS), NAMES) == text


def test_a_symbol_without_a_source_goes_by_its_name():
    assert fact_text(parse_fact("u < 3", {"u": symbol("u")}), NAMES) == "u < 3"


WEIGHT = local("self").instance("_parameters").item("weight")
GUARDS = [
    (guard(Kind.TYPE, X, torch.Tensor), "type(L['x']) is Tensor"),
    (guard(Kind.EQUALS, local("n"), 3), "L['n'] == 3"),
    (guard(Kind.EQUALS, local("n"), "a"), "L['n'] == 'a'"),
    (guard(Kind.IDENTITY, X, math.sin), "L['x'] is sin"),
    (guard(Kind.IDENTITY, X, Foreign), "L['x'] is Foreign"),
    (guard(Kind.IDENTITY, X, Foreign()), "L['x'] is <Foreign object>"),
    (guard(Kind.IDENTITY, X, Color.RED), "L['x'] is Color.RED"),
    (guard(Kind.IDENTITY, constant({}, "G").item("torch"), torch), "G['torch'] is torch"),
    (guard(Kind.IDENTITY, X, None), "L['x'] is None"),
    (guard(Kind.LENGTH, local("xs"), 3), "len(L['xs']) == 3"),
    (guard(Kind.KEYS, X, ("a", 1)), "list(L['x']) == ['a', 1]"),
    (guard(Kind.MEMBERS, X, frozenset((1, 2))), "L['x'] == {1, 2}"),
    (guard(Kind.MEMBERS, X, frozenset()), "L['x'] == set()"),
    (guard(Kind.CONTAINS, X, ("a", True)), "'a' in L['x']"),
    (guard(Kind.CONTAINS, X, ("a", False)), "'a' not in L['x']"),
    (guard(Kind.NO_INSTANCE_ATTRIBUTE, X, "forward"), "'forward' not in L['x'].__dict__"),
    (guard(Kind.NO_ATTRIBUTE, X, "a"), "not hasattr(L['x'], 'a')"),
    (guard(Kind.TRUTH, X, False), "bool(L['x']) is False"),
    (
        guard(Kind.TENSOR, X, spec(None, 4)),
        "tensor 'x': type=Tensor, dtype=torch.float32, device=cpu, requires_grad=False, "
        "size=[?, 4]",
    ),
    (
        guard(Kind.TENSOR, WEIGHT, spec(4, strides=(1,), layout=torch.strided)),
        "tensor \"L['self']._parameters['weight']\": type=Tensor, dtype=torch.float32, device=cpu, "
        "requires_grad=False, size=[4], stride=[1], layout=torch.strided",
    ),
    (guard(Kind.SIZES, None, parse_fact("s0 < 10", SYMBOLS)), "L['x'].size()[0] < 10"),
    (guard(Kind.SAME_OBJECT, X, Y), "L['x'] is L['y']"),
    (guard(Kind.DISTINCT, None, (X, Y)), "all different objects: L['x'], L['y']"),
    (guard(Kind.STATE, None, (True,)), "global state == (True,)"),
    (guard(Kind.PREDICATE, X, callable), "callable(L['x'])"),
    (Guard(Kind.PREDICATE, X, callable, "", text="L['x'] is fine"), "L['x'] is fine"),
]


@pytest.mark.parametrize(("shown", "text"), GUARDS)
def test_guards(shown: Guard, text: str):
    assert guard_text(shown, NAMES) == text
    assert with_text(shown, writer(NAMES)).text == text


def test_every_kind_prints():
    assert {shown.kind for shown, _ in GUARDS} == set(Kind)


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ((0, 1), "contiguous"),
        ((0, 2, 3, 1), "channels_last"),
        ((0, 2, 3, 4, 1), "channels_last_3d"),
        ((1, 0), "dense in the order [1, 0]"),
    ],
)
def test_orders(order: tuple[int, ...], text: str):
    sizes = (None,) * len(order)
    assert guard_text(guard(Kind.TENSOR, X, spec(*sizes, order=order)), NAMES).endswith(f", {text}")
