"""A part of a graph as a graph of its own: what it takes of the parts before it, and what it gives
to those behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import NamedTuple

import torch
import torch.fx

from anyshape.graph.alias_analysis import is_part, result_of
from anyshape.graph.size_symbols import shown_by, symbols_in
from anyshape.ops.node_meta import CALL, RESULT, SYMBOL
from anyshape.symbolic import Symbol

Node = torch.fx.Node


class Stage(NamedTuple):
    graph: torch.fx.Graph
    #: what it takes, and what it gives: nodes of the whole graph
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    #: what it takes besides: sizes that no tensor among its inputs shows
    symbols: tuple[Symbol, ...]


def stage_of(
    nodes: Sequence[Node], level: Mapping[Node, int], number: int, given: Collection[Node]
) -> Stage:
    """The nodes of this number. `given`: results of the whole graph."""
    own = {node for node in nodes if node.op != "placeholder" and level[node] == number}
    for node in reversed(nodes):
        if node in own:
            own |= {each for each in node.all_input_nodes if is_number(each)}
    modes = {node for node in nodes if node.target is torch._C._set_grad_enabled}
    read = {each for node in own for each in node.all_input_nodes if each not in own}
    graph = torch.fx.Graph()
    mapped: dict[Node, Node] = {}
    inputs = [node for node in nodes if node in read]
    for node in inputs:
        made = mapped[node] = graph.placeholder(node.name)
        made.meta = {key: value for key, value in node.meta.items() if key != CALL}
        if is_part(node):
            made.meta[RESULT] = result_of(node)
    symbols = _hidden(own, inputs)
    for symbol in symbols:
        graph.placeholder(symbol.name).meta[SYMBOL] = symbol
    for node in nodes:
        if node in own or node in modes:
            mapped[node] = graph.node_copy(node, mapped.__getitem__)
    behind = {each for node in nodes if level[node] > number for each in node.all_input_nodes}
    outputs = [
        node
        for node in nodes
        if node in own and (node in given or (node in behind and not is_number(node)))
    ]
    graph.output(tuple(mapped[node] for node in outputs))
    return Stage(graph, tuple(inputs), tuple(outputs), symbols)


def _hidden(nodes: Set[Node], inputs: Sequence[Node]) -> tuple[Symbol, ...]:
    needed = {symbol for node in (*nodes, *inputs) for symbol in symbols_in(node)}
    of_data = {node.meta[SYMBOL] for node in nodes if SYMBOL in node.meta}
    for node in nodes:
        taken = {symbol for each in node.all_input_nodes for symbol in symbols_in(each)}
        of_data |= {symbol for symbol in symbols_in(node) - taken if not symbol.backed}
    given = {node.meta[SYMBOL] for node in inputs if SYMBOL in node.meta}
    hidden = needed - shown_by(inputs) - given - of_data
    return tuple(sorted(hidden, key=lambda symbol: symbol.name))


def is_number(node: Node) -> bool:
    """A number made of numbers, which takes nothing to make."""
    if node.op == "placeholder" or CALL in node.meta or result_of(node) is not None:
        return False
    return all(SYMBOL in each.meta or is_number(each) for each in node.all_input_nodes)
