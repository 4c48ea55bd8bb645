"""Layouts of norms, and of what lies before them, against torch: every order of dimensions, with
gaps, expanded, and sizes of 1, whose strides tell channels-last tensors all the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.ops.meta import of_tensor
from anyshape.symbolic import Facts, symbol
from tests.ops.driver import SideBySide

SHAPES = ((1, 2, 2, 3), (1, 2, 1, 2), (2, 1, 2, 2), (3, 2, 1, 1), (1, 1, 1, 2), (1, 3, 2, 1))
EMPTY = ((0, 2, 3, 2), (2, 3, 0, 1))


def ones(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(x.shape[1])


def group_norm(x: torch.Tensor) -> torch.Tensor:
    return torch.group_norm(x, 1)


def last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


NORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "group_norm": group_norm,
    "functional": lambda x: F.group_norm(x, 1, ones(x), ones(x)),
    "instance_norm": F.instance_norm,
    "running": lambda x: F.instance_norm(x, ones(x), ones(x), use_input_stats=False),
    "batch_norm": lambda x: F.batch_norm(x, ones(x), ones(x)),
    "training": lambda x: F.batch_norm(x, None, None, ones(x), training=True),
    "native": lambda x: torch.native_batch_norm(x, None, None, ones(x), ones(x), False, 0.1, 1e-5),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "native_layer_norm": lambda x: torch.native_layer_norm(x, x.shape[-2:], None, None, 1e-5),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
}
AFTER: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: group_norm(x + x),
    "function": lambda x: group_norm(x.sin()),
    "number": lambda x: group_norm(x * 2),
    "contiguous": lambda x: group_norm(x + x.contiguous()),
    "channels last": lambda x: F.batch_norm(x + last(x), ones(x), ones(x)),
    "pooling": lambda x: F.max_pool2d(F.silu(x), 1),
    "larger": lambda x: F.interpolate(x / x, scale_factor=2),
    "joined": lambda x: torch.cat([x + x, x * x], 1),
}


def laid_out(shape: tuple[int, ...]) -> Iterator[tuple[torch.Tensor, bool]]:
    """Tensors of a shape, and whether they are without gaps."""
    rank = len(shape)
    for order in itertools.permutations(range(rank)):
        stored = [shape[dim] for dim in order]
        back = [order.index(dim) for dim in range(rank)]
        yield torch.randn(stored).permute(back), True
        for gap in (order[0] % rank, order[1] % rank):
            larger = [size + (place == gap) for place, size in enumerate(stored)]
            yield torch.randn(larger).narrow(gap, 0, stored[gap]).permute(back), False
    for dim in range(rank):
        single = [1 if place == dim else size for place, size in enumerate(shape)]
        yield torch.randn(single).expand(shape), False


def infer(function: Callable[[torch.Tensor], Any], x: torch.Tensor, symbols: bool) -> None:
    """Raises a `Disagreement` if a layout is not torch's; what torch refuses is refused."""
    facts, shape = Facts(), list[Any](x.shape)
    if symbols:
        for dim, size in enumerate(x.shape):
            shape[dim] = symbol(f"s{dim}")
            facts = facts.declare(shape[dim], size)
    mode = SideBySide(facts)
    mode.know(x, of_tensor(x, tuple(shape)))
    with mode:
        function(x)


@pytest.mark.parametrize("function", [*NORMS.values(), *AFTER.values()], ids=[*NORMS, *AFTER])
def test_layouts(function: Callable[[torch.Tensor], Any]):
    tried = 0
    for shape in (*SHAPES, *EMPTY):
        for x, is_dense in laid_out(shape):
            try:
                function(x)
            except (RuntimeError, ValueError):
                continue  # one value for each channel, or none
            infer(function, x, False)
            tried += 1
            if is_dense:
                infer(function, x, True)
    assert tried >= 300


def test_a_batch_of_one_behind_attention():
    """As far as elements go these strides are channels-last, and torch makes them so in a sum."""
    x = torch.randn(8, 8, 1, 64).permute(2, 3, 0, 1)
    assert (x + x).stride() != x.stride()
    for symbols in (False, True):
        infer(lambda x: group_norm((x + x) / 2), x, symbols)
