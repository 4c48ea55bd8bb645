"""A graph with gradients cut where a program sees what is in its middle.

    def f(x):
        y = x * 2
        return y, y.sin()

Gradients of the second result go through the first: hooks on it, `retain_grad` and
`torch.autograd.grad(z, y)` have to see them. So what is computed of a result is a stage of its own.

    def g(x):
        return x.sin(), x.cos()

These have nothing in common but what they are given: each has its own `backward`, and lets go what
was kept for it alone. They are stages as well, as long as effects stay in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch.fx

from anyshape.graph.alias_analysis import result_of, root_of
from anyshape.graph.plan import leaves
from anyshape.graph.stage import Node, Stage, is_number, stage_of
from anyshape.ops.bind import works_in_place
from anyshape.ops.effects import may_draw, out_of, written_by
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, UNRECORDED
from anyshape.ops.table import lookup


def stages(graph: torch.fx.Graph) -> list[Stage]:
    """The graph in parts, to be run one after the other; a single one if it need not be cut."""
    nodes = [node for node in graph.nodes if node.op != "output"]
    (output,) = [node for node in graph.nodes if node.op == "output"]
    results: Any = output.args[0]
    given = [each for each in results if isinstance(each, Node)]
    seen = {each for each in given if each.op != "placeholder" and _has_grad(each)}
    level = _apart(nodes, _levels(nodes, seen), seen)
    last = max((level[node] for node in nodes if node.op != "placeholder"), default=0)
    return [stage_of(nodes, level, number, given) for number in range(last + 1)]


def _levels(nodes: Sequence[Node], seen: set[Node]) -> dict[Node, int]:
    """Behind how many results that the program sees a node is. What has effects is in order."""
    level: dict[Node, int] = {}
    written = {root for node in nodes for root in _written(node)}
    latest: dict[Any, int] = {}
    for node in nodes:
        records = UNRECORDED not in node.meta
        before = [level[each] + (records and each in seen) for each in node.all_input_nodes]
        touched = [each for each in _touched(node) if each in written or each is _GENERATOR]
        level[node] = max([0, *before, *(latest.get(each, 0) for each in touched)])
        latest |= dict.fromkeys(touched, level[node])
    return level


#: As many independent results are told apart. More of them are more functions than they are worth.
_MOST_APART: Final = 4


def _apart(nodes: Sequence[Node], level: dict[Node, int], seen: set[Node]) -> dict[Node, int]:
    """The levels with those split whose results have nothing in common."""
    group: dict[Node, Node] = {}
    #: made of nothing that has a gradient, for whoever needs it
    free: set[Node] = set()

    def first(node: Node) -> Node:
        while group[node] is not node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    for node in nodes:
        group[node] = node
        near = [
            each
            for each in node.all_input_nodes
            if each.op != "placeholder" and level[each] == level[node] and not is_number(each)
        ]
        # Several results are one node's, and go together.
        is_tensor = isinstance(result_of(node), Meta)
        if is_tensor and not _has_grad(node) and free.issuperset(near):
            free.add(node)
        for each in near:
            if each not in free:
                group[first(each)] = first(node)
    # Of each level, in the order of the program; what no gradient comes to goes with the first.
    numbers: dict[tuple[int, Node], int] = {}
    ends = {(level[node], first(node)) for node in seen}
    for node in nodes:
        own = level[node], first(node)
        if own in ends and own not in numbers:
            numbers[own] = sum(other[0] == own[0] for other in numbers)
    places = sorted(
        {(each, 0) for each in level.values()} | {(k[0], n) for k, n in numbers.items()}
    )
    if len(places) > len(set(level.values())) + _MOST_APART - 1:
        return level
    found = {
        node: places.index((level[node], numbers.get((level[node], first(node)), 0)))
        for node in nodes
    }
    return found if _is_in_order(nodes, found) else level


def _is_in_order(nodes: Sequence[Node], level: dict[Node, int]) -> bool:
    """Whether effects come one after the other as they do in the program."""
    written = {root for node in nodes for root in _written(node)}
    latest: dict[Any, int] = {}
    for node in nodes:
        for each in _touched(node):
            if each in written or each is _GENERATOR:
                if level[node] < latest.get(each, 0):
                    return False
                latest[each] = level[node]
    return True


#: Stands for all generators of random numbers.
_GENERATOR: Final = object()


def _touched(node: Node) -> list[Any]:
    """What operators have to come to in the order of the program."""
    call = node.meta.get(CALL)
    if call is None:
        return []
    found: list[Any] = [
        root_of(each) for each in node.all_input_nodes if result_of(each) is not None
    ]
    return [*found, _GENERATOR] if may_draw(call.function) else found


def _written(node: Node) -> list[Node]:
    call = node.meta.get(CALL)
    if call is None:
        return []
    found = leaves(out_of(call.function, node.args, node.kwargs))
    entry = lookup(call.function)
    if entry is not None:
        found += written_by(entry, node.args, node.kwargs).values()
        if works_in_place(call.function, call.args, call.kwargs):
            found.append(node.args[0] if node.args else node.kwargs["input"])
    return [root_of(each) for each in found if isinstance(each, Node)]


def _has_grad(node: Node) -> bool:
    found = result_of(node)
    return isinstance(found, Meta) and found.requires_grad
