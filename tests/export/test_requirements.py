"""What inputs must be: every fact of the program is checked, as a range or as a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    with pytest.raises(ExportInputError, match=r"x.shape\[0\] is 3, where 4 <= a <= 13"):
        exported(ones(3), ones(1))


def up_to_ten(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 + y.shape[0] if x.shape[0] <= 10 else x


def test_a_relation_does_not_widen_what_was_declared():
    spec = Shapes({"x": (Dim("a", 2, 10),), "y": (Dim("b", 1, 20),)}, "(a + b + 2) % 3 == 0")
    exported = anyshape.export(up_to_ten, (ones(5), ones(5)), dynamic_shapes=spec)
    assert torch.equal(exported(ones(10), ones(3)), up_to_ten(ones(10), ones(3)))
    with pytest.raises(ExportInputError, match=r"x.shape\[0\] is 13, where 2 <= a <= 10"):
        exported(ones(13), ones(3))


def test_a_negative_integer_is_no_size():
    def program(x: Tensor, count: int) -> Tensor:
        return x + 1 if count > -3 else x - 1

    exported = anyshape.export(program, (ones(2), 4), dynamic_shapes={"count": Dim.AUTO})
    for count in (-2, -1, 0, 7):
        assert torch.equal(exported(ones(2), count), program(ones(2), count))
    with pytest.raises(ExportInputError, match=r"count is -3"):
        exported(ones(2), -3)


def takes_two(x: Tensor, y: Tensor) -> Tensor:
    return x * 2


d = Dim("d", min=2, max=10)


@pytest.mark.parametrize(
    ("spec", "right", "wrong"),
    [
        ({"x": (d,)}, (7, 3), [(6, 3), (7, 4)]),
        ({"x": (d,), "y": (2 * d + 1, None)}, (7, 3), [(6, 3), (7, 4)]),
        ({"y": (7, Dim.STATIC)}, (7, 3), [(6, 3), (7, 2)]),
        ({"x": (d,), "y": {1: d}}, (7, 3), [(6, 3), (7, 4)]),
        ({"x": (d,), "y": (d, Dim.AUTO)}, (3, 9), [(4, 9), (2, 3)]),
    ],
    ids=str,
)
def test_an_argument_that_is_not_looked_at_is_what_the_spec_says(
    spec: Any, right: tuple[int, ...], wrong: list[tuple[int, ...]]
):
    """What is not named is static, whether or not the program would mind."""
    exported = anyshape.export(takes_two, (ones(3), ones(*right)), dynamic_shapes=spec)
    exported(ones(3), ones(*right))
    for sizes in wrong:
        with pytest.raises(ExportInputError, match=r"y.shape"):
            exported(ones(3), ones(*sizes))
    with pytest.raises(ExportInputError, match=r"y is 'text', where a tensor is expected"):
        exported(ones(3), "text")


def test_a_derived_dim_is_shown_as_it_was_declared():
    spec = {"x": (d,), "y": (2 * d + 1, d // 2)}
    exported = anyshape.export(takes_two, (ones(3), ones(7, 1)), dynamic_shapes=spec)
    assert repr(exported).splitlines() == [
        "Exported takes_two(x: float32[d], y: tensor[2*d + 1, d//2])",
        "    d = x.shape[0], from 2 to 10",
        "    y.shape[0] = 2*d + 1",
        "    y.shape[1] = d//2",
    ]
    with pytest.raises(
        ExportInputError,
        match=r"y.shape\[0\] is 8, where 2\*d \+ 1 is 9, with d=4 \(x.shape\[0\]\)",
    ):
        exported(ones(4), ones(8, 2))
    with pytest.raises(ExportInputError, match=r"where \[2\*d \+ 1, d//2\] are expected"):
        exported(ones(4), ones(8))


def test_a_size_that_the_program_derives_is_shown_so():
    exported = anyshape.export(
        lambda x, y: x.repeat(2) + y, (ones(3), ones(6)), dynamic_shapes={"x": "n", "y": Dim.AUTO}
    )
    assert "y.shape[0] = 2*n" in exported.constraints


def with_named(x: Tensor, **named: Tensor) -> Tensor:
    return x + named["bias"]


def test_named_arguments_are_said_by_their_names():
    exported = anyshape.export(
        with_named, (ones(3, 2),), {"bias": ones(3, 2)}, dynamic_shapes={"x": "n 2", "bias": "n 2"}
    )
    assert repr(exported).splitlines() == [
        "Exported with_named(x: float32[n, 2], bias: float32[n, 2])",
        "    n = x.shape[0] = bias.shape[0], any",
    ]
    with pytest.raises(ExportInputError, match=r"bias is missing, other is not expected"):
        exported(ones(3, 2), other=ones(3, 2))
    with pytest.raises(ExportInputError, match=r"for: bias.shape\[0\] is 4, where n is 3"):
        exported(ones(3, 2), bias=ones(4, 2))
    # In another order of memory: a copy is taken.
    assert torch.equal(exported(ones(2, 2), bias=ones(2, 2).t()), ones(2, 2) * 2)


@dataclass(slots=True)
class Slotted:
    kept: Tensor


def test_what_is_kept_in_slots_is_not_changed_by_an_export():
    given = Slotted(ones(3))
    anyshape.export(lambda x: x.kept.add_(1), (given,))
    assert torch.equal(given.kept, ones(3))


def scaled(x: Tensor, scale: float, sizes: tuple[int, ...]) -> Tensor:
    return torch.atan2(x * 0, x * scale) + len(sizes)


def test_numbers_are_compared_as_guards_do():
    """`-0.0 == 0.0` and `True == 1`, and programs tell them apart."""
    exported = anyshape.export(scaled, (ones(3), 0.0, (1, 2)))
    assert torch.equal(exported(ones(3), 0.0, (1, 2)), scaled(ones(3), 0.0, (1, 2)))
    with pytest.raises(ExportInputError, match=r"scale is -0.0, where it is static: 0.0"):
        exported(ones(3), -0.0, (1, 2))
