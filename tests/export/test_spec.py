"""Forms of specs, and what is said of those that are wrong."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape import Dim, Shapes, ShapesCollection
from anyshape.errors import (
    BadOption,
    BadShapeSpec,
    CannotExport,
    ConstraintViolation,
    ExportInputError,
)


def ones(*sizes: int) -> Tensor:
    return torch.ones(sizes)


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def of_tree(tree: dict[str, Any]) -> Tensor:
    return tree["a"][0] + tree["b"][1]


@dataclass
class Point:
    left: Tensor
    right: Tensor


@dataclass(slots=True)
class Slotted:
    left: Tensor
    right: Tensor


def of_point(point: Point | Slotted) -> Tensor:
    return point.left * point.right


Both = namedtuple("Both", ["first", "second"])


def of_both(both: Both) -> Tensor:
    return both[0] - both[1]


def starred(x: Tensor, *more: Tensor, **named: Tensor) -> Tensor:
    return x + more[0] + named["z"]


def with_integer(x: Tensor, count: int, flag: bool = False) -> Tensor:
    return x[:count] if flag else x * count


n = Dim("n", max=50)
FORMS: list[tuple[Any, Any, Any, Any]] = [
    (add, lambda s: (ones(s), ones(s)), {}, {"x": (n,), "y": (n,)}),
    (add, lambda s: (ones(s), ones(s)), {}, {"y": {0: n}, "x": {0: n}}),
    (add, lambda s: (ones(s), ones(s)), {}, [(n,), [n]]),
    (add, lambda s: (ones(s), ones(s)), {}, {0: (n,), 1: (n,)}),
    (add, lambda s: (ones(s), ones(s)), {}, {"x": {-1: n}, "y": "n"}),
    (add, lambda s: (ones(s, 3), ones(s, 3)), {}, {"x": "n ...", "y": ("n", None)}),
    (
        of_tree,
        lambda s: ({"a": [ones(s)], "b": (3, ones(s))},),
        {},
        {"tree": {"a": [(n,)], "b": (None, (n,))}},
    ),
    (
        of_tree,
        lambda s: ({"a": [ones(s)], "b": (3, ones(s))},),
        {},
        ({"a": {0: {0: n}}, "b": {1: (Dim.AUTO,)}},),
    ),
    (of_point, lambda s: (Point(ones(s), ones(s)),), {}, {"point": {"left": (n,), "right": (n,)}}),
    (of_point, lambda s: (Point(ones(s), ones(s)),), {}, {"point": ((n,), (n,))}),
    (of_point, lambda s: (Point(ones(s), ones(s)),), {}, (Point((n,), "n"),)),  # pyright: ignore[reportArgumentType] a spec in the form of the argument
    (of_point, lambda s: (Point(ones(s), ones(s)),), {}, {"point": Dim.AUTO}),
    (of_point, lambda s: (Slotted(ones(s), ones(s)),), {}, {"point": {"left": (n,), "right": "n"}}),
    (of_tree, lambda s: ({"a": [ones(s)], "b": (3, ones(s))},), {}, {"tree": Dim.AUTO}),
    (of_both, lambda s: (Both(ones(s), ones(s)),), {}, {"both": {"first": (n,), "second": (n,)}}),
    (of_both, lambda s: (Both(ones(s), ones(s)),), {}, {"both": ((n,), (n,))}),
    (
        starred,
        lambda s: (ones(s), ones(s)),
        {"z": ones},
        {"x": (n,), "more": ((n,),), "named": {"z": (n,)}},
    ),
    (starred, lambda s: (ones(s), ones(s)), {"z": ones}, {"x": (n,), 1: (n,), "z": (n,)}),
    (starred, lambda s: (ones(s), ones(s)), {"z": ones}, {"x": (n,), 1: Dim.AUTO, "z": Dim.AUTO}),
    (with_integer, lambda s: (ones(4), s), {}, {"count": n}),
    (with_integer, lambda s: (ones(4), s), {}, {"count": Dim.AUTO}),
]


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "spec"),
    FORMS,
    ids=[f"{index}-{row[0].__name__}" for index, row in enumerate(FORMS)],
)
def test_forms(function: Any, args: Any, kwargs: dict[str, Any], spec: Any):
    def call(size: int) -> tuple[Any, dict[str, Any]]:
        return args(size), {name: make(size) for name, make in kwargs.items()}

    exported = anyshape.export(function, *call(5), dynamic_shapes=spec)
    assert len(exported.symbols) == 1
    for size in (0, 1, 2, 7, 50):
        given, named = call(size)
        torch.testing.assert_close(exported(*given, **named), function(*given, **named))


def test_by_tensor():
    x, y = torch.randn(5), torch.randn(5)
    shapes = ShapesCollection()
    shapes[x] = {0: n}
    shapes[y] = (n,)
    exported = anyshape.export(of_tree, ({"a": [x], "b": (1, y)},), dynamic_shapes=shapes)
    assert exported.symbols["n"].places == ("tree['a'][0].shape[0]", "tree['b'][1].shape[0]")
    slotted = ShapesCollection()
    slotted[x], slotted[y] = (n,), (n,)
    assert len(anyshape.export(of_point, (Slotted(x, y),), dynamic_shapes=slotted).symbols) == 1
    shapes[torch.randn(3)] = (n,)
    with pytest.raises(BadShapeSpec, match="a tensor of sizes \\[3\\] that is no argument"):
        anyshape.export(of_tree, ({"a": [x], "b": (1, y)},), dynamic_shapes=shapes)


def test_what_differs_between_examples_is_dynamic():
    calls = [(ones(3, 4), ones(3, 4)), (ones(5, 4), ones(5, 4))]
    exported = anyshape.export(add, example_inputs=calls)
    assert exported.symbols["s0"].places == ("x.shape[0]", "y.shape[0]")
    exported(ones(9, 4), ones(9, 4))
    with pytest.raises(ExportInputError, match="static: 4"):
        exported(ones(9, 5), ones(9, 5))
    slotted = [Slotted(ones(3), ones(3)), Slotted(ones(4), ones(4))]
    assert len(anyshape.export(of_point, example_inputs=slotted).symbols) == 1
    named = [{"x": ones(3), "count": 2}, ((), {"x": ones(4), "count": 3})]
    assert len(anyshape.export(with_integer, example_inputs=named).symbols) == 2
    with pytest.raises(BadShapeSpec, match=r"example_inputs, at x: sizes \[3\] and \[3, 1\]"):
        anyshape.export(add, example_inputs=[(ones(3), ones(3)), (ones(3, 1), ones(3))])


@pytest.mark.parametrize(
    ("function", "calls", "says"),
    [
        (add, [(ones(3), ones(3)), (ones(4).double(), ones(4))], "x is of torch.float64"),
        (with_integer, [(ones(3), 2, True), (ones(4), 2, False)], "flag is False"),
        (lambda x: x.view(2, -1), [(ones(4),), (ones(6),), (ones(3),)], r"s0 % 2 == 0"),
    ],
)
def test_an_example_that_the_artifact_will_not_take_is_said(function: Any, calls: Any, says: str):
    with pytest.warns(UserWarning, match=says):
        exported = anyshape.export(function, example_inputs=calls)
    assert f"example_inputs[{len(calls) - 1}] will be refused" in exported.notes[0]
    with pytest.raises(ExportInputError, match=says):
        exported(*calls[-1])


def test_examples_of_other_structure():
    calls = [({"a": [ones(3)], "b": (1, ones(3))},), ({"a": [ones(3)] * 2, "b": (1, ones(3))},)]
    for each in (calls, calls[::-1]):
        with pytest.raises(BadShapeSpec, match=r"tree\['a'\]\[1\]: it is there in one"):
            anyshape.export(of_tree, example_inputs=each)


def test_examples_and_a_spec():
    calls = [(ones(3, 4), ones(3, 4)), (ones(5, 4), ones(5, 4))]
    exported = anyshape.export(
        add, example_inputs=calls, dynamic_shapes={"x": {0: Dim("b", max=9)}}
    )
    assert exported.symbols["b"].range.upper == 9


WRONG: list[tuple[Any, tuple[str, ...]]] = [
    ({"z": (n,)}, ("dynamic_shapes['z']", "has no argument 'z'", "x, y")),
    (((n,), (n,), (n,)), ("dynamic_shapes[2]", "argument 2", "x, y")),
    ({"x": (n, None), "y": (n,)}, ("dynamic_shapes['x']", "1 dimensions", "expects 2")),
    ({"x": {3: n}, "y": (n,)}, ("dynamic_shapes['x'][3]", "1 dimensions")),
    ({"x": n}, ("dynamic_shapes['x']", "the sizes of a tensor are a tuple")),
    ({"x": (3.5,)}, ("dynamic_shapes['x'][0]", "3.5")),
    ({"x": [["a"]]}, ("dynamic_shapes['x']", "a container")),
    ({"x": ("2*",)}, ("dynamic_shapes['x'][0]", "2*")),
    ({"x": (n == 3,)}, ("dynamic_shapes['x'][0]", "relation")),
    ({("x",): (n,)}, ("dynamic_shapes[('x',)]", "a name or a position")),
    ({"x": (Dim("n", max=9),), "y": (Dim("n", max=8),)}, ("the dim `n`", "two ranges")),
    ("n", ("dynamic_shapes", "for the whole function")),
    ({"x": (n,), 0: (n,)}, ("dynamic_shapes[0]", "x is spoken of again")),
    ({"x": {0: n, -1: n}}, ("dynamic_shapes['x'][-1]", "dimension -1 of x again")),
    ({-1: (n,)}, ("dynamic_shapes[-1]", "argument -1")),
]


@pytest.mark.parametrize(("spec", "says"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_specs_say_where(spec: Any, says: tuple[str, ...]):
    with pytest.raises(BadShapeSpec) as caught:
        anyshape.export(add, (ones(3), ones(3)), dynamic_shapes=spec)
    for words in says:
        assert words in str(caught.value)


def test_a_dim_on_what_has_no_size():
    with pytest.raises(BadShapeSpec, match=r"flag is a bool"):
        anyshape.export(with_integer, (ones(3), 2, True), dynamic_shapes={"flag": n})
    with pytest.raises(BadShapeSpec, match=r"no key 'c'.*it has 'a', 'b'"):
        anyshape.export(
            of_tree, ({"a": [ones(1)], "b": (1, ones(1))},), dynamic_shapes={"tree": {"c": (n,)}}
        )


def test_positions_of_a_star_are_counted():
    with pytest.raises(BadShapeSpec, match=r"argument 3\n.*x, 2 of \*more"):
        anyshape.export(starred, (ones(1),) * 3, {"z": ones(1)}, dynamic_shapes=(None,) * 4)


def test_fields_of_a_dataclass_are_counted():
    with pytest.raises(BadShapeSpec, match=r"point has 2 fields \(left, right\)"):
        anyshape.export(of_point, (Point(ones(1), ones(1)),), dynamic_shapes=(((n,),),))


@pytest.mark.parametrize(
    "given",
    [
        {"args": ones(3)},
        {"args": 3},
        {"kwargs": [1]},
        {"kwargs": {1: 2}},
        {"example_inputs": 5},
        {"example_inputs": {"x": 3}},
    ],
)
def test_calls_of_no_known_form(given: dict[str, Any]):
    (option,) = given
    with pytest.raises(BadOption, match=f"{option}="):
        anyshape.export(add, **given)


def test_arguments_that_do_not_fit_the_program():
    with pytest.raises(CannotExport, match="missing a required argument: 'y'"):
        anyshape.export(add, (ones(3),))


def total(x: Tensor, y: Tensor) -> Tensor:
    return x.sum() + y.sum()


small = Dim("small", min=5, max=9)


@pytest.mark.parametrize(
    ("function", "spec", "says", "code"),
    [
        (add, {"x": (n,), "y": (n,)}, "x.shape[0] is 60, where n <= 50 is", "max=60"),
        (total, {"x": (small,), "y": "m"}, "x.shape[0] is 60, where 5 <= small", "min=5, max=60"),
        (total, {"x": "m", "y": ("2*m",)}, "y.shape[0] is 60, where 2*m is 120", "{0: y_0}"),
        (total, {"x": (5,), "y": "m"}, "x.shape[0] is 60, where the contract has 5", "{0: 60}"),
    ],
)
def test_an_example_outside_of_its_own_spec(function: Any, spec: Any, says: str, code: str):
    args = ones(60), ones(60)
    with pytest.raises(ConstraintViolation) as caught:
        anyshape.export(function, args, dynamic_shapes=spec)
    assert f"in the example, {says}" in str(caught.value)
    assert code in str(caught.value.suggested)
    anyshape.export(function, args, dynamic_shapes=caught.value.suggested)


@pytest.mark.parametrize(
    ("spec", "says", "code"),
    [
        ({"x": ("b", 8 * Dim("k"))}, "`(8*k) >= 5` is needed", "k = Dim('k', min=1)"),
        ({"x": ("b", "4*k")}, "`(4*k) >= 5` is needed", "k = Dim('k', min=2)"),
        ({"x": ("b", "2*k + 4")}, "`(2*k + 4) >= 5` is needed", "k = Dim('k', min=1)"),
        ({"x": ("b", 8 * Dim("k", max=9))}, "(8*k) >= 5", "k = Dim('k', min=1, max=9)"),
        (Shapes({"x": "b 4*k"}, "b <= k"), "(4*k) >= 5", "'b <= k'"),
        # Its least size is not found: the size has a name of its own.
        ({"x": ("b", "k + 1")}, "`(k + 1) >= 5` is needed", "x_1 = Dim('x_1', min=5)"),
    ],
)
def test_sizes_that_follow_from_a_dim_keep_it(spec: Any, says: str, code: str):
    def largest(x: Tensor) -> Tensor:
        return x.topk(5)[0]

    with pytest.raises(ConstraintViolation) as caught:
        anyshape.export(largest, (ones(2, 16),), dynamic_shapes=spec)
    assert says in str(caught.value)
    suggested = caught.value.suggested
    assert code in str(suggested)
    pasted: dict[str, Any] = {"Dim": Dim, "Shapes": Shapes}
    exec(str(suggested), pasted)
    for each in (suggested, pasted["dynamic_shapes"]):
        exported = anyshape.export(largest, (ones(2, 16),), dynamic_shapes=each)
        x = torch.randn(2, 24)
        torch.testing.assert_close(exported(x), largest(x))
