"""Sizes that an operation makes and only its data knows: where they are found in the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.guards.path import Path
from anyshape.ops.meta import Meta
from anyshape.symbolic import Expr, is_data_dependent


def places(
    made: Sequence[Expr], value: object, result: object
) -> Iterator[tuple[Expr, torch.Tensor, int]]:
    """For each of the symbols that is a size of the result: the first tensor and dimension that
    has it. Others say where the result begins in memory, and are asked for by nobody."""
    missing = set(made)
    for meta, tensor in pairs(value, result):
        for dim, size in enumerate(meta.shape):
            if isinstance(size, Expr) and size in missing:
                missing.discard(size)
                yield size, tensor, dim


def observed(made: Sequence[Expr], value: object, result: object) -> Iterator[tuple[Expr, int]]:
    """What the symbols are in this run."""
    if made:
        for size, tensor, dim in places(made, value, result):
            yield size, tensor.shape[dim]


def pairs(value: object, result: object) -> Iterator[tuple[Meta, torch.Tensor]]:
    """The meta of each tensor of a result."""
    if isinstance(result, torch.Tensor):
        if isinstance(value, Meta) and len(value.shape) == result.dim():
            yield value, result
    elif isinstance(result, tuple | list) and isinstance(value, tuple | list):
        for said, real in zip(value, result, strict=False):
            yield from pairs(said, real)


def sizes_in(value: object) -> Iterable[Expr | Path]:
    """The sizes that a traced number is made of."""
    if type(value) is TracedInt:
        return (value.expr,) if isinstance(value.expr, Expr) else ()
    return value.node.sizes if type(value) is TracedFloat else ()


def is_of_data(value: object) -> bool:
    """Whether a traced number is known by data alone."""
    if type(value) is TracedInt:
        return isinstance(value.expr, Expr) and is_data_dependent(value.expr)
    return type(value) is TracedFloat and value.node.of_data
