"""Tensors that a module keeps from call to call, and sets itself: their sizes are dynamic, as those
of arguments are, though other tensors of modules are static."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape

SIZES = (3, 5, 2, 7, 4, 9, 1, 6, 16, 12, 3, 5)


class KeysAndValues(nn.Module):
    """Keeps what it has seen, up to a point."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        kept = self.kept
        self.kept = x if kept is None or len(kept) > 12 else torch.cat([kept, x])
        return nn.functional.scaled_dot_product_attention(x[None], self.kept[None], self.kept[None])


class Mask(nn.Module):
    """Makes a larger mask when it needs one."""

    mask: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None or len(self.mask) < len(x):
            self.mask = torch.tril(torch.ones(len(x), len(x)))
        return self.mask[: len(x), : len(x)] @ x


class OfLayers(nn.Module):
    """One for each layer, in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        for name in ("first", "second"):
            if name in self.kept and len(self.kept[name]) < 12:
                self.kept[name] = torch.cat([self.kept[name], x])
            else:
                self.kept[name] = x * 2
            x = x + self.kept[name].sum(0)
        return x


@pytest.mark.parametrize("kind", [KeysAndValues, Mask, OfLayers])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_few_graphs_serve_all_sizes(kind: type[nn.Module], dynamic: bool | None) -> None:
    eager, model = kind(), kind()
    compiled: Any = anyshape.compile(model, dynamic=dynamic, backend="eager")
    with torch.no_grad():
        for size in SIZES * 2:
            x = torch.randn(size, 4)
            torch.testing.assert_close(compiled(x), eager(x))
    assert compiled.stats().graphs <= 6


def test_who_asks_for_static_sizes_gets_them() -> None:
    with anyshape.config.patch(force_nn_module_property_static_shapes=True):
        compiled: Any = anyshape.compile(KeysAndValues(), backend="eager")
        with torch.no_grad():
            for size in SIZES[:6]:
                compiled(torch.randn(size, 4))
    assert compiled.stats().graphs == 6
