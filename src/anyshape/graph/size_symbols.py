"""Symbols in the sizes of tensors of a graph: those that some tensor needs, and those that some
tensor shows."""

from __future__ import annotations

from collections.abc import Iterable

import torch.fx

from anyshape.graph.plan import leaves
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT
from anyshape.symbolic import Symbol
from anyshape.symbolic.expr import of_atom, symbols_of


def symbols_in(node: torch.fx.Node) -> set[Symbol]:
    """Those in the sizes of what a node gives."""
    metas = [each for each in leaves(node.meta.get(RESULT)) if isinstance(each, Meta)]
    return {symbol for meta in metas for size in meta.shape for symbol in symbols_of(size)}


def shown_by(nodes: Iterable[torch.fx.Node]) -> set[Symbol]:
    """Symbols that are sizes of tensors, by themselves."""
    metas = [node.meta.get(RESULT) for node in nodes]
    sizes = {size for meta in metas if isinstance(meta, Meta) for size in meta.shape}
    found = {symbol for size in sizes for symbol in symbols_of(size)}
    return {symbol for symbol in found if of_atom(symbol) in sizes}
