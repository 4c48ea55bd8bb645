"""Attention in a graph with gradients: by the fused kernel, which gives what its gradient needs."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from anyshape.graph.term_graph import TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.families.attention import attention_with_logsumexp
from anyshape.ops.gradient import Term
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT, UNRECORDED
from anyshape.ops.table import lookup


def _is_attention(node: torch.fx.Node, terms: TermGraph) -> bool:
    """Whether it is attention that the fused kernel does, with gradients of query, key, value."""
    meta, call = node.meta.get(RESULT), node.meta.get(CALL)
    if call is None or ARGUMENT in node.meta or UNRECORDED in node.meta:
        return False
    if not (isinstance(meta, Meta) and meta.requires_grad and meta.device.type == "cpu"):
        return False
    given = _arguments(call.function, call.args, call.kwargs)
    return given is not None and _is_fused(given, terms) and torch._C._get_flash_sdp_enabled()


def _arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    entry = lookup(function)
    if entry is None or entry.op.name != "scaled_dot_product_attention":
        return None
    try:
        return dict(bind_match(entry, args, kwargs).arguments)
    except Unbound:
        return None


def _is_fused(given: dict[str, Any], terms: TermGraph) -> bool:
    query, key, value = heads = [given[name] for name in ("query", "key", "value")]
    mask, scale = given["attn_mask"], given["scale"]
    if given["dropout_p"] != 0 or given["enable_gqa"] or type(given["is_causal"]) is not bool:
        return False
    if any(each.rank != 4 or each.dtype is not query.dtype for each in heads):
        return False
    if not (scale is None or type(scale) is float) or not query.dtype.is_floating_point:
        return False
    if mask is not None:
        plain = mask.dtype in (torch.bool, query.dtype) and mask.rank in (2, 4)
        if given["is_causal"] or mask.requires_grad or not plain:
            return False
    pairs = [(query.shape[dim], each.shape[dim]) for each in (key, value) for dim in (0, 1, 3)]
    return all(terms.is_same(a, b) for a, b in [*pairs, (key.shape[2], value.shape[2])])


def with_logsumexp(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """The result, of a call that gives the logsumexp beside it."""
    if not _is_attention(node, terms):
        return None
    call = node.meta[CALL]
    metas = _arguments(call.function, call.args, call.kwargs)
    nodes = _arguments(call.function, node.args, node.kwargs)
    assert metas is not None
    assert nodes is not None

    def term(name: str) -> Term | None:
        meta = metas[name]
        return None if meta is None else Term(terms, mapped[nodes[name]], meta)

    tensors = [term(name) for name in ("query", "key", "value", "attn_mask")]
    result, _ = terms.record(attention_with_logsumexp, *tensors, metas["is_causal"], metas["scale"])
    whole = result.node.args[0]
    whole.meta[RESULT] = node.meta[RESULT], whole.meta[RESULT][1]
    result.node.meta[RESULT] = node.meta[RESULT]
    return result.node
