"""Attention that a program spells out, as one kernel for GPUs, emulated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import (
    AuxOutput,
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
)

import anyshape
from anyshape.graph import fused_attention
from anyshape.graph.materialize import Materialize
from tests.codegen.test_gpu_host import Backend

#: Eager's own is what results are compared with.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")
HEADS: Final = 2
slopes = torch.linspace(0.1, 1.0, HEADS)


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Materialize, "on_gpu", property(lambda self: True))


def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + slopes[h] * (k - q)


def _flex(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask) -> Tensor:
    return flex_attention(q, k, v, alibi, mask)


def _rows(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask) -> Any:
    aux = AuxRequest(lse=True)
    return _flat(flex_attention(q, k, v, block_mask=mask, return_aux=aux))


def _flat(made: tuple[Tensor, AuxOutput]) -> tuple[Tensor | None, ...]:
    result, rows = made
    return result, rows.lse


def _grouped(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask) -> Tensor:
    return flex_attention(q, k[:, :1], v[:, :1], block_mask=mask, enable_gqa=True)


def _by_hand(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def _side_by_side(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask) -> Tensor:
    """Heads of a position one behind the other."""
    q, k, v = (each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v))
    return flex_attention(q, k, v, block_mask=mask)


PROGRAMS: Final[tuple[Callable[..., Any], ...]] = (_flex, _rows, _grouped, _by_hand, _side_by_side)


def _inputs(length: int, dtype: torch.dtype, width: int) -> list[Any]:
    torch.manual_seed(length)
    heads = [torch.randn(1, HEADS, length, width).to(dtype) for _ in range(3)]
    return [*heads, create_block_mask(causal, None, None, length, length, device="cpu")]


def _names(backend: Backend) -> list[str]:
    return [each.name for gpu in backend.gpus for each in gpu.started]


def _check(
    function: Callable[..., Any], dtype: torch.dtype, width: int = 16
) -> tuple[Backend, list[str]]:
    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for length in (17, 40, 3):
            given = _inputs(length, dtype, width)
            want = function(*(each.double() for each in given[:3]), given[3])
            got = compiled(*given)
            close = 1e-5 if dtype == torch.float32 else 3e-2
            for a, b in zip(
                *(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True
            ):
                torch.testing.assert_close(a.double(), b, atol=close, rtol=close)
    assert compiled.stats().graphs == 1
    assert not backend.called, "products are part of the kernel"
    return backend, _names(backend)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_one_kernel(function: Callable[..., Any], dtype: torch.dtype) -> None:
    _, names = _check(function, dtype)
    assert ("kernel_tensor" if dtype == torch.bfloat16 else "kernel_plain") in names


def test_wide_heads_of_float32_are_products() -> None:
    _, names = _check(_by_hand, torch.float32, 136)
    assert not any("plain" in name or "tensor" in name for name in names)


def test_old_gpus_have_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_attention, "_has_tensor_cores", lambda device: False)
    _, names = _check(_by_hand, torch.float32)
    assert not any("plain" in name or "tensor" in name for name in names)


def test_heads_of_another_width_run_as_they_are() -> None:
    backend = Backend()
    compiled = anyshape.compile(_by_hand, dynamic=True, backend=backend)
    with torch.no_grad():
        for width in (16, 16, 8, 24):
            given = _inputs(20, torch.float32, width)
            torch.testing.assert_close(compiled(*given), _by_hand(*given))
