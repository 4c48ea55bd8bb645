"""Results whose layout torch chooses anew in every call: which of several kernels runs depends on
sizes. Capture records behind such an operator that the layout is the one that it has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.actual_strides import is_dense
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.values import IndexMap, Lowering
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import Op, OpKind, gradient, lower_view, onnx
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace


def dense_in_order(tensor: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The tensor without gaps, its dimensions from the outermost in: a view, or a copy if it is
    laid out in another way."""
    if tensor.numel() == 0 or is_dense(tensor.shape, tensor.stride(), order):
        return tensor.view_as(tensor)
    back = [order.index(dim) for dim in range(len(order))]
    return tensor.permute(*order).contiguous().permute(*back)


def _dense_in_order(q: ShapeQuery, input: Meta, order: Sequence[int]) -> Meta:
    return replace(input, layout=Dense(tuple(order)), offset=0)


ROWS: tuple[Op, ...] = (
    Op(
        "dense_in_order",
        (f"{__name__}.dense_in_order",),
        _dense_in_order,
        OpKind.VIEW,
    ),
)


@lower_view("dense_in_order")
def lower_dense_in_order(c: Lowering, base: Meta, order: Any) -> IndexMap:
    return lambda index: index


@gradient("dense_in_order")
def gradient_dense_in_order(grad: Term, order: Any) -> Gradients:
    return {"input": grad}


@onnx("dense_in_order")
def onnx_dense_in_order(w: Writer, node: Node, input: Any, order: Any) -> str:
    return w.name(input)
