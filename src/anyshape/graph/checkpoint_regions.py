"""What a program calls through `torch.utils.checkpoint`: computed again in the backward, not kept.

Nodes of such a call have its region in their metas. In native code the backward graph computes them
again (`backward_cut.py`); where a graph runs operator by operator, torch's own function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils.checkpoint import checkpoint

from anyshape.graph.alias_analysis import is_part
from anyshape.graph.autograd_step import Step, filled, placed
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.node_meta import CALL, CHECKPOINT, RESULT, RecordedCall
from anyshape.support.random_state import default_generators

Node = torch.fx.Node


def region_at(node: Node) -> object | None:
    """The call of checkpoint that a node is in; parts are where the whole is."""
    while is_part(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node.meta.get(CHECKPOINT)


def mark_behind(last: Node, node: Node) -> list[Node]:
    """Say of all nodes behind that they are where this one is, which they stand for. Gives them, if
    that is a region."""
    region = region_at(node)
    if region is None:
        return []
    made: list[Node] = []
    each = last.next
    while each.op != "root":
        if each.op != "placeholder":
            each.meta[CHECKPOINT] = region
            made.append(each)
        each = each.next
    return made


# -- random numbers --------------------------------------------------------------------------------


class DrawRecord(Step):
    """An empty tensor, which remembers the state that random numbers are drawn from."""

    __name__ = "draw_record"

    def __init__(self, device: torch.device | None) -> None:
        self._device = device

    def __call__(self) -> torch.Tensor:
        return torch.empty(0, device=self._device)


class Redrawn(Step):
    """An operator that draws random numbers. Called once more with its record, it gives the same
    ones, and leaves the state as it is."""

    def __init__(self, function: Callable[..., Any], spec: tuple[Any, dict[str, Any]]) -> None:
        self._function = function
        self._spec = spec
        self.__name__ = f"{getattr(function, '__name__', function)} drawn again"

    def __call__(self, record: torch.Tensor, *given: Any) -> Any:
        args, kwargs = filled(self._spec, given)
        before = getattr(record, _STATE, None)
        now = default_generators.get_state()
        if before is None:
            setattr(record, _STATE, now)
            return self._function(*args, **kwargs)
        default_generators.set_state(before)
        try:
            return self._function(*args, **kwargs)
        finally:
            default_generators.set_state(now)


_STATE: Final = "_anyshape_random_state"


def redrawn(node: Node) -> None:
    """Let a node of a region draw the same numbers when it is computed again."""
    call = node.meta[CALL]
    known = placed(node, call)
    result = node.meta[RESULT]
    device = result.device if isinstance(result, Meta) else None
    with node.graph.inserting_before(node):
        make = DrawRecord(device)
        record = node.graph.call_function(make, ())
    own = Meta((0,), torch.float32, contiguous(1), device or torch.device("cpu"))
    record.meta |= {CALL: RecordedCall(make, (), {}), RESULT: own}
    step = Redrawn(known.function, known.spec)
    node.op, node.target, node.kwargs = "call_function", step, {}
    node.args = (record, *known.given)
    node.meta[CALL] = RecordedCall(step, (own, *known.given.values()), {})


# -- graphs that run operator by operator ----------------------------------------------------------


def with_checkpoints(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph with calls of torch's own checkpoint for its regions, if there are any."""
    members: dict[object, list[Node]] = {}
    for node in module.graph.nodes:
        region = region_at(node)
        # Numbers made of sizes are used behind it, too.
        if region is not None and (CALL in node.meta or is_part(node)):
            members.setdefault(region, []).append(node)
    if not members:
        return module
    graph = torch.fx.Graph()
    mapped: dict[Node, Node] = {}
    ends = {nodes[-1]: nodes for nodes in members.values()}
    inside = {node for nodes in members.values() for node in nodes}
    for node in module.graph.nodes:
        if node in ends:
            if not _call(graph, ends[node], mapped):
                return module
        elif node not in inside:
            if any(each not in mapped for each in node.all_input_nodes):
                return module
            mapped[node] = graph.node_copy(node, mapped.__getitem__)
    made = _LazyGraphModule(torch.nn.Module(), graph)
    made.meta |= module.meta
    return made


def _call(graph: torch.fx.Graph, nodes: Sequence[Node], mapped: dict[Node, Node]) -> bool:
    """Add a call of checkpoint for these; False if something between them is made of them."""
    own = set(nodes)
    inputs = list(dict.fromkeys(e for n in nodes for e in n.all_input_nodes if e not in own))
    if any(each not in mapped for each in inputs):
        return False
    inner = torch.fx.Graph()
    copies = {each: inner.placeholder(each.name) for each in inputs}
    for node in nodes:
        copies[node] = inner.node_copy(node, copies.__getitem__)
    outputs = [node for node in nodes if any(each not in own for each in node.users)]
    inner.output(tuple(copies[node] for node in outputs))
    function = torch.fx.GraphModule(torch.nn.Module(), inner).forward

    def checkpointed(*given: Any) -> Any:
        return checkpoint(function, *given, use_reentrant=False)

    whole = graph.call_function(checkpointed, tuple(mapped[each] for each in inputs))
    for place, node in enumerate(outputs):
        mapped[node] = graph.call_function(_part, (whole, place))
    return True


def _part(results: Sequence[Any], place: int) -> Any:
    return results[place]
