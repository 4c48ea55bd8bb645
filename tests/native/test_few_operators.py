"""Graphs with gradients of few operators: native where that pays, and right on both sides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape

Program = Callable[[Tensor, Tensor], Tensor]

#: with how many elements native code runs; None: with none
PROGRAMS: dict[str, tuple[Program, int | None]] = {
    "one": (lambda x, w: x * w, None),
    "two": (lambda x, w: (x * w).softmax(-1), 1 << 14),
    "three": (lambda x, w: ((x - w) ** 2).mean(), 1 << 11),
    "four": (lambda x, w: ((x - w) ** 2).mean().exp(), 0),
    "one that torch does in several": (lambda x, w: F.gelu(x + w), 0),
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    anyshape.reset()


def _gradients(program: Program, x: Tensor, w: Tensor) -> tuple[list[Tensor], bool]:
    """What it gives, and whether that was native."""
    x, w = (each.detach().clone().requires_grad_() for each in (x, w))
    found = program(x, w)
    grads = torch.autograd.grad(found, (x, w), torch.ones_like(found))
    return [found, *grads], type(found.grad_fn).__name__ == "CompiledBackward"


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_from_where_it_pays(name: str) -> None:
    program, least = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True)
    _gradients(compiled, torch.randn(3, 64), torch.randn(64))  # which is the capture
    for rows in (3, 1, 31, 32, 33, 255, 256, 257, 0):
        x, w = torch.randn(rows, 64), torch.randn(64)
        (found, is_native), (expected, _) = (_gradients(each, x, w) for each in (compiled, program))
        torch.testing.assert_close(found, expected, equal_nan=True)
        assert is_native == (least is not None and x.numel() >= least), rows
    said = str(compiled.explain())
    assert (f"unless a tensor has {least} elements" in said) == bool(least)
    assert compiled.stats().graphs == 1
