"""Parameters where no gradients are recorded, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import anyshape
from tests.native.plans import watched

FUNCTIONS = [
    lambda p: p.float(),
    lambda p: p[..., None],
    lambda p: p[1:],
    lambda p: p[[0, 1]],
    lambda p: p.float()[None] * 2,
    lambda p: p[..., None] + 1,
    lambda p: p[p > 0],
    lambda p: (p[None].detach() * 2, p[None]),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("recording", [True, False])
def test_as_eager(function: Callable[..., Any], recording: bool) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 4, 5):
        p = nn.Parameter(torch.randn(size))
        with torch.set_grad_enabled(recording):
            wanted, found = function(p), compiled(p)
        for a, b in zip(tree_leaves(wanted), tree_leaves(found), strict=True):
            assert torch.equal(a, b)
            assert a.requires_grad == b.requires_grad
            assert (a.grad_fn is None) == (b.grad_fn is None)
            assert (a is p) == (b is p)
            assert (a._base is None) == (b._base is None)


def test_a_parameter_that_a_cast_hands_on_is_no_reason_to_run_eagerly() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (1.0 + self.weight.float()) + self.weight[..., None].sum()

    module = Scaled()
    compiled = anyshape.compile(module, dynamic=True)
    with watched() as plans, torch.no_grad():
        for size in (3, 5):
            x = torch.randn(size, 4)
            torch.testing.assert_close(compiled(x), module(x))
    assert plans.runs
    assert {"mul", "add"} <= plans.native
