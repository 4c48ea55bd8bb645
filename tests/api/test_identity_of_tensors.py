"""`is` between tensors that the program made: what an operation gives may be its argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape

#: Two tensors of one, and whether they can be one at some sizes.
PAIRS: dict[str, tuple[Callable[[Tensor], tuple[Any, Any]], bool]] = {
    "sums": (lambda x: (x + 1, x * 2), False),
    "a norm and its input": (lambda x: (F.layer_norm(x, x.shape[1:]), x), False),
    "products": (lambda x: (x @ x.mT, (x * 2) @ x.mT), False),
    "views": (lambda x: ((x + 1).mT, (x + 1)[:, None]), False),
    "made and given": (lambda x: (x + 1, x), False),
    "contiguous": (lambda x: _and(x.mT, lambda y: y.contiguous()), True),
    "contiguous of what is made": (lambda x: _and((x + 1).mT, lambda y: y.contiguous()), True),
    "a format": (
        lambda x: _and(
            (x + 1)[:, :, None, None], lambda y: y.to(memory_format=torch.channels_last)
        ),
        True,
    ),
    "contiguous in a format": (
        lambda x: _and(
            (x + 1)[None, :, :, None], lambda y: y.contiguous(memory_format=torch.channels_last)
        ),
        True,
    ),
    "another dtype": (lambda x: _and(x + 1, lambda y: y.to(torch.float64)), False),
    "a shape": (lambda x: _and(x + 1, lambda y: y.reshape(y.shape)), False),
    "flat": (lambda x: _and(x + 1, lambda y: y.flatten()), False),
    "stretched": (lambda x: _and(x + 1, lambda y: y.expand(y.shape)), False),
    "squeezed": (lambda x: _and(x + 1, lambda y: y.squeeze()), False),
    "padded": (lambda x: _and(x + 1, lambda y: F.pad(y, (0, y.shape[0] - 1))), True),
    "resized": (
        lambda x: _and(
            (x + 1)[None, None], lambda y: F.interpolate(y, size=(3, y.shape[3]), mode="nearest")
        ),
        True,
    ),
    "broadcast": (lambda x: tuple(torch.broadcast_tensors(x + 1, x[:1] * 2)), False),
    "atleast": (lambda x: _and(x + 1, torch.atleast_2d), False),
    "split": (lambda x: _and(x + 1, lambda y: y.split(3)[0]), True),
    "joined": (lambda x: _and(x + 1, lambda y: torch.cat([y])), False),
    "repeated": (lambda x: _and(x + 1, lambda y: y.repeat_interleave(1, 0)), False),
}


def _and(x: Tensor, then: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    return x, then(x)


@pytest.mark.parametrize("name", PAIRS)
def test_identity_is_eagers(name: str) -> None:
    made, varies = PAIRS[name]

    def program(x: Tensor) -> Tensor:
        first, second = made(x)
        return x + 10 if first is second else x + 20

    compiled = anyshape.compile(program, dynamic=True)
    for rows, columns in ((4, 5), (3, 2), (1, 5), (5, 1), (3, 3), (1, 1)):
        x = torch.randn(rows, columns)
        assert torch.equal(compiled(x), program(x)), (rows, columns)
    if not varies:
        assert not compiled.stats().boundaries


def test_a_transformer_is_one_graph() -> None:
    """It asks whether keys are values, and whether queries are."""
    model = torch.nn.Transformer(16, 2, 1, 1, 32, batch_first=True, dropout=0.0)
    compiled: Any = anyshape.compile(model, dynamic=True)
    for batch, source, target in ((2, 5, 7), (3, 6, 4), (1, 9, 9)):
        x, y = torch.randn(batch, source, 16), torch.randn(batch, target, 16)
        torch.testing.assert_close(compiled(x, y), model(x, y))
    assert compiled.stats().graphs == 1
