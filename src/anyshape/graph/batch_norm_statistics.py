"""Batch norm in training, in a graph with gradients: by an operator that gives its statistics. What
runs along is updated of them, behind the back of version counters, as torch does it."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from anyshape.graph.term_graph import TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.families.batch_statistics import batch_norm_with_statistics, values_of_channel
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.table import lookup

_NAMES = ("batch_norm", "functional_batch_norm")
_DATA = vars(torch._C.TensorBase)["data"].__get__


def with_statistics(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    call, meta = node.meta.get(CALL), node.meta.get(RESULT)
    entry = None if call is None else lookup(call.function)
    if call is None or entry is None or entry.op.name not in _NAMES or UNRECORDED in node.meta:
        return None
    if not isinstance(meta, Meta) or not meta.requires_grad or meta.rank < 2:
        return None
    try:
        metas = bind_match(entry, call.args, call.kwargs).arguments
        nodes = bind_match(entry, node.args, node.kwargs).arguments
    except Unbound:
        return None
    numbers = (metas["momentum"], metas["eps"])
    if metas["training"] is not True or any(type(each) is not float for each in numbers):
        return None

    def term(name: str) -> Term | None:
        known = metas[name]
        return None if known is None else Term(terms, mapped[nodes[name]], known)

    tensors = [term(name) for name in ("input", "weight", "bias")]
    try:
        result, mean, variance = terms.record(batch_norm_with_statistics, *tensors, metas["eps"])
        count = values_of_channel(metas["input"])
        # What runs along is the variance without bias, and only that.
        now = {"running_mean": mean, "running_var": variance * count / (count - 1)}
        for name, each in now.items():
            running = term(name)
            if running is not None:
                _update(terms, running, each.detach(), metas)
    except NoGradient:
        return None
    whole = result.node.args[0]
    whole.meta[RESULT] = node.meta[RESULT], *whole.meta[RESULT][1:]
    result.node.meta[RESULT] = node.meta[RESULT]
    return result.node


def _update(terms: TermGraph, running: Term, now: Term, given: dict[str, Any]) -> None:
    own = now.reshape(running.shape).to(running.dtype)
    count = values_of_channel(given["input"])
    # Of nothing torch has no statistics.
    any_values = terms.record(torch.full, (), count, device=running.meta.device) > 0
    new = any_values.call(torch.where, running.lerp(own, given["momentum"]), running)
    _write(running, new, terms)


def _write(running: Term, new: Term, terms: TermGraph) -> None:
    """`running.data.copy_(new)`"""
    graph = running.node.graph
    data = graph.call_function(getattr, (running.node, "data"))
    data.meta[CALL] = RecordedCall(_DATA, (running.meta,), {})
    data.meta[RESULT] = running.meta
    Term(terms, data, running.meta).call(torch.Tensor.copy_, new)
