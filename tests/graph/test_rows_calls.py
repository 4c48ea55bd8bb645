"""Operators that native code calls the tensor library for: products, convolutions, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from tests.native.plans import watched


def check(function: Callable[..., Any], inputs: list[tuple[Any, ...]], *native: str) -> None:
    """As eager at all these inputs, with these operators in native code."""
    with torch.no_grad(), watched() as plans:
        compiled = anyshape.compile(function, dynamic=True)
        for given in inputs:
            for _ in range(2):
                torch.testing.assert_close(compiled(*given), function(*given))
    for plan in plans.made:
        assert not set(native) & plan.called.keys(), plan.called


CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", CONVOLUTIONS)
def test_convolutions(rank: int, groups: int):
    weight, bias = torch.randn(6, 4 // groups, *[3] * rank), torch.randn(6)

    def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        convolution = CONVOLUTIONS[rank]
        return convolution(x.relu(), weight, bias, stride=2, padding=1, groups=groups) + 1

    sizes = [(2, 8), (1, 5), (3, 1), (0, 4), (2, 9)]
    inputs = [(torch.randn(n, 4, *[s] * rank), weight, bias) for n, s in sizes]
    with anyshape.config.patch(specialize_int=True):  # the groups are an integer outside
        check(function, inputs, f"conv{rank}d")


def test_convolution_of_channels_last():
    weight = torch.randn(6, 4, 3, 3)
    images = [
        torch.randn(n, 4, s, s).to(memory_format=torch.channels_last) for n, s in [(2, 8), (3, 5)]
    ]
    check(lambda x, w: F.conv2d(x, w).relu(), [(image, weight) for image in images], "conv2d")


def _heads(batch: int, rows: int, columns: int, width: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(batch, 2, rows, width),
        torch.randn(batch, 2, columns, width),
        torch.randn(batch, 2, columns, width),
    )


SIZES = [(2, 5, 7), (1, 1, 1), (3, 4, 4), (2, 33, 17)]


@pytest.mark.parametrize("scale", [None, 0.5])
def test_attention(scale: float | None):
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q * 2, k, v, scale=scale).transpose(1, 2) + 1

    check(function, [_heads(*size) for size in SIZES], "scaled_dot_product_attention")


def test_causal_attention():
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    check(function, [_heads(b, n, n) for b, n, _ in SIZES], "scaled_dot_product_attention")


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_with_a_mask(kind: str):
    def function(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    inputs = []
    for batch, rows, columns in SIZES:
        mask = torch.rand(rows, columns) > 0.3
        mask[..., 0] = True
        inputs.append((*_heads(batch, rows, columns), mask if kind == "bool" else mask.float()))
    check(function, inputs, "scaled_dot_product_attention")


def test_attention_over_nothing():
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v) + 1

    check(function, [_heads(2, 3, 4), _heads(2, 3, 0), _heads(0, 3, 4), _heads(2, 0, 4)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products(dtype: torch.dtype):
    weight, bias = torch.randn(5, 8, dtype=dtype), torch.randn(5, dtype=dtype)

    def function(x: Tensor, w: Tensor, b: Tensor) -> Any:
        return F.linear(x, w, b).relu(), x @ w.t(), torch.matmul(x, x.transpose(-1, -2))

    sizes = [(3, 4), (1, 1), (0, 4), (3, 0), (2, 33)]
    check(function, [(torch.randn(*s, 8, dtype=dtype), weight, bias) for s in sizes], "linear")


def test_products_of_views():
    def function(x: Tensor) -> Tensor:
        heads = x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        return (heads @ heads.transpose(-1, -2)).softmax(-1) @ heads

    check(function, [(torch.randn(*s, 8),) for s in [(3, 4), (1, 1), (2, 17), (0, 3)]], "matmul")
