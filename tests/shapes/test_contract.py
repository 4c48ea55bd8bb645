"""A contract beside calls: what is inside, and what an error says of what is not. No torch here."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from anyshape.errors import BadShapeSpec, ShapeContractViolation
from anyshape.shapes import CallShapes, Contract, Dim, Shapes


class Tensor:
    def __init__(self, *shape: int) -> None:
        self.shape = shape


def is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def plain(x: Any, mask: Any = None, n: Any = 3) -> None: ...
def starred(x: Any, *args: Any, key: Any = None, **kwargs: Any) -> None: ...
def handed_on(*args: Any, **kwargs: Any) -> None: ...


def call(
    spec: Any, function: Callable[..., Any], *args: Any, behind: Any = None, **kwargs: Any
) -> CallShapes:
    signature = inspect.signature(function)
    inner = None if behind is None else inspect.signature(behind)
    shapes = spec if isinstance(spec, Shapes) else Shapes(spec)
    contract = Contract(shapes, signature, "f", behind=inner)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return contract.match(bound.arguments, is_tensor)


def values(found: CallShapes) -> dict[str, int]:
    return {dim.name: value for dim, value in found.values.items()}


@dataclass
class Batch:
    ids: Any
    size: int = 0


class Slotted:
    __slots__ = ("ids",)

    def __init__(self, ids: Any) -> None:
        self.ids = ids


Pair = namedtuple("Pair", "a b")
T = Tensor
seq = Dim("seq")


@pytest.mark.parametrize(
    ("spec", "x", "gives"),
    [
        ("batch seq 64", T(2, 3, 64), {"batch": 2, "seq": 3}),
        ("batch _", T(2, 3), {"batch": 2}),
        ("batch ... d", T(2, 3, 4, 5), {"batch": 2, "d": 5}),
        ("batch ... d", T(2, 5), {"batch": 2, "d": 5}),
        ("seq 2*seq+1", T(3, 7), {"seq": 3}),
        ("2*seq+1 seq", T(7, 3), {"seq": 3}),
        ("2*seq+1", T(7), {"seq": 3}),
        ("a a+b", T(3, 5), {"a": 3, "b": 2}),
        ("a//2 a", T(3, 7), {"a": 7}),
        ((seq, None, 2 * seq), T(3, 9, 6), {"seq": 3}),
        ([seq, Dim.AUTO], T(3, 9), {"seq": 3}),
        (("seq", ...), T(3, 9), {"seq": 3}),
        ({0: seq, -1: seq + 1}, T(3, 9, 4), {"seq": 3}),
        (Dim.DYNAMIC, T(3, 9), {}),
        (None, "anything", {}),
        ("seq", None, {}),
        (seq, 3, {"seq": 3}),
        ("seq", 3, {"seq": 3}),
        (3, 3, {}),
        (["n", None, ("n", 4)], [T(3), "s", T(3, 4)], {"n": 3}),
        ({"k": "n", "l": {0: "n"}}, {"k": T(3), "l": [T(3), 1], "m": 0}, {"n": 3}),
        ({"a": "n", "b": {1: "m"}}, Pair(T(3), (0, T(4))), {"n": 3, "m": 4}),
        ({"ids": "n", "size": "n"}, Batch(T(3), 3), {"n": 3}),
        ({"ids": "n"}, Slotted(T(3)), {"n": 3}),
    ],
)
def test_inside(spec: Any, x: Any, gives: dict[str, int]):
    assert values(call({"x": spec}, plain, x)) == gives


@pytest.mark.parametrize(
    ("spec", "x", "says"),
    [
        ("batch seq 64", T(2, 3, 65), "x.shape[2] is 65, where the contract has 64"),
        ("batch seq", T(2), "x has 1 dimensions (sizes [2]), where shapes['x'] expects 2"),
        ("a ... b", T(2), "x has 1 dimensions (sizes [2]), where shapes['x'] expects at least 2"),
        ("seq seq", T(2, 3), "x.shape[1] is 3, where seq is 2 (x.shape[0])"),
        ("seq 2*seq+1", T(2, 3), "x.shape[1] is 3, where 2*seq + 1 is 5: seq is 2 (x.shape[0])"),
        ("2*seq+1", T(4), "x.shape[0] is 4, where the contract has 2*seq + 1"),
        ("a b a//b", T(4, 0, 1), "x.shape[2] is 1, where a//b has no value"),
        ((Dim("n", 2, 5),), T(6), "x.shape[0] is 6, where 2 <= n <= 5 is declared"),
        (
            (2 * Dim("n", 2, 5),),
            T(12),
            "x.shape[0] is 12, where 2 <= n <= 5 is declared and this is 2*n",
        ),
        ({2: "n"}, T(1, 2), "x has 2 dimensions, where shapes['x'][2] speaks of dimension 2"),
        (Dim("n"), T(3), "x is a tensor, where shapes['x'] expects an integer"),
        ({"k": "n"}, T(3), "x is a tensor, where shapes['x'] expects a container"),
        ("n m", 3, "x is an int, where shapes['x'] expects a tensor"),
        (("n",), "text", "x is a str, where shapes['x'] expects a tensor, a tuple or a list"),
        ("n", True, "x is a bool, where shapes['x'] expects a tensor"),
        (["n"], [T(1), T(1)], "x has 2 items, where shapes['x'] has 1"),
        ({3: "n"}, [T(1)], "x has 1 items and none at 3 (shapes['x'][3])"),
        ({"k": "n"}, {"l": T(1)}, "x has no key 'k' (shapes['x']['k']); it has 'l'"),
        ({"no": "n"}, Batch(T(1)), "x is a Batch that keeps no attribute 'no' (shapes['x']['no'])"),
        (["n", ["n"]], [T(1), [T(2)]], "x[1][0].shape[0] is 2, where n is 1 (x[0].shape[0])"),
        ({"ids": "n", "size": "n"}, Batch(T(1), 2), "x.size is 2, where n is 1 (x.ids.shape[0])"),
    ],
)
def test_outside(spec: Any, x: Any, says: str):
    with pytest.raises(ShapeContractViolation) as caught:
        call({"x": spec}, plain, x)
    assert says in str(caught.value)


def test_everything_wrong_is_told_at_once():
    spec = Shapes({"x": "batch seq 64", "mask": "batch seq"}, "batch % 8 == 0", "seq >= 2")
    with pytest.raises(ShapeContractViolation) as caught:
        call(spec, plain, T(9, 1, 65), T(8, 1))
    assert caught.value.problems == (
        "x.shape[1] is 1, where seq >= 2 is declared",
        "x.shape[2] is 65, where the contract has 64",
        "mask.shape[0] is 8, where batch is 9 (x.shape[0])",
        "`batch % 8 == 0` does not hold, with batch=9",
    )
    assert caught.value.values == ("batch=9", "seq=1")


@pytest.mark.parametrize(
    ("spec", "gives"),
    [
        (("a", "b"), {"a": 1, "b": 2}),
        (["a", None, "c"], {"a": 1, "c": 3}),
        ({0: "a", 2: "c"}, {"a": 1, "c": 3}),
        ({"x": "a", "args": ["b", "c"]}, {"a": 1, "b": 2, "c": 3}),
        ({"key": "d", "other": "e"}, {"d": 4, "e": 5}),
        ({"kwargs": {"other": "e"}}, {"e": 5}),
        (("a", "b", "c", "d", "e"), {"a": 1, "b": 2, "c": 3}),
        ({"absent": "z", "x": "a"}, {"a": 1}),
    ],
)
def test_by_name_and_position(spec: Any, gives: dict[str, int]):
    assert values(call(spec, starred, T(1), T(2), T(3), key=T(4), other=T(5))) == gives


@pytest.mark.parametrize("spec", [("a", "b"), {"x": "a", "mask": "b"}])
def test_behind_a_function_that_hands_on(spec: Any):
    both = {"a": 1, "b": 2}
    assert values(call(spec, handed_on, T(1), T(2), behind=plain)) == both
    assert values(call(spec, handed_on, T(1), mask=T(2), behind=plain)) == both
    assert values(call(spec, handed_on, x=T(1), mask=T(2), behind=plain)) == both


@pytest.mark.parametrize(
    ("spec", "place", "says"),
    [
        ({"y": "a"}, "shapes['y']", "x, mask, n"),
        (("a", "b", "c", "d"), "shapes[3]", "one of the 3 that f takes by position: x, mask, n"),
        ({7: "a"}, "shapes[7]", "that f takes by position"),
        ({2.5: "a"}, "shapes[2.5]", "a name or a position"),
        ({"x": "a//2"}, "the dim `a`", "a size that is `a`"),
        ({"x": "a*b"}, "the dim `a`", "a size that is `a`"),
    ],
)
def test_specs_that_do_not_fit_the_function(spec: Any, place: str, says: str):
    with pytest.raises(BadShapeSpec) as caught:
        call(spec, plain, T(1))
    assert caught.value.place == place
    assert says in caught.value.expected


def test_unknown_names_behind_a_function_that_hands_on():
    with pytest.raises(BadShapeSpec, match="no parameter 'y'"):
        call({"y": "a"}, handed_on, T(1), behind=plain)


def test_what_is_absent_is_not_spoken_of():
    spec = Shapes({"x": "a 2*b", "mask": "b c"}, "b <= c", "a <= 5")
    found = call(spec, plain, T(1, 8))
    assert values(found) == {"a": 1, "b": 4}
    assert [relation.text for relation in found.relations] == ["a <= 5"]
