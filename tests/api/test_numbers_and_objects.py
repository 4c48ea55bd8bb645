"""Operators between sizes and objects of the program whose class has operators of its own: its code
runs as often as in eager, and what it reads is guarded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

LOG: list[str] = []


class Operators:
    """Has every operator on both sides, and says what it was asked."""

    weight: int = 1

    def __add__(self, other: Any) -> Any: return self.told("add")  # fmt: skip

    def __radd__(self, other: Any) -> Any: return self.told("radd")  # fmt: skip

    def __mul__(self, other: Any) -> Any: return self.told("mul")  # fmt: skip

    def __rmul__(self, other: Any) -> Any: return self.told("rmul")  # fmt: skip

    def __pow__(self, other: Any) -> Any: return self.told("pow")  # fmt: skip

    def __rpow__(self, other: Any) -> Any: return self.told("rpow")  # fmt: skip

    def __and__(self, other: Any) -> Any: return self.told("and")  # fmt: skip

    def __rand__(self, other: Any) -> Any: return self.told("rand")  # fmt: skip

    def __matmul__(self, other: Any) -> Any: return self.told("matmul")  # fmt: skip

    def __rmatmul__(self, other: Any) -> Any: return self.told("rmatmul")  # fmt: skip

    def __lt__(self, other: Any) -> bool: return self.told("lt") > 12  # fmt: skip

    def __gt__(self, other: Any) -> bool: return self.told("gt") > 12  # fmt: skip

    def __eq__(self, other: object) -> bool: return self.told("eq") > 12  # fmt: skip

    def __hash__(self) -> int: return 1  # fmt: skip

    def told(self, what: str) -> int:
        LOG.append(what)
        return self.weight * 10 + len(what)


class Integer(Operators, int):
    """An integer, which Python asks before a plain one."""


class Real(Operators, float):
    """The same of a float."""


class Declines:
    """Leaves the operator to the other operand, in one direction."""

    weight = 1

    def __add__(self, other: Any) -> Any:
        return NotImplemented

    def __radd__(self, other: Any) -> Any:
        LOG.append("radd")
        return self.weight

    def __lt__(self, other: Any) -> Any:
        return NotImplemented


def _in_place(a: Any, b: Any) -> Any:
    a += b
    return a


OBJECTS: dict[str, Callable[[], Any]] = {
    "an object": Operators,
    "an integer": lambda: Integer(2),
    "a float": lambda: Real(2),
    "one that declines": Declines,
}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "**": lambda a, b: a**b,
    "&": lambda a, b: a & b,
    "@": lambda a, b: a @ b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "+=": _in_place,
    "operator.add": lambda a, b: operator.add(a, b),
    "sum": lambda a, b: sum([a, b]),
    "max": lambda a, b: type(max(a, b)).__name__,
    "in": lambda a, b: a in [b],
    "sorted": lambda a, b: len(sorted([a, b])),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kind", OBJECTS)
def test_operators_are_eagers(kind: str, name: str) -> None:
    thing = OBJECTS[kind]()

    def program(x: Tensor, is_left: bool, number: Any) -> Any:
        size = x.size(0) if number is None else number
        try:
            found = OPERATORS[name](size, thing) if is_left else OPERATORS[name](thing, size)
        except TypeError:
            found = "not supported"
        return x * 2, found

    def outcome(function: Callable[..., Any], *args: Any) -> Any:
        LOG.clear()
        return function(torch.ones(3), *args)[1], list(LOG)

    compiled = anyshape.compile(program, dynamic=True, backend="eager")
    for is_left in (False, True):
        for number in (None, 2.5):
            for weight in (1, 1, 2, 2):
                type(thing).weight = weight
                args = (is_left, number)
                assert outcome(compiled, *args) == outcome(program, *args), (*args, weight)
    type(thing).weight = 1
