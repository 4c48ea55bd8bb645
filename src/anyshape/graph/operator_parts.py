"""Operators in a graph with gradients that torch has made of others: written by those."""

from __future__ import annotations

from typing import Any

import torch.fx

from anyshape.graph.alias_analysis import is_part
from anyshape.graph.plan import paired_tree
from anyshape.graph.term_graph import Number, TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT, UNRECORDED
from anyshape.ops.op import PARTS
from anyshape.ops.signature import taken_by
from anyshape.ops.table import lookup
from anyshape.support.error_notes import noting
from anyshape.symbolic import Expr

Mapped = dict[torch.fx.Node, torch.fx.Node]


def as_parts(
    node: torch.fx.Node, terms: TermGraph, mapped: Mapped
) -> torch.fx.Node | tuple[torch.fx.Node, ...] | None:
    """The result, or each of several, by the parts of the operator; None if that is not just the
    same."""
    call = node.meta.get(CALL)
    metas: Any = node.meta.get(RESULT)
    is_one = isinstance(metas, Meta)
    if call is None or ARGUMENT in node.meta or UNRECORDED in node.meta:
        return None
    entry = lookup(call.function)
    formula = None if entry is None or entry.in_place else PARTS.get(entry.op.name)
    if formula is None or not (is_one or all(map(is_part, node.users))):
        return None
    wanted = (metas,) if is_one else metas
    if not any(isinstance(meta, Meta) and meta.requires_grad for meta in wanted):
        return None
    assert entry is not None

    def given(each: torch.fx.Node, known: Any) -> Any:
        if isinstance(known, Expr):
            return terms.settled(known)
        own = mapped[each]
        return Term(terms, own, known) if isinstance(known, Meta) else Number(own, known)

    last = terms.last()
    try:
        args, kwargs = paired_tree((node.args, node.kwargs), (call.args, call.kwargs), given)
        bound = bind_match(entry, args, kwargs)
        if bound.in_place or bound.out is not None:
            return None
        known = {"function": entry.op.name, **bound.arguments}
        with noting(f"in the parts of `{entry.op.name}`"):
            made = formula(terms, **taken_by(formula, known))
    except (NoGradient, Unbound):
        terms.erase_behind(last)
        return None
    found: Any = (made,) if isinstance(made, Term) else made
    pairs = list(zip(found, wanted, strict=False))
    is_whole = isinstance(made, Term) == is_one and len(found) == len(wanted)
    if not is_whole or not all(_is_same(terms, each.meta, meta) for each, meta in pairs):
        terms.erase_behind(last)
        return None
    for each, meta in pairs:
        each.node.meta[RESULT] = meta
    return made.node if is_one else tuple(each.node for each in found)


def _is_same(terms: TermGraph, a: Meta, b: Meta) -> bool:
    """Whether two metas are of one tensor, whose sizes may go by several names."""
    if (a.dtype, a.device, a.requires_grad) != (b.dtype, b.device, b.requires_grad):
        return False
    if a.rank != b.rank or not terms.is_same(a.offset, b.offset):
        return False
    pairs = [*zip(a.shape, b.shape, strict=True), *zip(a.strides, b.strides, strict=True)]
    return all(terms.is_same(one, other) for one, other in pairs)
