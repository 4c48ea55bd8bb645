"""Operators that give places beside values: gradients go back to them, also where nobody asks."""

from __future__ import annotations

import operator
from typing import Final

import torch
import torch.fx

from anyshape.graph.term_graph import TermGraph
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT, UNRECORDED
from anyshape.ops.table import lookup

_GIVE_PLACES: Final = frozenset(
    {"cummax", "cummin", "kthvalue", "median", "mode", "nanmedian", "sort", "topk"}
)
#: On the processor it is the first of equal ones, and can be found again.
_GIVE_PLACES_ON_GPUS: Final = frozenset({"max", "min"})


def with_places(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """The operator as it is, and its places as a node."""
    call, result = node.meta.get(CALL), node.meta.get(RESULT)
    if call is None or ARGUMENT in node.meta or UNRECORDED in node.meta:
        return None
    entry = lookup(call.function)
    if entry is None or not isinstance(result, tuple):
        return None
    values, places = result if len(result) == 2 else (None, None)
    if not isinstance(values, Meta) or not values.requires_grad:
        return None
    on_gpu = values.device.type != "cpu" and entry.op.name in _GIVE_PLACES_ON_GPUS
    if not on_gpu and entry.op.name not in _GIVE_PLACES:
        return None
    graph = mapped[node.all_input_nodes[0]].graph
    own = graph.node_copy(node, mapped.__getitem__)
    part = graph.call_function(operator.getitem, (own, 1))
    part.meta[RESULT] = places
    return own
