"""Operators in a graph with gradients that have no row: recorded by torch's autograd where they are
run, so that none has to run again for its gradient."""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import is_part
from anyshape.graph.autograd_step import RecordedOperator, placed
from anyshape.graph.term_graph import TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.effects import may_draw, written_by
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.op import GRADIENT, NATIVE, PARTS, OpKind
from anyshape.ops.table import OpMatch, lookup

Mapped = dict[torch.fx.Node, torch.fx.Node]


def as_recorded(
    node: torch.fx.Node, terms: TermGraph, mapped: Mapped
) -> torch.fx.Node | tuple[torch.fx.Node, ...] | None:
    """What stands for the results; None if the operator is not one that torch is called for, has a
    row, or gives tensors that are not its own."""
    call = node.meta.get(CALL)
    if call is None or ARGUMENT in node.meta or UNRECORDED in node.meta:
        return None
    entry = lookup(call.function)
    metas: Any = node.meta.get(RESULT)
    results = (metas,) if isinstance(metas, Meta) else metas
    if entry is None or not _is_called(entry) or not isinstance(results, tuple):
        return None
    if not all(isinstance(each, Meta) and each.shares_if is None for each in results):
        return None
    if not any(each.requires_grad for each in results) or draws(node, call):
        return None
    if not isinstance(metas, Meta) and not all(map(is_part, node.users)):
        return None
    if _writes(entry, node) or gives_sparse(entry, call):
        return None
    known = placed(node, call)
    given = [mapped[each] for each in known.given]
    wanted = [
        isinstance(meta, Meta) and meta.requires_grad and UNRECORDED not in each.meta
        for each, meta in known.given.items()
    ]
    step = RecordedOperator(known.function, known.spec, wanted, isinstance(metas, Meta))
    graph = given[0].graph
    whole = graph.call_function(step, tuple(given))
    whole.meta[CALL] = RecordedCall(step, tuple(known.given.values()), {})
    record = results[0].like((0,), torch.float32, contiguous(1))
    whole.meta[RESULT] = (*results, terms.without_grad(record))
    parts: list[torch.fx.Node] = []
    for place, meta in enumerate(whole.meta[RESULT]):
        part = graph.call_function(operator.getitem, (whole, place))
        part.meta[RESULT] = meta
        parts.append(part)
    return parts[0] if isinstance(metas, Meta) else tuple(parts[:-1])


def _is_called(entry: OpMatch) -> bool:
    """Whether it is torch that computes results and gradients of the operator."""
    name = entry.op.name
    has_row = name in GRADIENT or name in PARTS or name in NATIVE
    return entry.op.lowering is OpKind.CALL_OUT and not has_row and not entry.in_place


def _writes(entry: OpMatch, node: torch.fx.Node) -> bool:
    try:
        return "out" in node.kwargs or bool(written_by(entry, node.args, node.kwargs))
    except Unbound:
        return True


def gives_sparse(entry: OpMatch, call: RecordedCall) -> bool:
    try:
        return bind_match(entry, call.args, call.kwargs).arguments.get("sparse", False) is not False
    except Unbound:
        return True


def draws(node: torch.fx.Node, call: RecordedCall) -> bool:
    """Whether an operator draws random numbers, with its arguments."""
    if isinstance(call.function, RecordedOperator):
        return False
    if not may_draw(call.function) or ARGUMENT in node.meta:
        return False
    entry = lookup(call.function)
    if entry is None:
        return True
    try:
        bound = bind_match(entry, call.args, call.kwargs)
    except Unbound:
        return True
    given = bound.arguments
    return not any(name in given and given[name] == never for name, never in _DRAW_NOTHING)


#: With these arguments nothing is drawn.
_DRAW_NOTHING: Final = (("dropout_p", 0), ("dropout", 0), ("p", 0), ("train", False))
