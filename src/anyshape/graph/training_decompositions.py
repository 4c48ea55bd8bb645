"""A graph with gradients, made ready: parts of results have metas, and operators whose gradient
needs more than their arguments and results are written as others that give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import torch
import torch.fx

from anyshape.graph.alias_analysis import is_part
from anyshape.graph.attention_choice import with_kernel
from anyshape.graph.attention_logsumexp import with_dropout, with_logsumexp
from anyshape.graph.autograd_step import Step
from anyshape.graph.checkpoint_regions import mark_behind, redrawn
from anyshape.graph.dropout_noise import as_noise
from anyshape.graph.kept_places import with_places
from anyshape.graph.known_masks import erase_known_mask
from anyshape.graph.norm_statistics import with_statistics
from anyshape.graph.operator_parts import as_parts
from anyshape.graph.plan import leaves
from anyshape.graph.recorded_operators import as_recorded, draws
from anyshape.graph.term_graph import RecordedTerms, TermGraph
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, RESULT, SYMBOL, UNRECORDED
from anyshape.symbolic import Facts, Symbol

Mapped = dict[torch.fx.Node, torch.fx.Node]
Several = tuple[torch.fx.Node, ...]
Decomposition = Callable[[torch.fx.Node, TermGraph, Mapped], torch.fx.Node | Several | None]

#: Each gives what stands for a node, or for each of its results, in the graph that is being made;
#: None if it is not for it.
DECOMPOSITIONS: Final[tuple[Decomposition, ...]] = (
    as_noise,
    with_logsumexp,
    with_dropout,
    with_kernel,
    with_statistics,
    as_parts,
    with_places,
    as_recorded,
)


_NONE: Final[Mapping[torch.fx.Node, str]] = MappingProxyType({})


class Decomposed(NamedTuple):
    graph: torch.fx.Graph
    #: its nodes for those of the given one
    mapped: Mapped
    #: symbols that it takes behind the inputs of that
    symbols: tuple[Symbol, ...]


def decomposed(
    graph: torch.fx.Graph, facts: Facts, kernels: Mapping[torch.fx.Node, str] = _NONE
) -> Decomposed:
    """`kernels`: of attention, by node."""
    made = torch.fx.Graph()
    terms = RecordedTerms(made, facts)
    terms.kernels = kernels
    mapped: Mapped = {}
    several: dict[torch.fx.Node, Several] = {}
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            continue  # Nodes say whether they are recorded, and autograd is off where this runs.
        if is_part(node) and part_of(node)[0] in several:
            whole, place = part_of(node)
            mapped[node] = several[whole][place]
            continue
        last = made._root.prev
        with torch.set_grad_enabled(UNRECORDED not in node.meta):
            found = (each(node, terms, mapped) for each in DECOMPOSITIONS)
            own = next((each for each in found if each is not None), None)
        if isinstance(own, tuple):
            several[node] = own
        else:
            mapped[node] = _copied(made, node, mapped) if own is None else own
        for each in mark_behind(last, node):
            if _is_drawn(each):
                redrawn(each)
        if node not in mapped:
            continue
        if SYMBOL in node.meta:
            terms.symbols[node.meta[SYMBOL]] = mapped[node]
    for node in graph.nodes:
        erase_known_mask(node, mapped)
    return Decomposed(made, mapped, terms.symbols_as_inputs(frozenset(mapped.values())))


def _is_drawn(node: torch.fx.Node) -> bool:
    """Whether random numbers are drawn, and are all that there is to know of the result."""
    call, results = node.meta.get(CALL), node.meta.get(RESULT)
    if call is None or isinstance(call.function, Step) or not draws(node, call):
        return False
    metas = list(leaves(results))
    return bool(metas) and all(isinstance(e, Meta) and not e.requires_grad for e in metas)


def _copied(made: torch.fx.Graph, node: torch.fx.Node, mapped: Mapped) -> torch.fx.Node:
    own = made.node_copy(node, mapped.__getitem__)
    if is_part(node):
        whole, place = part_of(own)
        if RESULT in whole.meta:
            own.meta[RESULT] = whole.meta[RESULT][place]
    return own


def part_of(node: torch.fx.Node) -> tuple[torch.fx.Node, int]:
    """Of which node with several results this is one, and which."""
    whole, place = node.args
    assert isinstance(whole, torch.fx.Node)
    assert isinstance(place, int)
    return whole, place
