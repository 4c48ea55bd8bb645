"""Under autocast, operators get tensors of one dtype, whatever the program gives them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import anyshape

LINEAR = torch.nn.Linear(8, 6)
CONVOLUTION = torch.nn.Conv1d(3, 5, 3)


def products(x: torch.Tensor, half: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = F.layer_norm(x, (8,)) @ half
    heads, others = x[None, None], x.to(torch.bfloat16)[None, None]
    return (
        torch.relu(y) * x.shape[0],
        F.linear(half, LINEAR.weight),
        torch.baddbmm(y[None], x[None], half[None]),
        F.scaled_dot_product_attention(heads, others, heads),
    )


def convolution(x: torch.Tensor, half: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.relu(CONVOLUTION(x.to(torch.bfloat16).view(-1, 1, 8).expand(-1, 3, 8))),)


@pytest.mark.parametrize("function", [products, convolution])
@pytest.mark.parametrize("grad", [False, True])
def test_mixed_dtypes_stay_dynamic(function, grad: bool):
    compiled: Any = anyshape.compile(function, dynamic=True)
    half = torch.rand(8, 8).to(torch.bfloat16)
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        for size in (5, 7, 1, 2, 33):
            x = torch.rand(size, 8)
            for ours, theirs in zip(compiled(x, half), function(x, half), strict=True):
                assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
                torch.testing.assert_close(ours, theirs)
    assert (compiled.stats().graphs, compiled.stats().eager_calls) == (1, 0)


def test_without_autocast_it_is_the_error_of_torch():
    compiled = anyshape.compile(lambda x, y: x @ y, dynamic=True)
    with pytest.raises(RuntimeError, match="dtype"):
        compiled(torch.rand(2, 2), torch.rand(2, 2).to(torch.bfloat16))
