"""A float that changes is an input, and what a program asks of it is guarded by the answer: one
graph for each answer, not for each value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

VALUES = (0.25, 0.5, 0.75, -0.5, 0.0, -0.0, 1.0, 2.5, 1e9, math.inf, -math.inf, math.nan, 0.125)

QUESTIONS: dict[str, Callable[[float], object]] = {
    "is not 0": lambda x: x != 0,
    "is": lambda x: x == 0.5,
    "as a condition": lambda x: bool(x),
    "less": lambda x: x > 0.3,
    "at most an integer": lambda x: x <= 1,
    "between": lambda x: 0.1 < x < 0.6,
    "of what is left": lambda x: 1 - x > 0.5,
    "of a product": lambda x: x * 4 >= 3 or x * x > 5,
    "whole": lambda x: x.is_integer(),
    "negated": lambda x: not x and -x == 0,
    "not a number": lambda x: x != x,
    "of a root": lambda x: x > 0 and math.sqrt(x) > 0.8,
    "of a quotient": lambda x: x != 0 and 1 / x > 2,
    "with itself": lambda x: x * 2 > x + 0.4,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_as_eager_with_a_graph_for_each_answer(name: str) -> None:
    asked = QUESTIONS[name]

    def program(x: Tensor, number: float) -> Tensor:
        return x * number + 1 if asked(number) else x - number

    compiled = anyshape.compile(program)
    x = torch.arange(3.0)
    for number in (*VALUES, *VALUES[::-1]):
        found = compiled(x, number)
        torch.testing.assert_close(found, program(x, number), equal_nan=True)
    # The first graphs are of the values that they were made for, until these were seen to change.
    assert compiled.stats().graphs <= 8
    graphs = compiled.stats().graphs
    for step in range(20):
        torch.testing.assert_close(compiled(x, 1 / (step + 3)), program(x, 1 / (step + 3)))
    assert compiled.stats().graphs <= graphs + 2


def test_another_type_is_another_graph() -> None:
    def program(x: Tensor, number: Any) -> Tensor:
        return x * number if number > 0 else x + number

    compiled = anyshape.compile(program)
    x = torch.arange(3)
    for number in (0.5, 0.75, 0.25, 2, 3, True, -0.5, torch.tensor(0.5), 4, 0.125):
        found, wanted = compiled(x, number), program(x, number)
        assert found.dtype is wanted.dtype
        assert torch.equal(found, wanted)


def test_questions_about_two_floats() -> None:
    def program(x: Tensor, one: float, other: float) -> Tensor:
        return x * one if one < other else x * other + (1 if one != 0 else 2)

    compiled = anyshape.compile(program)
    x = torch.arange(3.0)
    pairs = [(a / 4, b / 4) for a in range(-2, 3) for b in range(-2, 3)]
    for one, other in pairs:
        torch.testing.assert_close(compiled(x, one, other), program(x, one, other))


def test_what_is_said_of_it() -> None:
    def program(x: Tensor, number: float) -> Tensor:
        return x * number if 1 - number > 0.25 else x

    compiled = anyshape.compile(program)
    for number in (0.125, 0.25, 0.5, 0.0625):
        compiled(torch.ones(2), number)
    compiled(torch.ones(2), 0.9)
    assert "(1 - L['number']) > 0.25" in str(compiled.explain())
