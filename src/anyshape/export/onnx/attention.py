"""Attention, and the layers that torch has as one operator around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.export.onnx.layers import layer_norm, linear
from anyshape.export.onnx.pointwise import gelu
from anyshape.export.onnx.rows import END, N, Named, NotMapped, W


def attention(
    w: W,
    node: N,
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


def _factor(w: W, query: Any, scale: Any, dtype: torch.dtype) -> str:
    if scale is not None:
        return w.name(scale, dtype)
    width = w.add("Gather", [w.add("Shape", [w.name(query)]), w.constant(-1)], axis=0)
    return w.add("Reciprocal", [w.add("Sqrt", [w.cast(width, dtype)])])


def _repeated(w: W, name: str, rank: int, times: int) -> str:
    """Each head as often as there are heads of queries to it."""
    shape = w.add("Shape", [name])
    apart = w.add("Unsqueeze", [name, w.constant([rank - 2])])
    copied = w.add("Expand", [apart, w.constant([*[1] * (rank - 2), times, 1, 1])])
    head = w.add("Slice", [shape, w.constant([0]), w.constant([rank - 3])])
    tail = w.add("Slice", [shape, w.constant([rank - 2]), w.constant([rank])])
    return w.add("Reshape", [copied, w.add("Concat", [head, w.constant([-1]), tail], axis=0)])


def encoder_layer(
    w: W,
    node: N,
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
        inner = linear(w, node, Named(name), ffn_weight_1, ffn_bias_1)
        active = gelu(w, node, Named(inner), "none") if use_gelu else w.add("Relu", [inner])
        return linear(w, node, Named(active), ffn_weight_2, ffn_bias_2)

    def normal(name: str, scale: Any, shift: Any) -> str:
        return layer_norm(w, node, Named(name), [embed_dim], scale, shift, eps)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        source = w.add("Add", [source, attended(normal(source, *first))])
        return w.add("Add", [source, mixed(normal(source, *second))])
    source = normal(w.add("Add", [source, attended(source)]), *first)
    return normal(w.add("Add", [source, mixed(source)]), *second)


def _self_attention(
    w: W, node: N, x: str, heads: int, depth: int, qkv: Sequence[Any], out: Sequence[Any]
) -> str:
    joint = linear(w, node, Named(x), *qkv)
    apart = w.add("Reshape", [joint, w.constant([0, 0, 3, heads, depth])])
    by_head = w.add("Transpose", [apart], perm=[2, 0, 3, 1, 4])
    query, key, value = (w.add("Gather", [by_head, w.constant(at)], axis=0) for at in range(3))
    scores = w.add("MatMul", [query, w.add("Transpose", [key], perm=[0, 1, 3, 2])])
    scores = w.add("Mul", [scores, w.name(depth**-0.5, w.dtype(node))])
    found = w.add("MatMul", [w.add("Softmax", [scores], axis=-1), value])
    joined = w.add("Transpose", [found], perm=[0, 2, 1, 3])
    flat = w.add("Reshape", [joined, w.constant([0, 0, heads * depth])])
    return linear(w, node, Named(flat), *out)


def multi_head(
    w: W,
    node: N,
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
    found = linear(w, node, Named(flat), out_proj_weight, out_proj_bias)
    if not need_weights:
        return [found, None]
    if average_attn_weights:
        shares = w.add("ReduceMean", [shares, w.constant([1])], keepdims=0)
    return [found, shares]


def _projected(
    w: W, node: N, x: Any, at: int, width: int, heads: int, weight: Any, bias: Any
) -> str:
    """Batch, head, length, depth."""
    ends = w.constant([at * width]), w.constant([(at + 1) * width])
    own = w.add("Slice", [w.name(weight), *ends, w.constant([0])])
    found = w.add("MatMul", [w.name(x), w.add("Transpose", [own], perm=[1, 0])])
    if bias is not None:
        found = w.add("Add", [found, w.add("Slice", [w.name(bias), *ends, w.constant([0])])])
    apart = w.add("Reshape", [found, w.constant([0, 0, heads, width // heads])])
    return w.add("Transpose", [apart], perm=[1, 2, 0, 3])
