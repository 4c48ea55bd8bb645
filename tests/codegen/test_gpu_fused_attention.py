"""Attention that a program spells out, as one kernel for GPUs, emulated."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
import torch
import torch.nn.functional as F
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
from anyshape.graph.lowered import lowered
from anyshape.graph.materialize import Materialize
from tests.codegen import test_gpu_host
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


def _side(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _parts_of_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = torch.cat((q, k, v), -1).chunk(3, -1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


#: what is computed, and how many heads share one of keys and values
FEW_KEYS: Final[dict[str, tuple[Callable[..., Tensor], int]]] = {
    "plain": (F.scaled_dot_product_attention, 1),
    "causal": (partial(F.scaled_dot_product_attention, is_causal=True), 1),
    "a scale": (partial(F.scaled_dot_product_attention, scale=0.3), 1),
    "groups": (
        lambda q, k, v: F.scaled_dot_product_attention(
            q.view(-1, 4, q.shape[2], 16),
            *(each.view(-1, 2, each.shape[2], 16) for each in (k, v)),
            is_causal=True,
            enable_gqa=True,
        ),
        2,
    ),
    "repeated": (
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        ),
        2,
    ),
    "side by side": (
        lambda q, k, v: (
            F.scaled_dot_product_attention(_side(q), _side(k), _side(v)).transpose(1, 2) * 1
        ),
        1,
    ),
    "parts of rows": (_parts_of_rows, 1),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FEW_KEYS)
def test_few_keys(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of torch's, by a kernel of ours."""
    monkeypatch.setattr(test_gpu_host, "lowered", partial(lowered, few_keys=True))
    function, group = FEW_KEYS[name]
    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for batch, length in ((2, 5), (1, 17), (1, 1), (2, 70)):
            torch.manual_seed(length)
            q = torch.randn(batch, 4, length, 16, dtype=dtype)
            k, v = (torch.randn(batch, 4 // group, length, 16, dtype=dtype) for _ in range(2))
            want = function(*(each.double() for each in (q, k, v)))
            got = compiled(q, k, v)
            torch.testing.assert_close(got.double(), want, atol=3e-2, rtol=3e-2)
            eager = function(q, k, v)
            assert got.stride() == eager.stride() or got.is_contiguous()
    assert not backend.called
    assert _names(backend).count("kernel_tensor") == 3, "the first call is the program itself"


def test_queries_of_other_lengths_than_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_gpu_host, "lowered", partial(lowered, few_keys=True))
    backend = Backend()
    function = F.scaled_dot_product_attention
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows, columns in ((1, 30), (7, 3), (40, 65)):
            q = torch.randn(1, 2, rows, 24, dtype=torch.bfloat16)
            k, v = (torch.randn(1, 2, columns, 24, dtype=torch.bfloat16) for _ in range(2))
            want = function(q.double(), k.double(), v.double())
            torch.testing.assert_close(compiled(q, k, v).double(), want, atol=3e-2, rtol=3e-2)
    assert "kernel_tensor" in _names(backend)


@pytest.mark.parametrize("width", [8, 72, 256])
def test_few_keys_of_other_widths(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with what is not finite, which is where it is in torch's result."""
    monkeypatch.setattr(test_gpu_host, "lowered", partial(lowered, few_keys=True))
    function = partial(F.scaled_dot_product_attention, is_causal=True)
    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for length in (5, 19, 1):
            q, k, v = (torch.randn(1, 1, length, width, dtype=torch.bfloat16) for _ in range(3))
            if length == 19:
                k[0, 0, 7, 0], v[0, 0, 9, 1] = math.inf, math.nan
            want = function(q.float(), k.float(), v.float())
            got = compiled(q, k, v).float()
            torch.testing.assert_close(got, want, atol=3e-2, rtol=3e-2, equal_nan=True)
    assert _names(backend).count("kernel_tensor") == 2
