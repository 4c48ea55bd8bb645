"""Look-ups in a table of vectors: one by one, or reduced by bags."""

from __future__ import annotations

import torch

from anyshape.ops.meta import Meta
from anyshape.ops.op import Effects, Op, OpKind
from anyshape.ops.rules.matmul import require_rank, require_same
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, ge, gt, lt, or_


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

_F = "torch.nn.functional."
ROWS: tuple[Op, ...] = (
    Op("embedding", (_F + "embedding",), _embedding, OpKind.INDEX_MAP, effects=_RENORMALISES),
    Op("torch.embedding", ("torch.embedding",), _torch_embedding, OpKind.INDEX_MAP),
    Op(
        "embedding_bag",
        (_F + "embedding_bag",),
        _embedding_bag,
        OpKind.CALL_OUT,
        effects=_RENORMALISES,
    ),
)
