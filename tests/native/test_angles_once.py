"""Sines and cosines of angles that several layers use are computed once: rotary embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

import anyshape
from tests.native.plans import watched

LAYERS = 4


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def _rotary(x: Tensor, frequencies: Tensor, weight: Tensor) -> Tensor:
    angles = torch.outer(torch.arange(x.shape[-2]).to(x.device), frequencies)
    angles = torch.cat((angles, angles), -1)
    cos, sin = angles.cos(), angles.sin()
    for _ in range(LAYERS):
        x = _turned(x @ weight, cos, sin)
    return x


def test_once() -> None:
    with watched() as plans, torch.no_grad():
        compiled = anyshape.compile(_rotary, dynamic=True)
        for batch, heads, length in ((2, 3, 5), (1, 3, 1), (4, 2, 40), (0, 1, 7)):
            x = torch.randn(batch, heads, length, 16)
            given = x, torch.rand(8), torch.randn(16, 16) / 4
            torch.testing.assert_close(compiled(*given), _rotary(*given))
    assert sum(text.count("cos(") for text in plans.kernels) == 1
    assert sum(text.count("sin(") for text in plans.kernels) == 1
