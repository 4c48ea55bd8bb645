"""Attention: scaled dot products, and the function behind `nn.MultiheadAttention`."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.ops.broadcast import broadcast, pointwise_layout, require_expands
from anyshape.ops.meta import Meta
from anyshape.ops.op import DRAWS, Op, OpKind
from anyshape.ops.rules.matmul import require_one_dtype, require_rank, require_same
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, gt, or_, product


def _scaled_dot_product(
    q: ShapeQuery,
    query: Meta,
    key: Meta,
    value: Meta,
    attn_mask: Meta | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Meta:
    if min(query.rank, key.rank, value.rank) < 2:
        raise q.fail("query, key and value have at least two dimensions")
    dtype = require_one_dtype(q, query, key, value)
    if not dtype.is_floating_point:
        raise q.fail(f"there is no attention of {dtype}")
    if query.device.type != "cpu":
        raise UnknownOperator(op=q.op)  # the layout depends on which of several kernels is taken
    require_same(q, query.shape[-1], key.shape[-1], "the features of query and key")
    require_same(q, key.shape[-2], value.shape[-2], "the lengths of key and value")
    batches = [query.shape[:-2], *_batches(q, query, (key, value), enable_gqa)]
    scores = (*broadcast(q, batches[:2]), query.shape[-2], key.shape[-2])
    shape = (*broadcast(q, [scores[:-2], batches[2]]), query.shape[-2], value.shape[-1])
    if not q.same_all(shape[:-2], query.shape[:-2]):
        sizes = (*shape, key.shape[-2])
        if q.decide(
            eq(product(sizes), 0), "where there is nothing to attend, the query is not stretched"
        ):
            shape = (*query.shape[:-1], value.shape[-1])
    if attn_mask is not None:
        _require_mask(q, attn_mask, dtype, scores)
    both = is_causal and attn_mask is not None
    if query.is_contiguous and not both:
        return query.like(shape)  # whichever kernel is taken
    fused = _is_fused(q, query, key, value, attn_mask, dropout_p, enable_gqa)
    if both and not fused:
        raise q.fail("a mask does not go with is_causal=True")
    return query.like(shape, layout=pointwise_layout(q, query.shape, [query]) if fused else None)


def _batches(
    q: ShapeQuery, query: Meta, others: tuple[Meta, ...], grouped: bool
) -> list[tuple[Size, ...]]:
    """The sizes before the last two; of grouped heads each is there for several of the query's."""
    if not grouped:
        return [other.shape[:-2] for other in others]
    if min(query.rank, *(other.rank for other in others)) < 3:
        raise q.fail("grouped heads take at least three dimensions")
    heads = query.shape[-3]
    for other in others:
        if other.shape[-3] is not heads:
            q.require(gt(other.shape[-3], 0), "key and value have heads")
            q.require(
                eq(heads % other.shape[-3], 0), "the heads of key and value divide the query's"
            )
    return [(*other.shape[:-3], heads) for other in others]


def _require_mask(q: ShapeQuery, mask: Meta, dtype: torch.dtype, scores: tuple[Size, ...]) -> None:
    if mask.dtype not in (torch.bool, torch.float32, dtype):
        raise q.fail(f"a mask is of booleans or of {dtype}, not {mask.dtype}")
    if mask.rank < 2:
        raise q.fail("a mask has at least two dimensions")
    require_expands(q, mask.shape, scores)


def _is_fused(
    q: ShapeQuery,
    query: Meta,
    key: Meta,
    value: Meta,
    mask: Meta | None,
    dropout: float,
    grouped: bool,
) -> bool:
    """Whether torch takes its fused kernel, whose result is laid out like the query."""
    tensors = [query, key, value]
    if (
        any(tensor.rank != 4 for tensor in tensors)
        or dropout
        or not torch._C._get_flash_sdp_enabled()
    ):
        return False
    if mask is not None:
        if mask.rank == 3 or mask.requires_grad:
            return False
        tensors.append(mask)
    if any(_differs(q, tensor.strides[-1], 1) for tensor in tensors):
        return False
    pairs = [
        (query.shape[0], key.shape[0]),
        (query.shape[0], value.shape[0]),
        (key.shape[1], value.shape[1]),
    ]
    pairs.append((query.shape[3], value.shape[3]))
    if not grouped:
        pairs.append((query.shape[1], key.shape[1]))
    if any(_differs(q, a, b) for a, b in pairs):
        return False
    length, other = query.shape[2], key.shape[2]
    if length is other:
        return True  # an empty query has an empty result
    return q.decide(or_(gt(other, 0), eq(length, 0)), "an empty key takes another kernel")


def _differs(q: ShapeQuery, a: Size, b: Size) -> bool:
    return a is not b and not q.decide(eq(a, b), "which kernel computes attention depends on it")


def _multi_head(
    q: ShapeQuery,
    query: Meta,
    key: Meta,
    value: Meta,
    embed_dim_to_check: Size,
    num_heads: int,
    in_proj_weight: Meta | None,
    in_proj_bias: Meta | None,
    bias_k: Meta | None,
    bias_v: Meta | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Meta,
    out_proj_bias: Meta | None,
    training: bool = True,
    key_padding_mask: Meta | None = None,
    need_weights: bool = True,
    attn_mask: Meta | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Meta | None = None,
    k_proj_weight: Meta | None = None,
    v_proj_weight: Meta | None = None,
    static_k: Meta | None = None,
    static_v: Meta | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Meta, Meta | None]:
    if static_k is not None or static_v is not None:
        raise UnknownOperator(op=q.op)
    batched = query.rank == 3
    require_rank(q, query, 3 if batched else 2, "the query")
    for tensor in (key, value):
        require_rank(q, tensor, query.rank, "key and value")
    if is_causal and attn_mask is None:
        raise q.fail("is_causal=True needs a mask")
    require_one_dtype(q, query, key, value, in_proj_weight, q_proj_weight, out_proj_weight)
    length, source, features = query.shape[0], key.shape[0], query.shape[-1]
    batch = query.shape[1] if batched else 1
    require_same(q, features, embed_dim_to_check, "the query's features and embed_dim")
    q.require(eq(features % num_heads, 0), "the heads divide the features")
    for a, b in zip(key.shape[:-1], value.shape[:-1], strict=True):
        require_same(q, a, b, "the sizes of key and value")
    if batched:
        require_same(q, key.shape[1], batch, "the batch sizes of key and query")
    apart = use_separate_proj_weight
    projections = (q_proj_weight, k_proj_weight, v_proj_weight) if apart else (in_proj_weight,) * 3
    for tensor, weight in zip((query, key, value), projections, strict=True):
        _require_projection(q, tensor, weight, features if apart else 3 * features)
    for tensor, wanted in ((in_proj_bias, 3 * features), (bias_k, features), (bias_v, features)):
        if tensor is not None:
            require_same(q, tensor.shape[-1], wanted, "the sizes of a bias")
    _require_masks(q, batched, (batch, num_heads, length, source), attn_mask, key_padding_mask)
    source = source + int(bias_k is not None) + int(add_zero_attn)
    require_same(q, out_proj_weight.shape[1], features, "the features of the last projection")
    if out_proj_bias is not None:
        require_expands(q, out_proj_bias.shape, (length * batch, out_proj_weight.shape[0]))
    middle = (batch,) if batched else ()
    result = query.like((length, *middle, out_proj_weight.shape[0]))
    if not need_weights:
        return result, None
    heads = () if average_attn_weights else (num_heads,)
    return result, query.like((*middle, *heads, length, source))


def _require_projection(q: ShapeQuery, tensor: Meta, weight: Meta | None, rows: Size) -> None:
    if weight is None or weight.rank != 2:
        raise q.fail("query, key and value are projected by matrices")
    require_same(q, weight.shape[0], rows, "the rows of a projection")
    require_same(
        q, tensor.shape[-1], weight.shape[1], "the features of a tensor and its projection"
    )


def _require_masks(
    q: ShapeQuery,
    batched: bool,
    sizes: tuple[Size, Size, Size, Size],
    mask: Meta | None,
    padding: Meta | None,
) -> None:
    batch, heads, length, source = sizes
    if mask is not None:
        wanted = (length, source) if mask.rank == 2 else (batch * heads, length, source)
        require_rank(q, mask, len(wanted), "the mask")
        for size, other in zip(mask.shape, wanted, strict=True):
            require_same(q, size, other, "the sizes of the mask")
    if padding is not None:
        wanted = (batch, source) if batched else (source,)
        require_rank(q, padding, len(wanted), "the mask of padded keys")
        for size, other in zip(padding.shape, wanted, strict=True):
            require_same(q, size, other, "the sizes of the mask of padded keys")


def _encoder_layer(
    q: ShapeQuery,
    src: Meta,
    embed_dim: Size,
    num_heads: int,
    qkv_weight: Meta,
    qkv_bias: Meta,
    proj_weight: Meta,
    mask: Meta | None,
    mask_type: int | None,
) -> Meta:
    """`nn.TransformerEncoderLayer` in one step, which it takes where nothing has a gradient."""
    if mask is not None or mask_type is not None or src.device.type != "cpu":
        raise UnknownOperator(op=q.op)
    require_rank(q, src, 3, "the source")
    features = src.shape[-1]
    require_same(q, features, embed_dim, "the source's features and embed_dim")
    q.require(eq(features % num_heads, 0), "the heads divide the features")
    _require_projection(q, src, qkv_weight, 3 * features)
    require_same(q, proj_weight.shape[0], features, "the rows of the last projection")
    if q.decide(eq(product(src.shape), 0), "of nothing, torch makes a copy"):
        raise UnknownOperator(op=q.op)
    return src.like(src.shape)


_ENCODER_LAYER = (
    "src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,"
    " eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,"
    " ffn_weight_2, ffn_bias_2, mask=None, mask_type=None"
)

_F = "torch.nn.functional."
_ATTENTION: tuple[Any, ...] = (
    _F + "scaled_dot_product_attention",
    "torch._C._nn.scaled_dot_product_attention",
)
ROWS: tuple[Op, ...] = (
    Op(
        "scaled_dot_product_attention",
        _ATTENTION,
        _scaled_dot_product,
        OpKind.CALL_OUT,
        effects=DRAWS,
    ),
    Op(
        "multi_head_attention",
        (_F + "multi_head_attention_forward",),
        _multi_head,
        OpKind.CALL_OUT,
        effects=DRAWS,
    ),
    Op(
        "transformer_encoder_layer",
        ("torch._transformer_encoder_layer_fwd",),
        _encoder_layer,
        OpKind.CALL_OUT,
        signature=_ENCODER_LAYER,
    ),
)
