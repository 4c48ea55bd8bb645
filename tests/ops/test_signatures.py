"""A parameter of an operator is written once: in its signature, which is torch's."""

from __future__ import annotations

import ast
import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import anyshape.export.onnx.table
import anyshape.graph.lowering
from anyshape.ops.bind import asked_to_work_in_place, bind_match, works_in_place
from anyshape.ops.effects import written_by
from anyshape.ops.infer import How, infer
from anyshape.ops.meta import of_tensor
from anyshape.ops.op import NATIVE, ONNX, VIEWS, VIEWS_OF_EACH, WRITES, Op
from anyshape.ops.signature import Signature, Unbound, signature_of
from anyshape.ops.table import FAMILIES, lookup, resolve
from anyshape.ops.table import ROWS as OPERATORS
from anyshape.symbolic import Facts

#: By which a row knows that it is asked about another form of its operator.
_MERGED = {"inplace", "size_average", "reduce"}


def _operators(name: str) -> list[Op]:
    return [op for op in OPERATORS if op.name == name]


def _rows() -> list[Any]:
    tables = {
        "value": (NATIVE, 0),
        "view": (VIEWS, 1),
        "each": (VIEWS_OF_EACH, 1),
        "write": (WRITES, 1),
        "onnx": (ONNX, 1),
    }
    return [
        pytest.param(name, Signature.of_rule(row), own, id=f"{kind}-{name}")
        for kind, (table, own) in tables.items()
        for name, row in table.items()
    ]


@pytest.mark.parametrize(("name", "row", "own"), _rows())
def test_rows_take_the_arguments_of_the_signature(name: str, row: Signature, own: int) -> None:
    """A row has a default only for what some form of its operator is without."""
    assert _operators(name)
    known = [signature_of(op) for op in _operators(name)]
    for parameter in row.names[own:]:
        having = [each for each in known if parameter in each.names]
        assert having, f"no form of `{name}` has `{parameter}`"
        if parameter in row.defaults:
            assert len(having) < len(known), f"`{name}` has a default for `{parameter}`, too"
            for each in having:
                assert each.defaults[parameter] == row.defaults[parameter]
        else:
            assert len(having) == len(known), f"a form of `{name}` is without `{parameter}`"


def _functional() -> list[Any]:
    found = []
    for op in OPERATORS:
        for name in op.answers_to:
            function = resolve(name)
            match = None if function is None else lookup(function)
            if not inspect.isfunction(function) or match is None or match.op is not op:
                continue
            if op.signature is not None and function.__module__ == F.__name__:
                found.append(pytest.param(op, function, id=name))
    return found


@pytest.mark.parametrize(("op", "function"), _functional())
def test_written_signatures_are_those_of_torch(op: Op, function: Any) -> None:
    """Where torch has the function in Python, it tells itself what it takes."""
    theirs = inspect.signature(function).parameters
    mine = signature_of(op)
    assert list(mine.names) == list(theirs)
    for name, parameter in theirs.items():
        default = mine.defaults.get(name, parameter.empty)
        assert default == parameter.default or math.isclose(default, parameter.default)


def test_every_function_with_a_flag_is_known_by_it() -> None:
    """Also positionally: what writes to its argument may never be taken for what does not."""
    seen = 0
    for name, function in vars(F).items():
        if not inspect.isfunction(function) or name.startswith("__"):
            continue
        parameters = list(inspect.signature(function).parameters)
        if "inplace" not in parameters or function.__module__ != F.__name__:
            continue
        match = lookup(function)
        if match is None:
            continue
        seen += 1
        place = parameters.index("inplace")
        required = [0.5] * (place - 1)
        assert signature_of(match.op).names.index("inplace") == place, name
        assert works_in_place(function, ("x", *required, True), {}), name
        assert works_in_place(function, ("x", *required), {"inplace": True}), name
        assert not works_in_place(function, ("x", *required), {}), name
        assert asked_to_work_in_place(function, ("x", *required, False), {}) is None, name
    assert seen >= 15


def test_functions_with_a_flag_that_no_row_knows() -> None:
    """They are called by torch, and what they may write to is told from their schema or not at
    all: none is without a row."""
    missing = [
        name
        for name, function in vars(F).items()
        if inspect.isfunction(function)
        and function.__module__ == F.__name__
        and "inplace" in inspect.signature(function).parameters
        and lookup(function) is None
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "wanted"),
    [
        (torch.sum, ("x",), {"axis": 1}, {"input": "x", "dim": 1, "keepdim": False}),
        (torch.sum, (), {"input": "x", "dim": 1, "keepdims": True}, {"dim": 1, "keepdim": True}),
        (torch.Tensor.permute, ("x", 1, 0), {}, {"dims": (1, 0)}),
        (torch.Tensor.permute, ("x", (1, 0)), {}, {"dims": (1, 0)}),
        (torch.Tensor.permute, ("x",), {"dims": [1, 0]}, {"dims": (1, 0)}),
        (torch.permute, ("x", [1, 0]), {}, {"dims": (1, 0)}),
        (torch.linalg.vector_norm, (), {"x": "x", "ord": 1}, {"input": "x", "ord": 1}),
        (torch.linalg.norm, (), {"A": "x"}, {"input": "x", "ord": None}),
        (F.softplus, ("x", 2), {}, {"beta": 2, "threshold": 20.0}),
        (F.elu, ("x",), {"alpha": 2.0}, {"alpha": 2.0}),
        (F.mse_loss, ("x", "y"), {}, {"reduction": "mean"}),
        (F.mse_loss, ("x", "y", False), {}, {"reduction": "sum"}),
        (F.mse_loss, ("x", "y", None, False), {"reduction": "mean"}, {"reduction": "none"}),
        (torch.kl_div, ("x", "y", 2), {}, {"reduction": "sum", "log_target": False}),
        (torch.mm, ("x",), {"mat2": "y"}, {"mat2": "y", "out_dtype": None}),
        (torch.rsub, ("x", "y"), {"alpha": 3}, {"other": "y", "alpha": 3}),
    ],
)
def test_every_spelling_of_a_call_binds_alike(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], wanted: dict[str, Any]
) -> None:
    match = lookup(function)
    assert match is not None
    call = bind_match(match, args, kwargs)
    assert {name: call.arguments[name] for name in wanted} == wanted
    assert not {"out", *_MERGED} & call.arguments.keys()


def test_a_largest_norm_of_zero_is_one() -> None:
    match = lookup(F.embedding)
    assert match is not None
    assert written_by(match, ("ids", "table"), {"max_norm": 0.0}) == {"weight": "table"}
    assert written_by(match, ("ids", "table"), {}) == {}
    match = lookup(F.batch_norm)
    assert match is not None
    assert written_by(match, ("x", "mean", "var"), {}) == {}
    written = {"running_mean": "mean", "running_var": "var"}
    assert written_by(match, ("x", "mean", "var"), {"training": True}) == written


def test_out_and_what_does_not_fit() -> None:
    match = lookup(torch.exp)
    assert match is not None
    assert bind_match(match, ("x",), {"out": "y"}).out == "y"
    with pytest.raises(Unbound, match="unexpected keyword"):
        bind_match(match, ("x",), {"beta": 1})


@pytest.mark.parametrize(
    ("function", "kwargs"),
    [(torch.linalg.vector_norm, {"x": 0}), (torch.linalg.vecdot, {"x": 0, "y": 1})],
)
def test_rules_take_torch_names(function: Any, kwargs: dict[str, int]) -> None:
    tensors = [torch.ones(3, 4), torch.ones(3, 4)]
    given = {name: of_tensor(tensors[number]) for name, number in kwargs.items()}
    found = infer(Facts(), function, (), given)
    assert found.how is How.RULE
    expected = function(**{name: tensors[number] for name, number in kwargs.items()})
    assert found.value.shape == tuple(expected.shape)


@pytest.mark.parametrize("module", [anyshape.graph.lowering, anyshape.export.onnx.table])
def test_no_mistake_of_a_row_is_taken_for_a_call_that_does_not_fit(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    caught = [
        ast.unparse(node.type)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
    ]
    assert "Unbound" in caught
    assert "TypeError" not in caught


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rpartition(".")[2])
def test_all_that_is_known_of_an_operator_is_in_one_file(family: Any) -> None:
    """Names that a family makes of others are not looked at."""
    own = {op.name for op in family.ROWS}
    for node in ast.walk(ast.parse(Path(family.__file__).read_text())):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        given: list[Any] = node.args if isinstance(node, ast.Call) and called in FACETS else []
        if called == "onnx_rows":
            given = getattr(node.args[0], "keys", [])  # pyright: ignore[reportAttributeAccessIssue]
        assert {each.value for each in given if isinstance(each, ast.Constant)} <= own


FACETS = ("lower", "lower_view", "lower_views", "lower_in_place", "onnx")
