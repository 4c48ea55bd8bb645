"""Operators whose results torch lays out in one way or another, as attention is on GPUs: a graph
has the layout that capture saw, whatever torch chooses later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.capture.record import result_metas
from anyshape.ops.families import attention
from anyshape.ops.families.pinned_layout import dense_in_order


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a GPU. On the CPU, too, torch has two kernels, with layouts of their own."""
    monkeypatch.setattr(result_metas, "WITH_MANY_KERNELS", {"cpu"})
    yield
    torch.backends.cuda.enable_flash_sdp(True)


def _heads(batch: int, rows: int, grad: bool = False) -> list[Tensor]:
    return [torch.randn(batch, rows, 4, 16, requires_grad=grad).transpose(1, 2) for _ in range(3)]


def _by_strides(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong numbers if strides are not what they were said to be."""
    y = F.scaled_dot_product_attention(q, k, v)
    return torch.as_strided(y, y.shape, y.stride()) * 2


def _joined(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    y = F.scaled_dot_product_attention(q, k, v)
    return y.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1) + 1


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("function", [_by_strides, _joined])
def test_another_kernel(function, first: bool, grad: bool, backend: str) -> None:
    compiled: Any = anyshape.compile(function, dynamic=True, backend=backend)
    for number, (batch, rows) in enumerate(((2, 5), (3, 7), (1, 1), (2, 9))):
        torch.backends.cuda.enable_flash_sdp((number % 2 == 0) == first)
        tensors = _heads(batch, rows, grad)
        got, want = compiled(*tensors), function(*tensors)
        torch.testing.assert_close(got, want)
        if grad:
            for a, b in zip(
                torch.autograd.grad(got.sum(), tensors),
                torch.autograd.grad(want.sum(), tensors),
                strict=True,
            ):
                torch.testing.assert_close(a, b)
    # Sizes that `as_strided` is given are fixed.
    assert compiled.stats().graphs == (1 if function is _joined else 4)


def test_a_rule_that_guesses_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout is the real one, and sizes stay symbols."""
    monkeypatch.setattr(attention, "_is_fused", lambda *given: False)
    compiled = anyshape.compile(_joined, dynamic=True)
    for batch, rows in ((2, 5), (3, 7), (2, 9)):
        tensors = _heads(batch, rows)
        torch.testing.assert_close(compiled(*tensors), _joined(*tensors))
    assert compiled.stats().graphs == 1


def test_as_it_is_or_a_copy() -> None:
    x = torch.randn(2, 3, 4, 5).transpose(1, 2)
    same = dense_in_order(x, (0, 2, 1, 3))
    assert same.data_ptr() == x.data_ptr()
    other = dense_in_order(x, (0, 1, 2, 3))
    assert other.is_contiguous()
    torch.testing.assert_close(other, x)
    assert dense_in_order(x[:0], (3, 2, 1, 0)).shape == (0, 4, 3, 5)
