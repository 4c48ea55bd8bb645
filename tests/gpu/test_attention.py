"""Attention with gradients on a GPU: eager's kernels, results, gradients and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import anyshape
from anyshape.backends.native import small_graphs
from tests.gpu.device import DEVICE, IS_GPU, needs_device, needs_gpu

pytestmark = needs_device

HEADS, WIDTH = 4, 32
FEATURES = HEADS * WIDTH
#: Of the largest element.
CLOSE = {torch.float32: 2e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
#: Batch and length; the first is the one that the graph is captured at.
SIZES = ((2, 17), (3, 64), (1, 1), (2, 33), (4, 1), (2, 17))


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    anyshape.reset()
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    with anyshape.config.patch(profile=False, on_compile_error="raise", native_training=True):
        yield
    anyshape.reset()


def _weight(features: int = FEATURES) -> Tensor:
    torch.manual_seed(7)
    return (torch.randn(3 * features, features, device=DEVICE) / features**0.5).requires_grad_()


W = _weight() if torch.cuda.is_available() or not IS_GPU else torch.empty(0)


def _heads(x: Tensor, weight: Tensor, heads: int = HEADS) -> list[Tensor]:
    parts = F.linear(x, weight.to(x.dtype)).chunk(3, -1)
    return [each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in parts]


def _merged(y: Tensor) -> Tensor:
    return y.transpose(1, 2).flatten(2)


def _program(x: Tensor, kind: str, weight: Tensor) -> Tensor:
    rows = x.shape[1]
    for _ in range(2):
        q, k, v = _heads(x, weight)
        named: dict[str, Any] = {"is_causal": kind == "causal"}
        if kind == "in order":
            q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        elif kind == "groups":
            k, v = k[:, :2], v[:, :2]
            named["enable_gqa"] = True
        elif kind == "masked":
            at = torch.arange(rows, device=x.device)
            named["attn_mask"] = (at[:, None] * 3 + at) % 5 != 1
        elif kind == "causal mask":
            at = torch.arange(rows, device=x.device)
            named["attn_mask"] = at[:, None] >= at
        elif kind == "padded":
            named["attn_mask"] = (x.detach()[:, :, 0] > -1)[:, None, None, :].expand(
                -1, 1, rows, -1
            )
        elif kind == "added":
            named["attn_mask"] = x.detach()[:, None, :, :1] * torch.ones(
                rows, dtype=x.dtype, device=x.device
            )
        elif kind == "a mask with a gradient":
            named["attn_mask"] = x[:, None, :, :1] * torch.ones(
                rows, dtype=x.dtype, device=x.device
            )
        elif kind == "fewer queries":
            q = q[:, :, : (rows + 1) // 2]
        elif kind == "dropout":
            named["dropout_p"] = 0.3
        y = _merged(F.scaled_dot_product_attention(q, k, v, **named))
        x = x + y if kind != "fewer queries" else x + y.mean(1, keepdim=True)
    return x


KINDS = (
    *("plain", "in order", "causal", "groups", "masked", "causal mask", "padded", "added"),
    *("a mask with a gradient", "fewer queries", "dropout"),
)


def _gradients(
    call: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor, cast: bool = False
) -> list[Tensor]:
    x = x.detach().requires_grad_()
    torch.manual_seed(3)
    with torch.autocast(DEVICE, torch.bfloat16) if cast else nullcontext():
        result = call(x)
    factor = torch.linspace(-1, 1, max(result.numel(), 1), device=DEVICE)
    loss = (result * factor[: result.numel()].view(result.shape)).sum()
    return [result.detach(), *torch.autograd.grad(loss, [x, weight]), torch.rand(3, device=DEVICE)]


def _check(
    function: Callable[[Tensor], Tensor], compiled: Any, x: Tensor, weight: Tensor, cast: bool
) -> None:
    ours = _gradients(compiled, x, weight, cast)
    theirs = _gradients(function, x, weight, cast)
    for own, other in zip(ours, theirs, strict=True):
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        largest = float(other.abs().max()) if other.numel() else 0.0
        close = CLOSE[torch.bfloat16 if cast else x.dtype]
        torch.testing.assert_close(own, other, atol=close * largest, rtol=0)
    assert ours[0].stride() == theirs[0].stride()


DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", [*DTYPES, "autocast"], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_program(kind: str, dtype: Any) -> None:
    cast = dtype == "autocast"

    def function(x: Tensor) -> Tensor:
        return _program(x, kind, W)

    compiled = anyshape.compile(function, dynamic=True)
    # Of no batch, cuDNN's kernel for halves gives no tensor in eager code.
    for batch, rows in (*SIZES, *([(0, 5)] if dtype is torch.float32 else [])):
        x = torch.randn(batch, rows, FEATURES, device=DEVICE)
        _check(function, compiled, x if cast else x.to(dtype), W, cast)
    is_native = kind not in ("a mask with a gradient", "dropout") and IS_GPU
    said = str(compiled.explain())
    if is_native and (kind, dtype) != ("groups", torch.float32):
        assert "autograd does" not in said
    assert "no native code" not in said


@pytest.mark.parametrize("width", [8, 20, 40, 64, 128, 192, 256, 320])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_width(width: int, dtype: torch.dtype) -> None:
    """Those that torch pads, and those that not all of its kernels take."""
    weight = _weight(2 * width)

    def function(x: Tensor) -> Tensor:
        q, k, v = _heads(x, weight, 2)
        return x + _merged(F.scaled_dot_product_attention(q, k, v, is_causal=True))

    compiled = anyshape.compile(function, dynamic=True)
    for batch, rows in ((2, 17), (1, 1), (3, 40)):
        x = torch.randn(batch, rows, 2 * width, device=DEVICE).to(dtype)
        _check(function, compiled, x, weight, False)


@needs_gpu
@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"])
def test_kernels_that_are_allowed(backend: str) -> None:
    """Around calls, and other ones than before."""

    def function(x: Tensor) -> Tensor:
        return _program(x, "plain", W)

    compiled = anyshape.compile(function, dynamic=True)
    x = torch.randn(2, 17, FEATURES, device=DEVICE).bfloat16()
    for _ in range(2):
        _check(function, compiled, x, W, False)
        with sdpa_kernel(getattr(SDPBackend, backend)):
            _check(function, compiled, x, W, False)


@needs_gpu
def test_heads_that_are_given() -> None:
    """Tensors that begin anywhere."""

    def function(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(-1, (3, HEADS, -1)).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return _merged(F.scaled_dot_product_attention(q, k, v)).sin() * W.sum()

    compiled = anyshape.compile(function, dynamic=True)
    for dtype in (torch.bfloat16, torch.float32):
        for rows in (5, 9, 12):
            x = torch.randn(2, rows, 3 * FEATURES, device=DEVICE).to(dtype)
            _check(function, compiled, x, W, False)


@needs_gpu
def test_gradients_twice_and_of_some() -> None:
    def function(x: Tensor) -> Tensor:
        return _program(x, "plain", W)

    compiled = anyshape.compile(function, dynamic=True)
    for rows in (5, 9):
        found: list[list[Tensor]] = []
        for call in (compiled, function):
            x = torch.ones(2, rows, FEATURES, device=DEVICE, requires_grad=True)
            result = call(x).square().sum()
            first = torch.autograd.grad(result, x, retain_graph=True)
            found.append([*first, *torch.autograd.grad(result, [x, W])])
        for own, other in zip(*found, strict=True):
            torch.testing.assert_close(own, other, atol=2e-6 * float(other.abs().max()), rtol=0)
