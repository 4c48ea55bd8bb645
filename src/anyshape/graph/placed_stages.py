"""A graph cut where it goes from one place to another: from the processor to a GPU, or from what is
recorded as a CUDA graph to what waits for the GPU.

    def step(count, weight, grad):      # count is on the processor
        count += 1
        weight -= grad / count

Native code is for one device. Each stage is a graph of its own, on one device; what an optimizer
counts on the processor is one stage, and what it does on the GPU another. Operators keep their
order where one could tell: what writes to a tensor and what else touches it, and what draws.
Tensors that a graph is given count as apart, which whoever runs the stages has to see to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import Sharing, function_of, is_part, match_of, result_of
from anyshape.graph.backward_graph import MODES
from anyshape.graph.fallback import may_write
from anyshape.graph.plan import leaves
from anyshape.graph.size_symbols import shown_by
from anyshape.graph.stage import Node, Stage, is_number, stage_of
from anyshape.ops.effects import may_draw
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, NUMBER, SYMBOL
from anyshape.ops.runtime_checks import CHECKS

Place = Hashable

#: As many stages are worth the calls that they are.
_MOST: Final = 8
#: Stands for all generators of random numbers.
_GENERATOR: Final = object()
_READS: Final = frozenset({"size", "item", "tolist", "dim", "numel", "stride", operator.getitem})


def device_of(node: Node) -> torch.device | None:
    """Where a node computes: where its result is, or else what it reads."""
    for each in (node, *node.all_input_nodes):
        for leaf in leaves(result_of(each)):
            if isinstance(leaf, Meta):
                return leaf.device
    return None


def placed_stages(
    graph: torch.fx.Graph, place_of: Callable[[Node], Place | None] = device_of
) -> list[Stage]:
    """The graph in parts that are at one place each, to be run one after the other; empty if all of
    it is at one, or it cannot be cut. `place_of`: None for what may be anywhere."""
    nodes = [node for node in graph.nodes if node.op != "output"]
    calls = [node for node in nodes if node.op != "placeholder"]
    places = {node: None if _is_anywhere(node) else place_of(node) for node in calls}
    if len(set(places.values()) - {None}) < 2 or any(node.target in MODES for node in calls):
        return []
    level = _levels(nodes, places, Sharing(graph, may_write))
    last = max(level.values())
    if last >= _MOST:
        return []
    (output,) = [node for node in graph.nodes if node.op == "output"]
    given = set(output.all_input_nodes)
    found = [stage_of(nodes, level, number, given) for number in range(last + 1)]
    inputs = [node for node in nodes if node.op == "placeholder"]
    known = shown_by(inputs) | {node.meta[SYMBOL] for node in inputs if SYMBOL in node.meta}
    # Sizes that data says are those of tensors; a stage that is not given one cannot know them.
    return found if all(known.issuperset(stage.symbols) for stage in found) else []


def _is_anywhere(node: Node) -> bool:
    return is_part(node) or NUMBER in node.meta or is_number(node)


def _levels(
    nodes: Sequence[Node], places: dict[Node, Place | None], sharing: Sharing
) -> dict[Node, int]:
    """The number of each node's stage: the first at its place that is behind all that it needs."""
    stages: list[Place] = []
    latest: dict[Any, int] = {}
    level: dict[Node, int] = {}
    #: nothing behind what may do anything comes before it
    least_of_all = 0
    for node in nodes:
        if node not in places:
            level[node] = 0
            continue
        storages = {sharing.first(each) for each in (node, *node.all_input_nodes)}
        touched: list[Any] = [each for each in storages if sharing.is_written_to(each)]
        if may_draw(function_of(node)):
            touched.append(_GENERATOR)
        before = [level[each] for each in node.all_input_nodes]
        least = max([least_of_all, *before, *(latest.get(each, 0) for each in touched)])
        is_barrier = _may_do_anything(node)
        if is_barrier:
            least = max(level.values(), default=0)
        place = places[node]
        own = least
        if place is not None:
            own = next(n for n in count(least) if n >= len(stages) or stages[n] == place)
            if own == len(stages):
                stages.append(place)
        level[node] = own
        latest |= dict.fromkeys(touched, own)
        if is_barrier:
            least_of_all = own
    return level


def _may_do_anything(node: Node) -> bool:
    """A step of which no row tells what it writes and what its results share memory with."""
    if CALL in node.meta:
        return match_of(node) is None and region_of(node.target) is None
    if is_part(node) or NUMBER in node.meta or node.target in _READS or node.target in CHECKS:
        return False
    return not (is_number(node) and node.all_input_nodes)
