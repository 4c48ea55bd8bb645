"""`torch.SymInt` and its kin with our nodes inside: arithmetic, and what questions turn into."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental import symbolic_shapes  # what torch's shape functions ask through

from anyshape.errors import NeedsDecision
from anyshape.ops.shape_query import NeedKind, ShapeQuery
from anyshape.ops.symint import Asked, SymNode
from anyshape.symbolic import NATURAL, Facts, Size, eq, evaluate, ge, holds, lt, ne, symbol

s, t = symbol("s"), symbol("t")
u = symbol("u0", NATURAL, backed=False)


def asked(hinted: bool = False) -> Asked:
    facts = Facts().declare(s, 6).declare(t, 4).declare(u)
    return Asked(ShapeQuery(facts, "op"), hinted)


def size(value: Any) -> Size:
    return value.node.size if isinstance(value, torch.SymInt) else value


ARITHMETIC: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    lambda x, y: x // (y + 1),
    lambda x, y: x % (y + 1),
    lambda x, y: 3 + x * 2 - y,
    lambda x, y: 7 // (x + 1),
    lambda x, y: -x + abs(x - y),
    lambda x, y: torch.sym_max(x, y) + torch.sym_min(x, 3),
    lambda x, y: torch.sym_sum([x, y, 2]),
    lambda x, y: math.ceil(x / 2) + math.floor(y / 3),
    lambda x, y: torch.sym_int(x / 4),
    lambda x, y: x**2,
    lambda x, y: int(math.prod([2, 3])) * x,
]


@pytest.mark.parametrize("function", ARITHMETIC)
def test_arithmetic_is_ours(function: Callable[[Any, Any], Any]):
    a = asked()
    found = size(function(a.int(s), a.int(t)))
    assert not a.q.needs
    for x in range(7):
        for y in range(5):
            values = {next(iter(s.symbols)): x, next(iter(t.symbols)): y}
            assert evaluate(found, values) == function(x, y)


def test_a_result_that_is_constant_is_an_integer():
    a = asked()
    assert a.int(s) - a.int(s) == 0
    assert type(a.int(5)) is int
    assert (a.int(s) >= 0) is True


def test_a_branch_is_a_decision_with_a_line_of_torch():
    a = asked()
    x = a.int(s)
    assert bool(x > 4)
    [need] = a.q.needs
    assert need.kind is NeedKind.GUARD
    assert need.fact is ge(s, 5)
    assert "test_symint.py:" in need.reason
    assert bool(x > 3), "follows from what was decided"
    assert len(a.q.needs) == 1


def test_a_number_is_a_specialisation():
    a = asked()
    assert len(range(a.int(s))) == 6
    [need] = a.q.needs
    assert need.kind is NeedKind.SPECIALISED
    assert need.fact is eq(s, 6)


def test_a_check_is_a_requirement():
    a = asked()
    torch._check(a.int(s) > 4)
    [need] = a.q.needs
    assert need.kind is NeedKind.CHECK
    with pytest.raises(RuntimeError, match="too small"):
        torch._check(a.int(s) > 100, lambda: "too small")


def test_a_check_after_a_default_is_a_guard():
    # Torch went the way of sizes other than 1. At 1 eager goes another, where the check may not be.
    a = asked()
    assert not symbolic_shapes.guard_or_false(a.int(s) == 1)
    torch._check(a.int(s) == a.int(t) + 2)
    [need] = a.q.needs
    assert need.kind is NeedKind.GUARD


@pytest.mark.parametrize(
    ("ask", "default"),
    [
        (symbolic_shapes.guard_or_false, False),
        (symbolic_shapes.guard_or_true, True),
        (lambda truth: truth if truth is True else truth.node.guard_size_oblivious("", 0), False),
        (symbolic_shapes.statically_known_true, False),
    ],
)
def test_defaults_need_nothing(ask: Callable[[Any], bool], default: bool):
    a = asked()
    for fact in (a.int(s) == 1, a.int(s) == 6, a.int(s) == a.int(u)):
        assert ask(fact) is default
    assert ask(a.int(s) + 1 > 0) is True
    assert not a.q.needs


def test_defaults_are_guards_if_hinted():
    a = asked(hinted=True)
    assert symbolic_shapes.guard_or_false(a.int(s) == 6)
    assert not symbolic_shapes.guard_or_true(a.int(s) == a.int(t))
    assert [need.fact for need in a.q.needs] == [eq(s, 6), ne(s, t)]
    assert symbolic_shapes.guard_or_true(a.int(u) == 3), "no value to go by"


def test_a_question_about_data_raises():
    a = asked()
    with pytest.raises(NeedsDecision):
        bool(a.int(u) > 3)
    with pytest.raises(NeedsDecision):
        int(a.int(u))


def test_a_divisor_must_not_be_zero():
    a = asked()
    assert size(a.int(t) // a.int(s)) is t // s
    [need] = a.q.needs
    assert need.fact is ne(s, 0)


def test_a_float_is_settled_only_when_it_is_looked_at():
    a = asked()
    ratio = a.int(s) / a.int(t) * 2.5
    assert [need.fact for need in a.q.needs] == [ne(t, 0)]
    assert ratio > 3.0
    assert float(ratio) == 6 / 4 * 2.5
    assert a.q.facts.value(s) == 6
    assert a.q.facts.value(t) == 4


def test_truth_values_combine():
    a = asked()
    both = torch.sym_not((a.int(s) < 3) | (a.int(t) == 4)) & (a.int(s) != 2)
    assert isinstance(both, torch.SymBool)
    values = {next(iter(s.symbols)): 5, next(iter(t.symbols)): 3}
    assert holds(both.node.fact, values)


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous", "dense"),
    [
        ((s, t), (t, 1), True, True),
        ((s, t), (1, s), False, True),
        ((s, 1, t), (t, 77, 1), True, True),
        ((s, t), (t * 2, 1), False, False),
        ((s, t), (0, 1), False, False),
    ],
)
def test_layouts_are_known_without_a_guard(
    shape: tuple[Size, ...], strides: tuple[Size, ...], contiguous: bool, dense: bool
):
    a = asked()
    tensor = torch.empty_strided(
        tuple(map(a.int, shape)), tuple(map(a.int, strides)), device="meta"
    )
    assert tensor.is_contiguous() is contiguous
    assert torch.ops.aten.is_non_overlapping_and_dense(tensor) is dense
    assert not a.q.needs


def test_tensors_carry_our_sizes():
    a = asked()
    tensor = torch.empty((a.int(s), a.int(t) * 2, 3), device="meta")
    assert tuple(map(size, tensor.shape)) == (s, t * 2, 3)
    assert size(tensor.numel()) is s * t * 6
    assert size(tensor.size(0)) is s


def test_text():
    a = asked()
    assert str(a.int(s * 2 + 1)) == str(s * 2 + 1)
    assert isinstance((a.int(s) < 3).node, SymNode)
    assert (a.int(s) < 3).node.fact is lt(s, 3)
