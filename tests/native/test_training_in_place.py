"""Writes in place by methods that anyshape has no row for are not taken for something else in a
gradient: what they overwrite has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import anyshape

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "of what was negated": lambda x: (-(x + 1)).fill_diagonal_(0.0),
    "of a product": lambda x: (x @ x.t()).fill_diagonal_(2.0, True).sin(),
    "of a view": lambda x: (-x.sin())[1:].fill_diagonal_(0.0) * 2,
    "and read through the whole": lambda x: _through_a_view(x),
}


def _through_a_view(x: Tensor) -> Tensor:
    y = -x.sin()
    y[:, 1:].fill_diagonal_(3.0)
    return y * x


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_are_eager(name: str, dynamic: bool | None) -> None:
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=dynamic)
    for rows in (3, 4, 5, 3, 2):
        x = torch.randn(rows, 4, dtype=torch.float64, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        found, expected = compiled(x), program(y)
        torch.testing.assert_close(found, expected)
        found.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
