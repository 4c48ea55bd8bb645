"""Pooling that is asked for the places of its maxima, for unpooling: one graph for all sizes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape

SIZES = [(2, 9), (3, 8), (1, 12), (4, 17), (2, 6)]


class Pooled(nn.Module):
    def __init__(self, dims: int, adaptive: bool) -> None:
        super().__init__()
        self.layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1](2, 3, 1)
        kinds = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
        kinds_adaptive = (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)
        own = (kinds_adaptive if adaptive else kinds)[dims - 1]
        self.pool: Any = own(2, return_indices=True)
        self.back = (nn.MaxUnpool1d, nn.MaxUnpool2d, nn.MaxUnpool3d)[dims - 1](2)
        self.adaptive = adaptive

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x).tanh()
        top, places = self.pool(x)
        if self.adaptive:
            return top.exp() * 2 + places
        return self.back(top.exp(), places, output_size=x.shape) + x


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_one_graph_for_all_sizes(dims: int, adaptive: bool, grad: bool) -> None:
    # Of two maxima that are equal but for rounding, either place may be given.
    eager = Pooled(dims, adaptive).double()
    twin = copy.deepcopy(eager)
    compiled: Any = anyshape.compile(twin, dynamic=True)
    for n, size in SIZES:
        x = torch.randn(n, 2, *(size + k for k in range(dims)), dtype=torch.float64)
        with torch.set_grad_enabled(grad):
            results = eager(x), compiled(x)
        torch.testing.assert_close(results[1], results[0])
        if grad:
            for module, result in zip((eager, twin), results, strict=True):
                module.zero_grad()
                result.pow(2).mean().backward()
            for one, other in zip(eager.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-5)
    assert compiled.stats().graphs == 1
