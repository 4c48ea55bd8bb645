"""Look-ups in a table of vectors: one by one, or reduced by bags."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.loops.expr import HALVES, Scalar
from anyshape.ops.families.indexing import Positions
from anyshape.ops.families.matmul import require_rank, require_same
from anyshape.ops.families.reductions import divided_by
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.scalars import op
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import FUNCTIONAL, Effects, Op, OpKind, gradient, lower, moving, onnx
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, ge, gt, lt, or_, product


def _require_indices(q: ShapeQuery, *tensors: Meta) -> None:
    for tensor in tensors:
        if tensor.dtype not in (torch.int32, torch.int64):
            raise q.fail(f"positions are of int32 or int64, not {tensor.dtype}")


def _require_rows(q: ShapeQuery, input: Meta, weight: Meta) -> None:
    filled = or_(gt(weight.shape[0], 0), eq(input.numel, 0))
    q.require(filled, "a table without rows has nothing to look up")


def _embedding(
    q: ShapeQuery,
    input: Meta,
    weight: Meta,
    padding_idx: Size | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Meta:
    require_rank(q, weight, 2, "the table")
    _require_indices(q, input)
    if padding_idx is not None:
        rows = weight.shape[0]
        inside = and_(lt(padding_idx, rows), ge(padding_idx, -rows))
        q.require(inside, f"padding_idx {padding_idx} must be a row of the table")
    _require_rows(q, input, weight)
    return weight.like((*input.shape, weight.shape[1]))


def _torch_embedding(
    q: ShapeQuery,
    weight: Meta,
    indices: Meta,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Meta:
    return _embedding(q, indices, weight)


def _embedding_bag(
    q: ShapeQuery,
    input: Meta,
    weight: Meta,
    offsets: Meta | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Meta | None = None,
    include_last_offset: bool = False,
    padding_idx: Size | None = None,
) -> Meta:
    if weight.dtype is torch.int64 and input.dtype.is_floating_point:
        input, weight = weight, input  # an old order of arguments, which torch still takes
    require_rank(q, weight, 2, "the table")
    _require_indices(q, input)
    _require_rows(q, input, weight)
    if not weight.dtype.is_floating_point:
        raise q.fail(f"a table is of floats, not {weight.dtype}")
    if per_sample_weights is not None:
        _require_weights(q, input, weight, per_sample_weights, mode)
    return weight.like((_bags(q, input, offsets, include_last_offset), weight.shape[1]))


def _bags(q: ShapeQuery, input: Meta, offsets: Meta | None, include_last: bool) -> Size:
    if input.rank == 2:
        if offsets is not None:
            raise q.fail("a matrix of positions has a bag in each row, and takes no offsets")
        q.require(gt(input.shape[1], 0), "a row of positions is not empty")
        return input.shape[0]
    require_rank(q, input, 1, "the positions")
    if offsets is None or offsets.rank != 1:
        raise q.fail("offsets are a vector")
    _require_indices(q, offsets)
    if not include_last:
        return offsets.shape[0]
    q.require(gt(offsets.shape[0], 0), "the last offset is included")
    return offsets.shape[0] - 1


def _require_weights(q: ShapeQuery, input: Meta, weight: Meta, samples: Meta, mode: str) -> None:
    if mode != "sum" or samples.dtype != weight.dtype:
        raise q.fail("weights of samples go with mode 'sum' and have the table's dtype")
    require_rank(q, samples, input.rank, "the weights of samples")
    for size, other in zip(samples.shape, input.shape, strict=True):
        require_same(q, size, other, "the sizes of positions and their weights")


#: With a largest norm they change rows of the table.
_RENORMALISES = Effects(writes=("weight",), given="max_norm")

ROWS: tuple[Op, ...] = (
    Op(
        "embedding",
        (FUNCTIONAL + "embedding",),
        _embedding,
        OpKind.INDEX_MAP,
        effects=_RENORMALISES,
    ),
    Op("torch.embedding", ("torch.embedding",), _torch_embedding, OpKind.INDEX_MAP),
    Op(
        "embedding_bag",
        (FUNCTIONAL + "embedding_bag",),
        _embedding_bag,
        OpKind.CALL_OUT,
        effects=_RENORMALISES,
    ),
)


# -- native code ----------------------------------------------------------------------------------


def looked_up(c: Lowering, weight: Value, indices: Value) -> Value:
    if len(weight.sizes) != 2:
        raise NotLowered("a table that is no matrix")
    positions = Positions(c, indices, weight.sizes[0], wraps=False)

    def at(index: Index) -> Scalar:
        return weight.at((positions.at(index[:-1]), index[-1]))

    sizes = (*indices.sizes, weight.sizes[1])
    return c.values.new(sizes, weight.dtype, at, (weight, indices), cost=1)


@lower(*moving("embedding"))
def lower_embedding(c: Lowering, input: Value, weight: Value, max_norm: Any, **_: Any) -> Value:
    if max_norm is not None:
        raise NotLowered("the table is renormalised")
    return looked_up(c, weight, input)


@lower("torch.embedding")
def lower_of_weight(c: Lowering, weight: Value, indices: Value, **_: Any) -> Value:
    return looked_up(c, weight, indices)


@lower("embedding_bag")
def lower_embedding_bag(
    c: Lowering,
    input: Value,
    weight: Value,
    offsets: Any,
    max_norm: Any,
    mode: Any,
    per_sample_weights: Any,
    padding_idx: Any,
    **_: Any,
) -> Value:
    """A matrix of positions: a bag in each row."""
    if max_norm is not None or padding_idx is not None:
        raise NotLowered("rows that are renormalised or left out")
    if offsets is not None or len(input.sizes) != 2:
        raise NotLowered("bags of unlike sizes")
    if weight.dtype in HALVES or input.dtype not in ("i32", "i64"):
        raise NotLowered("sums of 16-bit floats")
    found = looked_up(c, weight, input)
    if per_sample_weights is not None:
        if mode != "sum" or per_sample_weights.dtype != weight.dtype:
            raise NotLowered("weights of another kind")
        plain, shares = found, per_sample_weights

        def weighted(index: Index) -> Scalar:
            return op("mul", plain.at(index), shares.at(index[:-1]))

        found = c.values.new(plain.sizes, plain.dtype, weighted, (plain, shares), cost=2)
    fold = {"sum": "sum", "mean": "sum", "max": "max"}.get(mode)
    if fold is None:
        raise NotLowered(f"bags by {mode}")
    total = c.values.reduction(fold, found, [1], weight.dtype, keep=False)
    return divided_by(c, total, input.sizes[1]) if mode == "mean" else total


# -- gradients ------------------------------------------------------------------------------------


@gradient("embedding")
def gradient_embedding(
    grad: Term,
    input: Term,
    weight: Term,
    padding_idx: Any,
    max_norm: Any,
    scale_grad_by_freq: Any,
    sparse: Any,
) -> Gradients:
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NoGradient("gradients that are scaled or sparse, or rows that are scaled")
    if padding_idx is not None and padding_idx < 0:
        raise NoGradient("a padding that is counted from the end, or none by another name")
    if padding_idx is not None:
        grad = grad.where(input.ne(padding_idx).unsqueeze(-1), 0.0)
    rows = grad.reshape((product(list(input.shape)), weight.shape[1]))
    zeros = grad.records.record(
        torch.zeros, weight.shape, dtype=grad.dtype, device=grad.meta.device
    )
    places = input.reshape((product(list(input.shape)),))
    return {"weight": zeros.index_add(0, places, rows)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("embedding")
def onnx_embedding(w: Writer, node: Node, input: Any, weight: Any, max_norm: Any, **_: Any) -> str:
    if max_norm is not None:
        raise NotMapped("an embedding that changes its weights (max_norm)")
    return w.add("Gather", [w.name(weight), w.name(input)], axis=0)


@onnx("torch.embedding")
def onnx_embedding_of_weight(w: Writer, node: Node, weight: Any, indices: Any, **_: Any) -> str:
    """The function of the library takes the weight first."""
    return onnx_embedding(w, node, indices, weight, None)
