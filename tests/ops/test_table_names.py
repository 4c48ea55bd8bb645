"""What the table says of a name agrees with what torch means by it."""

from __future__ import annotations

import operator
from importlib import import_module

import pytest
import torch

from anyshape.ops.table import ROWS, entries, resolve

_METHODS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "div",
]
IN_PLACE = {f"__i{name}__" for name in _METHODS} | {"__setitem__"}


@pytest.mark.parametrize(
    "name", sorted({name.rsplit(".", 1)[-1] for op in ROWS for name in op.in_place})
)
def test_in_place_forms_have_such_names(name: str):
    assert name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))


@pytest.mark.parametrize("function", [operator.invert, operator.neg, operator.abs, operator.pos])
def test_operators_of_one_operand_leave_it_alone(function: object):
    import anyshape

    compiled = anyshape.compile(lambda x: function(x) + 0, dynamic=True)  # pyright: ignore[reportCallIssue] an operator
    for size in (3, 4, 0, 1):
        x = torch.arange(size)
        assert torch.equal(compiled(x), function(x) + 0)  # pyright: ignore[reportCallIssue] an operator
        assert torch.equal(x, torch.arange(size))


def _walked(name: str) -> object:
    package, *parts = name.split(".")
    found: object = import_module(package)
    for part in parts:
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def test_names_are_found_as_python_finds_them():
    names = [name for op in ROWS for name in (*op.answers_to, *op.in_place)]
    found = {name: resolve(name) for name in names}
    assert found == {name: _walked(name) for name in names}
    # Also those that torch makes when they are first asked for.
    assert found["torch.ops.aten.upsample_nearest2d"] in entries()
    assert resolve("torch.nothing.add") is None
    assert resolve("torch.nn.functional.nothing") is None
