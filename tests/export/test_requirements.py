"""What inputs must be: every fact of the program is checked, as a range or as a text."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape import Dim, Shapes
from anyshape.errors import ExportInputError


def ones(*sizes: int) -> Tensor:
    return torch.ones(sizes)


def by_computed_size(x: Tensor) -> Tensor:
    halves = x.reshape(2, -1)
    return halves * 2 if halves.shape[1] > 3 else halves + 1


def test_a_bound_of_a_computed_size_is_no_range_and_is_checked():
    exported = anyshape.export(by_computed_size, (ones(4, 2),), dynamic_shapes={"x": Dim.AUTO})
    assert "(s0*s1)//2 >= 4" in exported.constraints
    assert torch.equal(exported(ones(2, 5)), by_computed_size(ones(2, 5)))
    with pytest.raises(ExportInputError, match=r"`\(s0\*s1\)//2 >= 4` does not hold"):
        exported(ones(2, 2))


def by_sum(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 if x.shape[0] + y.shape[0] > 4 else x + 3


def test_a_fact_that_is_a_bound_once_another_size_is_fixed_narrows_the_range():
    a, b = Dim("a", min=1, max=13), Dim("b", min=1, max=1)
    spec = Shapes({"x": (a,), "y": (b,)}, a + b >= 5)
    exported = anyshape.export(by_sum, (ones(10), ones(1)), dynamic_shapes=spec)
    assert exported.symbols["a"].range == (4, 13)
    assert torch.equal(exported(ones(4), ones(1)), by_sum(ones(4), ones(1)))
    with pytest.raises(ExportInputError, match=r"x.shape\[0\] is 3, where a is in \[4, 13\]"):
        exported(ones(3), ones(1))


def test_a_negative_integer_is_no_size():
    def program(x: Tensor, count: int) -> Tensor:
        return x + 1 if count > -3 else x - 1

    exported = anyshape.export(program, (ones(2), 4), dynamic_shapes={"count": Dim.AUTO})
    for count in (-2, -1, 0, 7):
        assert torch.equal(exported(ones(2), count), program(ones(2), count))
    with pytest.raises(ExportInputError, match=r"count is -3"):
        exported(ones(2), -3)
