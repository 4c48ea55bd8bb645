"""Gradients as an operator of a graph: what `loss.backward()` computes, as plain tensors.

A capture that is asked for the whole step records it. The pass that writes the backward operators
into the graph (`graph/inline_backward.py`) takes its place; where that cannot be done, torch's
autograd does it in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.meta import Dense, Meta, contiguous, of_tensor
from anyshape.ops.op import Op, OpKind
from anyshape.ops.shape_query import ShapeQuery


def gradients(
    results: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor | None],
    retain_graph: bool = False,
) -> tuple[torch.Tensor, ...]:
    """The gradients of tensors, each with memory of its own, laid out as its tensor is. One that
    no gradient reaches is an error."""
    found = torch.autograd.grad(
        list(results), list(tensors), list(weights), retain_graph=retain_graph
    )
    return tuple(map(_own, found, tensors))


def _own(grad: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        layout = of_tensor(tensor).layout
        if not isinstance(layout, Dense):
            return grad.clone(memory_format=torch.contiguous_format)
        back = [layout.order.index(dim) for dim in range(len(layout.order))]
        copied = grad.permute(*layout.order).clone(memory_format=torch.contiguous_format)
        return copied.permute(*back)


def _gradients(
    q: ShapeQuery, results: Any, tensors: Sequence[Meta], weights: Any, retain_graph: bool = False
) -> tuple[Meta, ...]:
    return tuple(map(_like, tensors))


def _like(meta: Meta) -> Meta:
    layout = meta.layout if isinstance(meta.layout, Dense) else contiguous(len(meta.shape))
    return meta.like(layout=layout)


ROWS: tuple[Op, ...] = (
    Op(
        "gradients",
        (f"{__name__}.gradients",),
        _gradients,
        OpKind.CALL_OUT,
        differentiable=False,
    ),
)
