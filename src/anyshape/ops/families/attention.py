"""Attention: scaled dot products, and the function behind `nn.MultiheadAttention`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from anyshape.errors import UnknownOperator
from anyshape.loops.attention import (
    MEAN,
    MOST_COLUMNS_ON_GPUS,
    PRODUCT,
    AttentionParts,
    attention_kernel,
)
from anyshape.loops.expr import FLOATS, WIDTH, Dtype, Scalar, load
from anyshape.loops.expr import index as index_value
from anyshape.loops.expr import row as row_of_product
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Area, Extern
from anyshape.ops.broadcast import broadcast, pointwise_layout, require_expands
from anyshape.ops.families.activations import onnx_gelu
from anyshape.ops.families.matmul import onnx_linear, require_one_dtype, require_rank, require_same
from anyshape.ops.families.normalization import onnx_layer_norm
from anyshape.ops.families.padding import lower_constant_pad
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.memory_reads import memory_read
from anyshape.ops.lowering.pointwise_builder import chosen, elementwise
from anyshape.ops.lowering.scalars import cast, constant_like, op, test, where
from anyshape.ops.lowering.values import DTYPES, Index, Lowering, Memory, NotLowered, Value
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.onnx import END, Named, Node, NotMapped, Writer
from anyshape.ops.op import DRAWS, FUNCTIONAL, Effects, Op, OpKind, gradient, lower, onnx
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, floordiv, ge, gt, le, modulo, or_, product
from anyshape.symbolic.expr import of_atom


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
    on_gpu = query.device.type == "cuda"
    if query.device.type != "cpu" and not on_gpu:
        raise UnknownOperator(op=q.op)
    require_same(q, query.shape[-1], key.shape[-1], "the features of query and key")
    require_same(q, key.shape[-2], value.shape[-2], "the lengths of key and value")
    batches = [query.shape[:-2], *_batches(q, query, (key, value), enable_gqa)]
    scores = (*broadcast(q, batches[:2]), query.shape[-2], key.shape[-2])
    shape = (*broadcast(q, [scores[:-2], batches[2]]), query.shape[-2], value.shape[-1])
    if not q.same_all(shape[:-2], query.shape[:-2]):
        sizes = (*shape, key.shape[-2])
        if q.decide(
            eq(product(sizes), 0), "where there is nothing to attend, the query is not broadcast"
        ):
            shape = (*query.shape[:-1], value.shape[-1])
    if attn_mask is not None:
        _require_mask(q, attn_mask, dtype, scores)
    if on_gpu:
        # Which kernel is taken, and so the layout, depends on sizes: it is as it is seen.
        return query.like(shape, layout=pointwise_layout(q, query.shape, [query]))
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
    if mask is not None and (mask.rank == 3 or mask.requires_grad):
        return False
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


# -- with what its gradient needs ------------------------------------------------------------------


def attention_with_logsumexp(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, and the logsumexp of its scores."""
    if not (query.numel() and key.numel()):
        made = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale
        )
        return made, torch.zeros_like(query[..., 0], dtype=_logsumexp_dtype(query.dtype))
    return _FLASH_FOR_CPU(
        *map(in_rows, (query, key, value)),
        is_causal=is_causal,
        attn_mask=added_mask(attn_mask, query.dtype),
        scale=scale,
    )


def attention_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    result: torch.Tensor,
    logsumexp: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, ...]:
    """The gradients of query, key and value."""
    if not (query.numel() and key.numel()):
        return tuple(map(torch.zeros_like, (query, key, value)))
    tensors = map(in_rows, (grad, query, key, value, result))
    mask = added_mask(attn_mask, query.dtype)
    return _FLASH_FOR_CPU_BACKWARD(*tensors, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)


_FLASH_FOR_CPU: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FLASH_FOR_CPU_BACKWARD: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def in_rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def added_mask(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))


def _logsumexp_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype is torch.float64 else torch.float32


def _attention_with_logsumexp(
    q: ShapeQuery,
    query: Meta,
    key: Meta,
    value: Meta,
    attn_mask: Meta | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[Meta, Meta]:
    logsumexp = query.like(
        query.shape[:-1], dtype=_logsumexp_dtype(query.dtype), layout=Dense((0, 2, 1))
    )
    return query.like(layout=pointwise_layout(q, query.shape, [query])), logsumexp


def _attention_backward(
    q: ShapeQuery,
    grad: Meta,
    query: Meta,
    key: Meta,
    value: Meta,
    result: Meta,
    logsumexp: Meta,
    attn_mask: Meta | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[Meta, ...]:
    return tuple(each.like(layout=SIDE_BY_SIDE) for each in (query, key, value))


_ENCODER_LAYER = (
    "src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,"
    " eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,"
    " ffn_weight_2, ffn_bias_2, mask=None, mask_type=None"
)

_ATTENTION: tuple[Any, ...] = (
    FUNCTIONAL + "scaled_dot_product_attention",
    "torch._C._nn.scaled_dot_product_attention",
)

ROWS: tuple[Op, ...] = (
    Op(
        "scaled_dot_product_attention",
        _ATTENTION,
        _scaled_dot_product,
        OpKind.CALL_OUT,
        effects=Effects(draws=True, total=True),
        layout_varies=True,
    ),
    Op(
        "attention_with_logsumexp",
        (f"{__name__}.attention_with_logsumexp",),
        _attention_with_logsumexp,
        OpKind.CALL_OUT,
    ),
    Op(
        "attention_backward",
        (f"{__name__}.attention_backward",),
        _attention_backward,
        OpKind.CALL_OUT,
    ),
    Op(
        "multi_head_attention",
        (FUNCTIONAL + "multi_head_attention_forward",),
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


# -- native code ----------------------------------------------------------------------------------


@lower("scaled_dot_product_attention")
def lower_attention(
    c: Lowering,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: Any,
    is_causal: Any,
    *,
    scale: Any,
    enable_gqa: Any,
) -> Value:
    if c.on_gpu:
        c.needs_library(_EFFICIENT, _FLASH)
    if dropout_p != 0 or (enable_gqa and not c.on_gpu) or not isinstance(is_causal, bool):
        raise NotLowered("dropout, or heads in groups")
    tensors = (query, key, value)
    group = group_of(query, key, value) if enable_gqa else 1
    scores = score_sizes(c, tensors, group, scale)
    if attn_mask is not None and is_causal:
        raise NotLowered("a mask beside the causal one")
    attn_mask, is_causal = known_mask(c, attn_mask, is_causal, scores, scale)
    if c.on_gpu:
        return _on_gpu(c, tensors, group, attn_mask, scores, is_causal, scale)
    mask = None if attn_mask is None else _mask(c, attn_mask, query, scores)
    (made,) = _flash_for_cpu(c, "", tensors, (c.result, None), (is_causal, mask, scale))
    return made


def known_mask(
    c: Lowering,
    mask: Value | None,
    is_causal: bool,
    scores: tuple[Size, ...],
    scale: float | None,
) -> tuple[Value | None, bool]:
    """Without the mask, where it is known to hide nothing, or what a causal one does: of those
    there are faster kernels, and nothing has to be computed of it."""
    if mask is None or len(mask.sizes) < 2:
        return mask, is_causal
    if not (scale is None or scale > 0):
        return mask, is_causal  # torch's causal kernels scale what is hidden, too: -inf * -1
    shown = 1 if mask.dtype == "b1" else 0.0
    if c.outcomes(mask, lambda index: [le(index[-1], index[-2])]) != {shown}:
        return mask, is_causal
    above = c.outcomes(mask, lambda index: [gt(index[-1], index[-2])])
    if above is not None and above <= {shown}:
        return None, is_causal
    is_square = c.same_sizes([*mask.sizes[-2:], scores[2]], [scores[2], scores[3], scores[3]])
    hidden = 0 if mask.dtype == "b1" else float("-inf")
    return (None, True) if is_square and above == {hidden} else (mask, is_causal)


@lower("attention_with_logsumexp")
def lower_attention_with_logsumexp(
    c: Lowering,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    is_causal: Any,
    scale: Any,
) -> tuple[Value, ...]:
    c.needs_library()
    tensors = (query, key, value)
    scores = score_sizes(c, tensors, 1, scale)
    attn_mask, is_causal = known_mask(c, attn_mask, is_causal, scores, scale)
    mask = None if attn_mask is None else _mask(c, attn_mask, query, scores)
    return _flash_for_cpu(c, "", tensors, c.result, (is_causal, mask, scale))


@lower("attention_backward")
def lower_attention_backward(
    c: Lowering,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    result: Value,
    logsumexp: Value,
    attn_mask: Value | None,
    is_causal: Any,
    scale: Any,
) -> tuple[Value, ...]:
    c.needs_library()
    scores = score_sizes(c, (query, key, value), 1, scale)
    mask = None if attn_mask is None else _mask(c, attn_mask, query, scores)
    tensors = (grad, query, key, value, result, logsumexp)
    return _flash_for_cpu(c, "_backward", tensors, c.result, (is_causal, mask, scale))


def score_sizes(
    c: Lowering, tensors: tuple[Value, Value, Value], group: int, scale: Any
) -> tuple[Size, Size, Size, Size]:
    """The sizes of the scores, if the tensors are what the library's kernels take."""
    query, key, value = tensors
    if not (scale is None or type(scale) is float):
        raise NotLowered("a scale that is not a constant")
    if any(len(each.sizes) != 4 or each.dtype != query.dtype for each in tensors):
        raise NotLowered("not a batch of heads")
    if query.dtype not in FLOATS:
        raise NotLowered("attention of integers")
    batch, heads, rows, width = query.sizes
    columns = key.sizes[2]
    wanted = (batch, heads if group == 1 else key.sizes[1], columns, width)
    for other in (key, value):
        for own, size in zip(other.sizes, wanted, strict=True):
            c.assume(eq(own, size), "heads or widths that differ")
    for size in (batch, heads, rows, columns, width):
        # Over no keys it is 0, which the library's function does not say.
        c.assume(ge(size, 1), "attention over nothing")
    return batch, heads, rows, columns


def _flash_for_cpu(
    c: Lowering,
    name: str,
    tensors: Sequence[Value],
    results: Sequence[Meta | None],
    rest: tuple[bool, Area | None, float | None],
) -> tuple[Value, ...]:
    """A call of the library's kernel, or of its gradient's: values of those results that are
    wanted."""
    made: list[Value] = []
    wholes: list[Area | None] = []
    for meta in results:
        if meta is None:
            wholes.append(None)
            continue
        value, kept = c.fresh_as(meta.shape, DTYPES[meta.dtype], meta)
        made.append(value)
        wholes.append(Area(kept.buffer, meta.shape, kept.strides))
    areas = [plain_area(c, each) for each in tensors]
    is_causal, mask, scale = rest
    arguments = (*wholes, *areas, 0.0, is_causal, mask, scale)
    reads = [area.buffer for area in areas] + ([] if mask is None else [mask.buffer])
    writes = [whole.buffer for whole in wholes if whole is not None]
    function = f"_scaled_dot_product_flash_attention_for_cpu{name}"
    c.extern(Extern(function, arguments), reads, writes)
    return tuple(made)


_EFFICIENT: Final = "_scaled_dot_product_efficient_attention"
_FLASH: Final = "_scaled_dot_product_flash_attention"
#: How both lay out their results: the heads of a position side by side.
SIDE_BY_SIDE: Final = Dense((0, 2, 1, 3))


def _on_gpu(
    c: Lowering,
    tensors: tuple[Value, Value, Value],
    group: int,
    mask: Value | None,
    scores: tuple[Size, Size, Size, Size],
    is_causal: bool,
    scale: float | None,
) -> Value:
    """By one of the two kernels that take all lengths; both want rows of whole vectors."""
    query = tensors[0]
    dtype, width = query.dtype, query.sizes[-1]
    is_half = dtype in ("f16", "bf16")
    if not (is_half or dtype == "f32"):
        raise NotLowered(f"attention of {dtype}")
    lanes = 16 // WIDTH[dtype]
    c.assume(eq(modulo(width, lanes), 0), "heads of a width that is no multiple of 16 bytes")
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < _OLDEST:
        raise NotLowered("a GPU without these kernels")
    flash, efficient = _enabled()
    flash = flash and is_half and mask is None
    if flash:
        c.assume(le(width, _WIDEST), "heads that are wider than the kernel takes")
    if not (flash or efficient):
        raise NotLowered("a kernel that is not enabled")
    if flash and is_causal:
        # Of rows and columns that differ, its mask begins at the other end.
        c.assume(eq(scores[2], scores[3]), "a causal mask that is no square")
    made, kept = c.fresh(query.sizes, dtype, c.result.like(layout=SIDE_BY_SIDE).strides)
    whole = Area(kept.buffer, query.sizes, kept.strides)
    shared = list(tensors)
    if group == 1 and flash:
        shared = [query, *_without_repeats(c, tensors[1], tensors[2])]
    if group > 1 and not flash:
        shared = [query, *(_by_groups(c, each, group) for each in tensors[1:])]
    areas = [aligned_area(c, each, lanes) for each in shared]
    reads = [area.buffer for area in areas]
    columns = c.facts.hint(width)
    if flash and c.few_keys and columns is not None and columns <= MOST_COLUMNS_ON_GPUS:
        c.assume(eq(width, columns), "heads of another width")
        c.compute(_one_kernel(c, dtype, areas, whole, columns, is_causal, scale))
        return made
    if flash:
        nothing = (None,) * 8
        extern = Extern(_FLASH, (whole, *nothing, *areas, 0.0, is_causal, False, scale))
    else:
        bias = None if mask is None else bias_area(c, mask, dtype, scores)
        reads += [] if bias is None else [bias.buffer]
        given = (*areas, bias, False, 0.0, is_causal, scale)
        extern = Extern(_EFFICIENT, (whole, None, None, None, *given))
    c.extern(extern, reads, [kept.buffer])
    return made


def _one_kernel(
    c: Lowering,
    dtype: Dtype,
    areas: Sequence[Area],
    result: Area,
    columns: int,
    is_causal: bool,
    scale: float | None,
) -> Kernel:
    """Attention by a kernel of ours: where keys are few, torch's takes longer to begin than this
    one takes. All keys are looked at, as torch's kernel looks at all of a tile."""
    query, key, value = areas
    heads, shared = query.sizes[1], key.sizes[1]
    sizes = (query.sizes[0], shared, floordiv(heads, shared), *query.sizes[2:3], key.sizes[2])
    *outer, keys = (c.values.axis(size) for size in sizes)
    depth, width = c.values.axis(columns), c.values.axis(columns)
    batch, head, within, row = (of_atom(axis.symbol) for axis in outer)
    column, inner, along = (of_atom(axis.symbol) for axis in (keys, depth, width))
    own = head * sizes[2] + within

    def at(area: Area, *index: Size) -> Scalar:
        return load(area.buffer, _address(area, index), dtype)

    free = frozenset(axis.symbol for axis in (*outer, keys))
    product = row_of_product(PRODUCT, "f32", free)
    factor = 1 / math.sqrt(columns) if scale is None else scale
    score = op("mul", product, constant_like(factor, product))
    if is_causal:
        hidden = constant_like(-math.inf, product)
        score = where(test("ge", index_value(row), index_value(column)), score, hidden)
    parts = AttentionParts(
        query=cast(at(query, batch, own, row, inner), "f32"),
        key=cast(at(key, batch, head, column, inner), "f32"),
        value=at(value, batch, head, column, along),
        score=score,
        product=product,
        seen=None,
        finite=None,
        is_zero_if_empty=False,
    )
    place = _address(result, (batch, own, row, along))
    stores: dict[str, tuple[str, Size, Dtype]] = {MEAN: (result.buffer, place, dtype)}
    return attention_kernel(outer, (keys, depth, width), parts, stores)


def _address(area: Area, index: Sequence[Size]) -> Size:
    steps = zip(index, area.strides, strict=True)
    return sum((place * stride for place, stride in steps), area.offset)


def group_of(query: Value, key: Value, value: Value) -> int:
    """How many heads of the query share one of key and value."""
    heads, others = query.sizes[1], key.sizes[1]
    if not (isinstance(heads, int) and isinstance(others, int)) or value.sizes[1] != others:
        raise NotLowered("groups of heads whose number is not known")
    if others == 0 or heads % others:
        raise NotLowered("groups of heads that are not equal")
    return heads // others


def _by_groups(c: Lowering, value: Value, group: int) -> Value:
    """Each head as often as it is shared."""
    batch, heads, rows, width = value.sizes

    def at(index: Index) -> Scalar:
        return value.at((index[0], floordiv(index[1], group), *index[2:]))

    return c.values.new((batch, heads * group, rows, width), value.dtype, at, (value,))


def _without_repeats(c: Lowering, key: Value, value: Value) -> tuple[Value, Value]:
    """What the program has repeated for the heads that share it, once: the flash kernel takes that.
    Only where that spares a copy."""
    heads = key.sizes[1]
    if key.memory is not None or value.memory is not None or not isinstance(heads, int):
        return key, value
    for group in (each for each in range(heads, 1, -1) if heads % each == 0):
        if all(_is_repeated(c, each, group) for each in (key, value)):
            return _of_groups(c, key, group), _of_groups(c, value, group)
    return key, value


def _is_repeated(c: Lowering, value: Value, group: int) -> bool:
    """Whether so many heads in a row are the same."""
    batch, heads, *rest = value.sizes
    axes = [c.values.axis(size) for size in (batch, floordiv(heads, group), group, *rest)]
    first, head, within, *last = (of_atom(axis.symbol) for axis in axes)
    return axes[2].symbol not in value.at((first, head * group + within, *last)).free


def _of_groups(c: Lowering, value: Value, group: int) -> Value:
    """The first head of each group."""
    batch, heads, rows, width = value.sizes

    def at(index: Index) -> Scalar:
        return value.at((index[0], index[1] * group, *index[2:]))

    return c.values.new((batch, floordiv(heads, group), rows, width), value.dtype, at, (value,))


#: The widest heads that the flash kernel takes.
_WIDEST: Final = 256
#: The first compute capability that has both, for all dtypes.
_OLDEST: Final = (8, 0)


def _enabled() -> tuple[bool, bool]:
    """The kernels that the program has not switched off, of those two."""
    return torch._C._get_flash_sdp_enabled(), torch._C._get_mem_efficient_sdp_enabled()


def aligned_area(c: Lowering, value: Value, lanes: int, *, trusts: bool = False) -> Area:
    """Where a tensor is, with rows that begin at multiples of 16 bytes. Stored as results are: the
    library lays out its own as the query is. `trusts`: tensors that are given begin at one."""
    memory = memory_read(c, value)
    if memory is None or memory.strides[-1] != 1 or not c.is_aligned(memory, lanes, trusts=trusts):
        copy = elementwise(c, lambda x: x, value, takes=value.dtype)
        like: Meta = c.result[0] if isinstance(c.result, tuple) else c.result
        memory = c.materialize(copy, like.like(value.sizes, layout=SIDE_BY_SIDE))
    return Area(memory.buffer, value.sizes, memory.strides, memory.offset)


def bias_area(c: Lowering, mask: Value, dtype: Dtype, scores: tuple[Size, ...]) -> Area:
    """What is added to the scores, stretched to their sizes."""
    for place, (own, wanted) in enumerate(zip(mask.sizes[::-1], scores[::-1], strict=False)):
        if own != 1 or place == 0:  # columns are not stretched
            c.assume(eq(own, wanted), "a mask of other sizes")
    bias = c.made_once(("bias", mask, dtype), lambda: _padded_bias(c, mask, dtype))
    assert bias.memory is not None
    rows = zip(mask.sizes[:-1], bias.memory.strides[:-1], strict=True)
    strides = [0 if size == 1 else stride for size, stride in rows]
    strides = [0] * (len(scores) - 1 - len(strides)) + [*strides, 1]
    return Area(bias.memory.buffer, scores, tuple(strides), bias.memory.offset)


def _padded_bias(c: Lowering, mask: Value, dtype: Dtype) -> Value:
    """With rows of whole vectors, of which the end is not looked at."""
    if mask.dtype == "b1":
        mask = chosen(c, mask, 0.0, float("-inf"), dtype)
    elif mask.dtype != dtype:
        raise NotLowered("a mask of another dtype")
    lanes, columns = 16 // WIDTH[dtype], mask.sizes[-1]
    missing = modulo(-columns, lanes)
    bias = elementwise(c, lambda x: x, mask, takes=dtype)
    if missing != 0:
        bias = lower_constant_pad(c, bias, (0, missing), 0.0)
    c.materialize(bias)
    return bias


def plain_area(c: Lowering, value: Value) -> Area:
    """Where a tensor is, with its last dimension contiguous as the library wants it of heads."""
    memory = memory_read(c, value)
    if memory is None or (memory.strides[-1] != 1 and len(value.sizes) == 4):
        copy = elementwise(c, lambda x: x, value, takes=value.dtype)
        memory = c.materialize(copy)
    return Area(memory.buffer, value.sizes, memory.strides, memory.offset)


def _mask(c: Lowering, mask: Value, query: Value, sizes: tuple[Size, ...]) -> Area:
    """What is added to the scores: a mask of booleans becomes 0 and minus infinity."""
    if len(mask.sizes) not in (2, 4):
        raise NotLowered("a mask of other dimensions")
    for own, wanted in zip(mask.sizes, sizes[-len(mask.sizes) :], strict=True):
        if own != 1:
            c.assume(eq(own, wanted), "a mask of other sizes")
    if mask.dtype == "b1":
        mask = chosen(c, mask, 0.0, float("-inf"), query.dtype)
    elif mask.dtype != query.dtype:
        raise NotLowered("a mask of another dtype")
    memory: Memory = c.materialize(mask) if mask.memory is None else mask.memory
    return Area(memory.buffer, mask.sizes, memory.strides, memory.offset)


# -- gradients ------------------------------------------------------------------------------------


@gradient("attention_with_logsumexp")
def gradient_attention(
    grad: dict[int, Term],
    parts: dict[int, Term],
    query: Term,
    key: Term,
    value: Term,
    attn_mask: Term | None,
    is_causal: bool,
    scale: Any,
) -> Gradients:
    if set(grad) != {0}:
        raise NoGradient("a gradient of the logsumexp")
    given = (query, key, value, parts[0], parts[1], attn_mask, is_causal, scale)
    made = grad[0].call(attention_backward, *given)
    return dict(zip(("query", "key", "value"), made, strict=True))


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("scaled_dot_product_attention")
def onnx_attention(
    w: Writer,
    node: Node,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> str:
    if dropout_p:
        raise NotMapped("attention in training")
    rank, dtype = w.rank(key), w.dtype(node)
    keys, values = w.name(key), w.name(value)
    if enable_gqa and w.example(query).shape[-3] != w.example(key).shape[-3]:
        times = w.example(query).shape[-3] // w.example(key).shape[-3]
        keys, values = (_repeated(w, each, rank, times) for each in (keys, values))
    factor = _factor(w, query, scale, dtype)
    turned = w.add("Transpose", [keys], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.add("MatMul", [w.add("Mul", [w.name(query), factor]), turned])
    low = w.name(float("-inf"), dtype)
    if is_causal:
        last = w.add("Slice", [w.add("Shape", [scores]), w.constant([-2]), w.constant([END])])
        square = w.add("Expand", [w.constant(torch.ones(1)), last])
        below = w.cast(w.add("Trilu", [square], upper=0), torch.bool)
        scores = w.add("Where", [below, scores, low])
    if attn_mask is not None and w.dtype(attn_mask) is torch.bool:
        scores = w.add("Where", [w.name(attn_mask), scores, low])
    elif attn_mask is not None:
        scores = w.add("Add", [scores, w.name(attn_mask)])
    shares = w.add("Softmax", [scores], axis=-1)
    if attn_mask is not None:
        # A row that sees nothing is 0 in torch.
        most = w.add("ReduceMax", [scores, w.constant([-1])], keepdims=1)
        shares = w.add("Where", [w.add("Equal", [most, low]), w.name(0.0, dtype), shares])
    return w.add("MatMul", [shares, values])


def _factor(w: Writer, query: Any, scale: Any, dtype: torch.dtype) -> str:
    if scale is not None:
        return w.name(scale, dtype)
    width = w.add("Gather", [w.add("Shape", [w.name(query)]), w.constant(-1)], axis=0)
    return w.add("Reciprocal", [w.add("Sqrt", [w.cast(width, dtype)])])


def _repeated(w: Writer, name: str, rank: int, times: int) -> str:
    """Each head as often as there are heads of queries to it."""
    shape = w.add("Shape", [name])
    apart = w.add("Unsqueeze", [name, w.constant([rank - 2])])
    copied = w.add("Expand", [apart, w.constant([*[1] * (rank - 2), times, 1, 1])])
    head = w.add("Slice", [shape, w.constant([0]), w.constant([rank - 3])])
    tail = w.add("Slice", [shape, w.constant([rank - 2]), w.constant([rank])])
    return w.add("Reshape", [copied, w.add("Concat", [head, w.constant([-1]), tail], axis=0)])


@onnx("transformer_encoder_layer")
def onnx_encoder_layer(
    w: Writer,
    node: Node,
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any,
    mask_type: Any,
) -> str:
    """A layer of `nn.TransformerEncoder`, which torch has as one operator."""
    if mask is not None or mask_type is not None:
        raise NotMapped("an encoder layer with a mask, as one operator")
    source = w.name(src)

    def attended(name: str) -> str:
        qkv, out = (qkv_weight, qkv_bias), (proj_weight, proj_bias)
        return _self_attention(w, node, name, num_heads, embed_dim // num_heads, qkv, out)

    def mixed(name: str) -> str:
        inner = onnx_linear(w, node, Named(name), ffn_weight_1, ffn_bias_1)
        active = onnx_gelu(w, node, Named(inner), "none") if use_gelu else w.add("Relu", [inner])
        return onnx_linear(w, node, Named(active), ffn_weight_2, ffn_bias_2)

    def normal(name: str, scale: Any, shift: Any) -> str:
        return onnx_layer_norm(w, node, Named(name), [embed_dim], scale, shift, eps)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        source = w.add("Add", [source, attended(normal(source, *first))])
        return w.add("Add", [source, mixed(normal(source, *second))])
    source = normal(w.add("Add", [source, attended(source)]), *first)
    return normal(w.add("Add", [source, mixed(source)]), *second)


def _self_attention(
    w: Writer, node: Node, x: str, heads: int, depth: int, qkv: Sequence[Any], out: Sequence[Any]
) -> str:
    joint = onnx_linear(w, node, Named(x), *qkv)
    apart = w.add("Reshape", [joint, w.constant([0, 0, 3, heads, depth])])
    by_head = w.add("Transpose", [apart], perm=[2, 0, 3, 1, 4])
    query, key, value = (w.add("Gather", [by_head, w.constant(at)], axis=0) for at in range(3))
    scores = w.add("MatMul", [query, w.add("Transpose", [key], perm=[0, 1, 3, 2])])
    scores = w.add("Mul", [scores, w.name(depth**-0.5, w.dtype(node))])
    found = w.add("MatMul", [w.add("Softmax", [scores], axis=-1), value])
    joined = w.add("Transpose", [found], perm=[0, 2, 1, 3])
    flat = w.add("Reshape", [joined, w.constant([0, 0, heads * depth])])
    return onnx_linear(w, node, Named(flat), *out)


@onnx("multi_head_attention")
def onnx_multi_head(
    w: Writer,
    node: Node,
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool,
    key_padding_mask: Any,
    need_weights: bool,
    attn_mask: Any,
    use_separate_proj_weight: bool,
    average_attn_weights: bool,
    is_causal: bool,
) -> list[Any]:
    """`nn.MultiheadAttention`, of sequences that come first: its result and the weights."""
    unusual = (bias_k, bias_v, key_padding_mask, attn_mask)
    if any(each is not None for each in unusual) or add_zero_attn or use_separate_proj_weight:
        raise NotMapped("multi-head attention with masks, biases of keys, or separate weights")
    if (training and dropout_p) or is_causal or w.rank(query) != 3:
        raise NotMapped("multi-head attention in training, causal, or without a batch")
    width, heads = embed_dim_to_check, num_heads
    parts = [
        _projected(w, node, each, at, width, heads, in_proj_weight, in_proj_bias)
        for at, each in enumerate((query, key, value))
    ]
    queries, keys, values = parts
    turned = w.add("Transpose", [keys], perm=[0, 1, 3, 2])
    scores = w.add("MatMul", [queries, turned])
    scale = w.name((width // heads) ** -0.5, w.dtype(query))
    shares = w.add("Softmax", [w.add("Mul", [scores, scale])], axis=-1)
    mixed = w.add("Transpose", [w.add("MatMul", [shares, values])], perm=[2, 0, 1, 3])
    flat = w.add("Reshape", [mixed, w.constant([0, 0, width])])
    found = onnx_linear(w, node, Named(flat), out_proj_weight, out_proj_bias)
    if not need_weights:
        return [found, None]
    if average_attn_weights:
        shares = w.add("ReduceMean", [shares, w.constant([1])], keepdims=0)
    return [found, shares]


def _projected(
    w: Writer, node: Node, x: Any, at: int, width: int, heads: int, weight: Any, bias: Any
) -> str:
    """Batch, head, length, depth."""
    ends = w.constant([at * width]), w.constant([(at + 1) * width])
    own = w.add("Slice", [w.name(weight), *ends, w.constant([0])])
    found = w.add("MatMul", [w.name(x), w.add("Transpose", [own], perm=[1, 0])])
    if bias is not None:
        found = w.add("Add", [found, w.add("Slice", [w.name(bias), *ends, w.constant([0])])])
    apart = w.add("Reshape", [found, w.constant([0, 0, heads, width // heads])])
    return w.add("Transpose", [apart], perm=[1, 2, 0, 3])
