"""A size or an integer that changes, in a sequence or looked for in one, beside floats and flags.

Native code of a float, a flag or a complex number reads the digits of an integer on its right
without asking: what a sequence compares is compared by hooks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from operator import eq, ge, lt, ne

import pytest
import torch

import anyshape

Question = Callable[[int], object]

#: What is asked of an integer.
QUESTIONS: dict[str, Question] = {
    "in a tuple of floats": lambda n: n in (1.0, 4.0),
    "in a list of floats": lambda n: n in [1.0, 4.0],
    "in a deque of floats": lambda n: n in deque([1.0, 2.0]),
    "in flags": lambda n: n in (True, 9),
    "in complex numbers": lambda n: n in (1 + 0j,),
    "a pair in pairs": lambda n: (n, 1) in [(1.0, 1), (2.0, 1)],
    "tuples": lambda n: eq((1.0, 2), (n, 2)),
    "tuples that differ": lambda n: ne((1.0, 2), (n, 2)),
    "lists": lambda n: eq([True], [n]),
    "deques": lambda n: eq(deque([1.0]), deque([n])),
    "nested": lambda n: eq((2, [1.0]), (2, [n])),
    "an order of tuples": lambda n: lt((1.5, 3), (n, 2)),
    "an order of lists": lambda n: ge([True, 3], [n, 2]),
    "an order of deques": lambda n: lt(deque([1.5]), deque([n])),
    "the least pair": lambda n: min((n, 2), (1.5, 0))[1],
    "the first of sorted pairs": lambda n: sorted([(1.5, 0), (n, 2)])[0][1],
    "a deque that native code adds up": lambda n: math.fsum(deque([n, 0.5])) > 2,
    "a half of it": lambda n: eq((1 + 0j, 3), (n * 0.5, 3)),
}


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("name", QUESTIONS)
def test_as_eager(name: str, first: int) -> None:
    question = QUESTIONS[name]

    def program(x: torch.Tensor) -> torch.Tensor:
        asked = question(x.size(0))
        return x + 1 if asked else x - 1

    compiled = anyshape.compile(program, dynamic=True, backend="eager")
    for size in (first, 2, 1, 0, 4, 3):
        x = torch.ones(size)
        assert compiled(x).tolist() == program(x).tolist()


def test_one_graph_for_all_with_that_answer() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.size(0) in (1.0, 2.0) or eq((0.5, 7), (0.5, x.size(0))) else x - 1

    compiled = anyshape.compile(program, dynamic=True, backend="eager")
    for size in (3, 4, 30, 31):
        compiled(torch.ones(size))
    assert compiled.stats().graphs == 1
