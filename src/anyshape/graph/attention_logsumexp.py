"""Attention in a graph with gradients: by the fused kernel, which gives what its gradient needs;
with dropout, which that kernel does not have, by products and a softmax, as torch does it."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.plan import known_arguments
from anyshape.graph.term_graph import TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.families.attention import attention_with_logsumexp
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, KNOWN_MASK, RESULT, UNRECORDED
from anyshape.ops.table import lookup
from anyshape.support.lazy_dataclass import replace

_ON_CPU: Final = ("cpu",)


def attention_arguments(node: torch.fx.Node, devices: Container[str]) -> dict[str, Any] | None:
    """What attention with gradients is given, on one of these kinds of devices: without a mask that
    is known."""
    meta, call = node.meta.get(RESULT), node.meta.get(CALL)
    if call is None or ARGUMENT in node.meta or UNRECORDED in node.meta:
        return None
    if not (isinstance(meta, Meta) and meta.requires_grad and meta.device.type in devices):
        return None
    given = _arguments(call.function, *known_arguments(node, call))
    if given is not None and KNOWN_MASK in node.meta:
        given |= {"attn_mask": None, "is_causal": node.meta[KNOWN_MASK]}
    return given


def argument_nodes(node: torch.fx.Node) -> dict[str, Any] | None:
    """The nodes of what attention is given."""
    return _arguments(node.meta[CALL].function, node.args, node.kwargs)


def _arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    entry = lookup(function)
    if entry is None or entry.op.name != "scaled_dot_product_attention":
        return None
    try:
        return dict(bind_match(entry, args, kwargs).arguments)
    except Unbound:
        return None


def heads_fit(given: dict[str, Any], terms: TermGraph) -> bool:
    """Whether these are heads that fused kernels take, without dropout."""
    query, key, value = heads = [given[name] for name in ("query", "key", "value")]
    mask, scale = given["attn_mask"], given["scale"]
    if given["dropout_p"] != 0 or type(given["is_causal"]) is not bool:
        return False
    if any(each.rank != 4 or each.dtype is not query.dtype for each in heads):
        return False
    if not (scale is None or type(scale) is float) or not query.dtype.is_floating_point:
        return False
    if mask is not None:
        plain = mask.dtype in (torch.bool, query.dtype) and mask.rank in (2, 4)
        if given["is_causal"] or mask.requires_grad or not plain:
            return False
    alike = (0, 3) if given["enable_gqa"] else (0, 1, 3)
    pairs = [(query.shape[dim], each.shape[dim]) for each in (key, value) for dim in alike]
    pairs += [(key.shape[dim], value.shape[dim]) for dim in (1, 2)]
    return all(terms.is_same(a, b) for a, b in pairs)


def with_logsumexp(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """The result, of a call that gives the logsumexp beside it."""
    metas = attention_arguments(node, _ON_CPU)
    if metas is None or metas["enable_gqa"] or not heads_fit(metas, terms):
        return None
    if not torch._C._get_flash_sdp_enabled():
        return None
    tensors = tensor_terms(node, metas, terms, mapped)
    result, _ = terms.record(attention_with_logsumexp, *tensors, metas["is_causal"], metas["scale"])
    whole = result.node.args[0]
    logsumexp = replace(whole.meta[RESULT][1], requires_grad=False)
    whole.meta[RESULT] = node.meta[RESULT], logsumexp
    result.node.meta[RESULT] = node.meta[RESULT]
    return result.node


def with_dropout(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """The scores, their softmax, noise, and the product with the values."""
    metas = attention_arguments(node, _ON_CPU)
    if metas is None or type(metas["dropout_p"]) is not float or not metas["dropout_p"]:
        return None
    if metas["enable_gqa"] or not isinstance(metas["scale"], float | None):
        return None
    query, key, value, mask = tensor_terms(node, metas, terms, mapped)
    size = query.shape[-1]
    if not isinstance(size, int) or type(metas["is_causal"]) is not bool:
        return None
    scale = size**-0.5 if metas["scale"] is None else metas["scale"]
    root = abs(scale) ** 0.5
    try:
        scores = (query * root) @ (key * math.copysign(root, scale)).transpose(-2, -1)
        if metas["is_causal"]:
            ones = scores.call(torch.ones_like, dtype=torch.bool)
            scores = scores.masked_fill(ones.call(torch.tril).logical_not(), -math.inf)
        shares = scores.softmax(-1) if mask is None else _masked_shares(scores, mask)
        noise = terms.record(torch.ones_like, shares).call(torch.dropout, metas["dropout_p"], True)
        result = (shares * noise) @ value
    except NoGradient:
        return None
    result.node.meta[RESULT] = node.meta[RESULT]
    return result.node


def _masked_shares(scores: Term, mask: Term) -> Term:
    """Rows without keys are zeros."""
    if mask.dtype is torch.bool:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    else:
        scores = scores + mask
    empty = scores.eq(-math.inf).all(-1, True)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def tensor_terms(
    node: torch.fx.Node,
    metas: dict[str, Any],
    terms: TermGraph,
    mapped: dict[torch.fx.Node, torch.fx.Node],
) -> list[Any]:
    nodes = argument_nodes(node)
    assert nodes is not None
    names = ("query", "key", "value", "attn_mask")
    return [
        None if metas[name] is None else Term(terms, mapped[nodes[name]], metas[name])
        for name in names
    ]
