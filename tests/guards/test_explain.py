"""The sentence that a failing guard gives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from anyshape.guards.explain import first_failure
from anyshape.guards.guard import Guard, Kind
from anyshape.guards.values import is_dense
from anyshape.symbolic import eq, floordiv, lt
from tests.guards.cases import S0, S1, Foreign, M, N, Plain, n, ordered, s0, s1, spec, tensor
from tests.guards.verdicts import X, Y, guard, plan


def sentence(guards: Sequence[Guard], x: object, y: object = None, symbols: Sequence = ()) -> str:
    failure = first_failure(plan(guards, symbols), {"x": x, "y": y}, lambda: (False,))
    assert failure is not None
    return failure.sentence


def tensors(**changes: object) -> Guard:
    return guard(Kind.TENSOR, X, spec(10, None, **changes))


SENTENCES = [
    (tensors(), tensor(20, 1), "tensor 'x' size mismatch at index 0. expected 10, actual 20"),
    (tensors(), tensor(10), "tensor 'x' rank mismatch. expected 2, actual 1"),
    (tensors(), 3, "tensor 'x' type mismatch. expected Tensor, actual int"),
    (
        tensors(),
        tensor(10, 1, dtype=torch.float64),
        "tensor 'x' dtype mismatch. expected torch.float32, actual torch.float64",
    ),
    (
        tensors(),
        tensor(10, 1, device="meta"),
        "tensor 'x' device mismatch. expected cpu, actual meta",
    ),
    (
        tensors(),
        tensor(10, 1, requires_grad=True),
        "tensor 'x' requires_grad mismatch. expected False, actual True",
    ),
    (
        tensors(strides=(3, 1)),
        tensor(10, 2),
        "tensor 'x' stride mismatch at index 0. expected 3, actual 2",
    ),
    (
        tensors(order=(0, 1)),
        tensor(2, 10).t(),
        "tensor 'x' layout mismatch. expected contiguous, actual stride [1, 10]",
    ),
    (
        tensors(layout=torch.strided),
        tensor(10, 2).to_sparse(),
        "tensor 'x' layout mismatch. expected torch.strided, actual torch.sparse_coo",
    ),
    (guard(Kind.EQUALS, X, 3), 4, "L['x'] == 3, actual 4"),
    (guard(Kind.EQUALS, X, 3), 3.0, "L['x'] == 3, actual 3.0 of type float"),
    (guard(Kind.EQUALS, X, 3), Foreign(), "L['x'] == 3, actual <Foreign object> of type Foreign"),
    (guard(Kind.EQUALS, X, (1, 2)), (1, 3), "L['x'] == (1, 2), actual (1, 3)"),
    (guard(Kind.TYPE, X, list), (), "type(L['x']) is list, actual tuple"),
    (guard(Kind.IDENTITY, X, len), max, "L['x'] is len, actual max"),
    (guard(Kind.LENGTH, X, 3), [1], "len(L['x']) == 3, actual 1"),
    (guard(Kind.KEYS, X, ("a",)), ordered("b"), "list(L['x']) == ['a'], actual ['b']"),
    (guard(Kind.MEMBERS, X, frozenset("a")), {1, 2}, "L['x'] == {'a'}, actual 2 members"),
    (guard(Kind.CONTAINS, X, ("a", True)), {}, "'a' in L['x'], actual not there"),
    (
        guard(Kind.NO_INSTANCE_ATTRIBUTE, X, "a"),
        Plain(a=1),
        "'a' not in L['x'].__dict__, actual it is there",
    ),
    (guard(Kind.NO_ATTRIBUTE, X, "real"), 3, "not hasattr(L['x'], 'real'), actual: it has"),
    (guard(Kind.TRUTH, X, True), [], "bool(L['x']) is True, actual False"),
    (guard(Kind.SAME_OBJECT, X, Y), 3, "L['x'] is L['y'], actual two objects"),
    (
        guard(Kind.DISTINCT, None, (X, Y)),
        None,
        "all different objects: L['x'], L['y'], actual L['x'] is L['y']",
    ),
    (guard(Kind.STATE, None, (True,)), 3, "grad mode was on, and is off now"),
    (guard(Kind.PREDICATE, X, callable), 3, "callable(L['x']), actual it does not hold"),
    (guard(Kind.EQUALS, X.item("a"), 3), {}, "L['x']['a'] == 3, but KeyError: 'a'"),
]


@pytest.mark.parametrize(("failing", "value", "expected"), SENTENCES)
def test_sentences(failing: Guard, value: object, expected: str):
    assert sentence([failing], value) == expected


SIZES = guard(Kind.TENSOR, X, spec(None, None))


def test_sizes():
    below = guard(Kind.SIZES, None, lt(s0, 10))
    assert (
        sentence([below, SIZES], tensor(12, 1), symbols=[S0]) == "L['x'].size()[0] < 10, actual 12"
    )


def test_sizes_of_several_symbols():
    equal = guard(Kind.SIZES, None, eq(s0, s1))
    assert sentence([SIZES, equal], tensor(2, 3), symbols=[S0, S1]) == (
        "L['x'].size()[0] == L['x'].size()[1], actual L['x'].size()[0] = 2, L['x'].size()[1] = 3"
    )


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (True, "L['y'] is an int, actual True of type bool"),
        (9, "2 <= L['y'] <= 5, actual 9"),
    ],
)
def test_symbols(y: object, expected: str):
    assert sentence([], 0, y, [M]) == expected


def test_an_expression_without_a_value():
    failure = first_failure(plan([], [N], [floordiv(8, n)]), {"x": 0, "y": 0})
    assert failure is not None
    assert failure.guard is None
    assert "has no value" in failure.sentence


def test_the_first_failing_guard_is_named():
    guards = [guard(Kind.TYPE, X, int), guard(Kind.EQUALS, X, 3), guard(Kind.EQUALS, X, 4)]
    failure = first_failure(plan(guards), {"x": 4})
    assert failure is not None
    assert failure.guard is guards[1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_dense_is_what_torch_lays_out(order: tuple[int, ...]):
    for sizes in [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 1), (0, 2, 3)]:
        laid_out = torch.empty_permuted(sizes, order)
        assert is_dense(laid_out.shape, laid_out.stride(), order)
        padded = torch.empty(9 * 9 * 9).as_strided(sizes, [9 * s for s in laid_out.stride()])
        assert is_dense(sizes, padded.stride(), order) is (max(sizes) == 1 or 0 in sizes)
