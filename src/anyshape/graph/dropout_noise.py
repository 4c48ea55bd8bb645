"""Dropout as a product with noise: the gradient needs it. Noise is what dropout makes of ones, and
draws the same numbers. A GPU's kernel multiplies by the scale without rounding it first, so that
what it makes is taken apart."""

from __future__ import annotations

from typing import Final

import torch
import torch.fx

from anyshape.graph.autograd_step import Place, placed
from anyshape.graph.term_graph import TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.gradient import Term
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import mapped_tree
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT, RecordedCall
from anyshape.ops.table import lookup

#: Each draws numbers, and multiplies by them.
_DROPOUTS: Final = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"})


def as_noise(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    if not _is_dropout(node):
        return None
    call = node.meta[CALL]
    known = placed(node, call)
    if len(known.given) != 1:
        return None  # The share is a number of the graph.
    ((given, meta),) = known.given.items()
    input = Term(terms, mapped[given], meta)
    ones = input.call(torch.ones_like)
    args, kwargs = mapped_tree(known.spec, lambda each: ones if isinstance(each, Place) else each)
    noise = terms.record(call.function, *args, **kwargs)
    scale = _scale(call) if input.meta.device.type == "cuda" else None
    product = input * noise if scale is None else (input * noise.ne(0)) * scale
    product.node.meta[RESULT] = node.meta[RESULT]
    return product.node


def _is_dropout(node: torch.fx.Node) -> bool:
    call = node.meta.get(CALL)
    if call is None or ARGUMENT in node.meta:
        return False
    entry = lookup(call.function)
    if entry is None or entry.op.name not in _DROPOUTS:
        return False
    meta = node.meta.get(RESULT)
    # On other devices kernels draw in their own way, by generators that nobody has looked at.
    known = isinstance(meta, Meta) and meta.device.type in ("cpu", "cuda")
    return isinstance(meta, Meta) and meta.requires_grad and known


def _scale(call: RecordedCall) -> float | None:
    """What the one kernel for dropout multiplies by; None if others draw, and round it."""
    entry = lookup(call.function)
    assert entry is not None, "what is called is dropout"
    if entry.op.name != "dropout":
        return None
    try:
        p = bind_match(entry, call.args, call.kwargs).arguments["p"]
    except Unbound:
        return None
    return 1 / (1 - p) if isinstance(p, float) and 0 < p < 1 else None
