"""Batch norm and group norm in a graph with gradients: their statistics are operators of their own.
What runs along is updated of those of a batch, behind the back of version counters, as torch does
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from anyshape.graph.plan import known_arguments
from anyshape.graph.term_graph import Number, TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.families.norm_statistics import (
    batch_statistics,
    normalized,
    precomputed,
    sum_of_groups,
    values_of_channel,
    values_of_group,
)
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.table import lookup
from anyshape.symbolic import Answer, ge

_OF_BATCH = ("batch_norm", "functional_batch_norm")
_OF_GROUPS = ("group_norm", "functional_group_norm")
_DATA = vars(torch._C.TensorBase)["data"].__get__


def with_statistics(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    call, meta = node.meta.get(CALL), node.meta.get(RESULT)
    entry = None if call is None else lookup(call.function)
    if call is None or entry is None or UNRECORDED in node.meta:
        return None
    if entry.op.name not in (*_OF_BATCH, *_OF_GROUPS):
        return None
    if not isinstance(meta, Meta) or not meta.requires_grad or meta.rank < 2:
        return None
    try:
        metas = bind_match(entry, *known_arguments(node, call)).arguments
        seen = bind_match(entry, call.args, call.kwargs).arguments
        nodes = bind_match(entry, node.args, node.kwargs).arguments
    except Unbound:
        return None

    def term(name: str) -> Term | None:
        known = metas[name]
        return None if known is None else Term(terms, mapped[nodes[name]], known)

    given, weight, bias = (term(name) for name in ("input", "weight", "bias"))
    assert given is not None
    is_batch = entry.op.name in _OF_BATCH
    groups: Any = 0 if is_batch else metas["num_groups"]
    if type(groups) is not int or type(metas["eps"]) is not float:
        return None
    momentum: Any = metas.get("momentum")
    if isinstance(momentum, torch.fx.Node):
        momentum = Number(mapped[momentum], seen["momentum"])
    elif is_batch and type(momentum) is not float:
        return None
    if is_batch and metas["training"] is not True:
        return None
    last = terms.last()
    try:
        if is_batch:
            found = _of_batch(terms, given.detach(), momentum, term)
        else:
            found = _of_groups(terms, given.detach(), groups)
        if found is None:
            terms.erase_behind(last)
            return None
        mean, variance = found
        inverse = (variance + metas["eps"]).rsqrt().call(precomputed)
        result = given.call(normalized, mean.call(precomputed), inverse, weight, bias, groups)
    except NoGradient:
        terms.erase_behind(last)
        return None
    result.node.meta[RESULT] = node.meta[RESULT]
    return result.node


def _of_batch(
    terms: TermGraph, input: Term, momentum: Any, term: Callable[[str], Term | None]
) -> tuple[Term, Term]:
    mean, variance = input.call(batch_statistics)
    count = values_of_channel(input.meta)
    # What runs along is the variance without bias, and only that.
    now = {"running_mean": mean, "running_var": variance * count / (count - 1)}
    for name, each in now.items():
        running = term(name)
        if running is not None:
            _update(terms, running, each, count, momentum)
    return mean, variance


def _of_groups(terms: TermGraph, input: Term, groups: int) -> tuple[Term, Term] | None:
    count = values_of_group(input.meta, groups)
    # Torch rounds statistics of 16-bit floats in places of its own.
    is_whole = input.dtype in (torch.float32, torch.float64) and input.rank > 2
    if not is_whole or terms.prove(ge(count, 1)) is not Answer.YES:
        return None
    dims = list(range(2, input.rank))

    def mean_of(each: Term) -> Term:
        return each.sum(dims, True).call(sum_of_groups, groups) / count

    mean = mean_of(input)
    away = input - mean
    return mean, mean_of(away * away)


def _update(terms: TermGraph, running: Term, now: Term, count: Any, momentum: Any) -> None:
    own = now.reshape(running.shape).to(running.dtype)
    # Of nothing torch has no statistics.
    any_values = terms.record(torch.full, (), count, device=running.meta.device) > 0
    new = any_values.call(torch.where, running.lerp(own, momentum), running)
    _write(running, new, terms)


def _write(running: Term, new: Term, terms: TermGraph) -> None:
    """`running.data.copy_(new)`"""
    graph = running.node.graph
    data = graph.call_function(getattr, (running.node, "data"))
    data.meta[CALL] = RecordedCall(_DATA, (running.meta,), {})
    data.meta[RESULT] = running.meta
    Term(terms, data, running.meta).call(torch.Tensor.copy_, new)
