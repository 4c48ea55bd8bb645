"""A graph with gradients, made ready: parts of results have metas, and noise is a tensor."""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.attention_sums import is_attention, with_sums
from anyshape.graph.term_graph import TermGraph
from anyshape.ops.gradient import Term
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, FACTS, RESULT
from anyshape.ops.table import lookup

#: Each draws a number for each element, and multiplies by it.
_DROPOUTS: Final = frozenset({"dropout"})


def with_noise(graph: torch.fx.GraphModule) -> torch.fx.Graph:
    """The graph with metas of parts of results, and with dropout as a product with noise: the
    gradient needs it. Noise is what dropout makes of ones, which draws the same numbers."""
    nodes = list(graph.graph.nodes)
    made = torch.fx.Graph()
    terms = TermGraph(made, graph.meta[FACTS])
    mapped: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in nodes:
        if node.target is torch._C._set_grad_enabled:
            continue  # Nodes say whether they are recorded, and autograd is off where this runs.
        if is_attention(node, terms):
            mapped[node] = with_sums(node, terms, mapped)
            continue
        if not _is_dropout(node):
            own = mapped[node] = made.node_copy(node, mapped.__getitem__)
            if node.target is operator.getitem and CALL not in node.meta:
                whole, place = part_of(own)
                if RESULT in whole.meta:
                    own.meta[RESULT] = whole.meta[RESULT][place]
            continue
        given: Any = node.args[0]
        input = Term(terms, mapped[given], given.meta[RESULT])
        call = node.meta[CALL]
        ones = input.call(torch.ones_like)
        ones.node.meta[RESULT] = ones.meta = terms.without_grad(ones.meta)
        noise = ones.call(call.function, *call.args[1:], **call.kwargs)
        product = input * noise
        product.node.meta[RESULT] = node.meta[RESULT]
        mapped[node] = product.node
    return made


def _is_dropout(node: torch.fx.Node) -> bool:
    call = node.meta.get(CALL)
    if call is None or ARGUMENT in node.meta:
        return False
    entry = lookup(call.function)
    if entry is None or entry.op.name not in _DROPOUTS or entry.in_place:
        return False
    if call.kwargs.get("inplace"):
        return False
    meta = node.meta.get(RESULT)
    # On other devices kernels draw in their own way, by generators that nobody has looked at.
    return isinstance(meta, Meta) and meta.requires_grad and meta.device.type == "cpu"


def part_of(node: torch.fx.Node) -> tuple[torch.fx.Node, int]:
    """Of which node with several results this is one, and which."""
    whole, place = node.args
    assert isinstance(whole, torch.fx.Node)
    assert isinstance(place, int)
    return whole, place
