"""A graph whose operators give results of their own, where the program has them written into a
tensor that it gives.

    torch.mv(w, v, out=u)       # u.copy_(torch.mv(w, v))

So there is one kind of write to follow, and native code for both halves.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.errors import AnyshapeError
from anyshape.graph.alias_analysis import result_of, root_of
from anyshape.graph.plan import leaves
from anyshape.ops.effects import may_draw
from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, FACTS, OUT_COPY, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.op import OpKind
from anyshape.ops.table import lookup
from anyshape.symbolic import Facts

Node = torch.fx.Node


def without_given_results(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph itself if there is nothing to change. What may not come to the same stays."""
    facts: Facts = graph.meta[FACTS]
    values = {node: _value(node, facts) for node in graph.graph.nodes if "out" in node.kwargs}
    if not any(values.values()):
        return graph
    made = torch.fx.Graph()
    mapped: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        value = values.get(node)
        if value is None:
            mapped[node] = made.node_copy(node, mapped.__getitem__)
        else:
            mapped[node] = _copied_into(made, node, value, mapped)
    own = _LazyGraphModule(torch.nn.Module(), made)
    own.meta = graph.meta  # What the backend says of the one is said of the other.
    return own


def _copied_into(graph: torch.fx.Graph, node: Node, value: Meta, mapped: dict[Node, Node]) -> Node:
    function, args, kwargs = node.meta[CALL]
    made = graph.node_copy(node, mapped.__getitem__)
    target = made.kwargs["out"]
    assert isinstance(target, Node), "a single tensor, as `_value` has seen"
    made.kwargs = {key: each for key, each in made.kwargs.items() if key != "out"}
    named = {key: each for key, each in kwargs.items() if key != "out"}
    made.meta |= {CALL: RecordedCall(function, args, named), RESULT: value}
    copy = graph.call_method("copy_", (target, made))
    call = RecordedCall(torch.Tensor.copy_, (kwargs["out"], value), {})
    copy.meta = {**node.meta, CALL: call, OUT_COPY: True}
    return copy


def as_written(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph in which operators write such results themselves again, to be run where tensors share
    memory: torch refuses to write to a part of what an operator reads, and would copy to it."""
    nodes: list[Node] = list(graph.graph.nodes)
    copied: dict[Node, Any] = {node: node.args[1] for node in nodes if _is_out_copy(node)}
    operators = {made: copy for copy, made in copied.items() if list(made.users) == [copy]}
    if not operators:
        return graph
    written = torch.fx.Graph()
    mapped: dict[Node, Node] = {}
    for node in nodes:
        made: Any = copied.get(node)
        if made in operators:
            own = mapped[node] = written.node_copy(made, mapped.__getitem__)
            own.kwargs = {**own.kwargs, "out": mapped[node.all_input_nodes[0]]}
        elif node not in operators:
            mapped[node] = written.node_copy(node, mapped.__getitem__)
    return _LazyGraphModule(graph, written)


def _is_out_copy(node: Node) -> bool:
    return OUT_COPY in node.meta and node.target == "copy_" and isinstance(node.args[1], Node)


def _value(node: Node, facts: Facts) -> Meta | None:
    """What the operator gives by itself, if a copy of that leaves the given tensor as it would."""
    call, target = node.meta.get(CALL), node.kwargs["out"]
    if call is None or not isinstance(target, Node) or may_draw(call.function):
        return None
    entry, into = lookup(call.function), result_of(target)
    if entry is None or not isinstance(into, Meta) or into.requires_grad:
        return None
    # Of operators but those by elements torch may read what it has written already.
    others = leaves([node.args, {key: v for key, v in node.kwargs.items() if key != "out"}])
    root = root_of(target)
    for each in others:
        is_itself = each is target and entry.op.lowering is OpKind.POINTWISE
        if isinstance(each, Node) and not is_itself and root_of(each) is root:
            return None
    named = {key: each for key, each in call.kwargs.items() if key != "out"}
    try:
        with torch.set_grad_enabled(UNRECORDED not in node.meta):
            found = infer(facts, call.function, call.args, named)
    except AnyshapeError:
        return None
    value = found.value
    if not isinstance(value, Meta) or found.needs or found.unbacked or value.requires_grad:
        return None
    # Another dtype may be computed in, another shape is a tensor that is resized.
    is_alike = (value.dtype, value.device, value.rank) == (into.dtype, into.device, into.rank)
    return value if is_alike and all(map(facts.equal, value.shape, into.shape)) else None
