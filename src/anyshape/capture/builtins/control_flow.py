"""`torch.cond`, `torch.while_loop` and `map`: all branches are captured, one is taken in a run.

A branch runs for real, into the graph at hand; its nodes are then moved into a graph of their own.
What holds for the sizes of either branch is guarded, whichever is taken. A branch that changes
something, draws random numbers or asks about data is not followed.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

import torch
import torch.fx

from anyshape.capture.record.graph_names import BoundGraph
from anyshape.capture.record.segment_state import Forget, TracedTensor
from anyshape.capture.tracer import AbortCapture
from anyshape.ops.higher_order_ops import region
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.node_meta import CALL, RESULT, RecordedCall
from anyshape.symbolic import Size, eq, ge

Hooks = Any


class Branch:
    """A part of the graph while it is recorded, and the graph that is made of it."""

    def __init__(self, hooks: Hooks, what: str) -> None:
        self._hooks = hooks
        self._recorder = hooks.recorder
        self._what = what
        self.outputs: list[torch.Tensor] = []
        self.metas: list[Meta] = []
        #: what the graph takes, in the graph at hand
        self.inputs: list[torch.fx.Node] = []
        self.graph: torch.fx.GraphModule

    @contextmanager
    def recorded(self, carried: Sequence[torch.fx.Node] = ()) -> Iterator[None]:
        """Whatever is recorded meanwhile becomes the graph; it takes `carried` first."""
        recorder = self._recorder
        segment, changes = recorder.segment, recorder.changes
        before = set(recorder._known)
        numbers, expected = len(segment.numbers), len(segment.expectations)
        last = segment.graph._root.prev
        random = _random_state()
        changed, changes.any = changes.any, False
        yield
        if not self._hooks.tracer.active:
            return
        in_place, changes.any = changes.any, changed or changes.any
        if recorder.segment is not segment:
            raise AbortCapture(f"the way on depends on data inside of {self._what}")
        if in_place or _random_state() != random:
            raise AbortCapture(f"{self._what} changes a tensor, or draws random numbers")
        if numbers != len(segment.numbers) or expected != len(segment.expectations):
            raise AbortCapture(f"{self._what} has sizes or numbers that depend on data")
        self._extract(last, before, carried)

    def returns(self, result: Any) -> None:
        """What the branch returns: its own, and contiguous, so that all branches are alike."""
        for each in flat(result, self._what):
            copied = self._recorder.run(
                torch.clone, (each,), {"memory_format": torch.contiguous_format}
            )
            self.outputs.append(copied)
        if self._hooks.tracer.active:
            self.metas = [self._recorder.meta(each) for each in self.outputs]

    def _extract(
        self, last: torch.fx.Node, before: set[int], carried: Sequence[torch.fx.Node]
    ) -> None:
        recorder, graph = self._recorder, self._recorder.graph
        # Sizes, and items of earlier results, may be used again outside.
        shared = {node for node in recorder.sizes._exprs.values() if type(node) is torch.fx.Node}
        shared |= {node for node in recorder.sizes._atoms.values() if type(node) is torch.fx.Node}
        shared |= {
            recorder._known[each].node
            for each in before
            if each in recorder._known and type(recorder._known[each].node) is torch.fx.Node
        }
        inside: list[torch.fx.Node] = []
        node = last.next
        while node is not graph._root:
            if node.op != "placeholder" and node not in shared and node.args is not None:
                inside.append(node)
            node = node.next
        made = BoundGraph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in carried:
            copies[node] = made.placeholder(f"carried_{len(copies)}")

        def copied(node: torch.fx.Node) -> torch.fx.Node:
            if node not in copies:
                with made.inserting_before(_first_call(made)):
                    copies[node] = made.placeholder(f"input_{len(self.inputs)}")
                self.inputs.append(node)
            return copies[node]

        members = set(inside)
        for node in inside:
            for used in node.all_input_nodes:
                if used not in members:
                    copied(used)
        for node in inside:
            copies[node] = made.node_copy(node, copied)
        made.output(tuple(copied(recorder.node(each)) for each in self.outputs))
        self.graph = torch.fx.GraphModule(torch.nn.Module(), made)
        for node in reversed(inside):
            graph.erase_node(node)
        for each in set(recorder._known) - before:
            known = recorder._known[each]
            if known.path is None:
                del recorder._known[each]


def _random_state() -> bytes:
    with torch._C.DisableTorchFunction():
        state = torch.default_generator.get_state()
        return ctypes.string_at(state.data_ptr(), state.numel())


def _first_call(graph: torch.fx.Graph) -> torch.fx.Node:
    return next((node for node in graph.nodes if node.op != "placeholder"), graph._root)


def flat(result: Any, what: str) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if type(result) in (tuple, list) and all(isinstance(item, torch.Tensor) for item in result):
        return list(result)
    raise AbortCapture(f"{what} returns something other than tensors")


def like(result: Any, tensors: Sequence[torch.Tensor]) -> Any:
    return tensors[0] if isinstance(result, torch.Tensor) else type(result)(tensors)


def agree(hooks: Hooks, what: str, ones: Sequence[Meta], others: Sequence[Meta]) -> None:
    if len(ones) != len(others):
        raise AbortCapture(f"{what} do not return the same number of tensors")
    for one, other in zip(ones, others, strict=True):
        kinds = (one.dtype, one.device, one.rank) == (other.dtype, other.device, other.rank)
        if not kinds:
            raise AbortCapture(f"{what} do not return tensors of the same kind")
        for a, b in zip(one.shape, other.shape, strict=True):
            if not hooks.tracer.decide(eq(a, b), f"{what} return the same sizes"):
                raise AbortCapture(f"{what} do not return the same sizes")


def bind(hooks: Hooks, node: torch.fx.Node, tensors: Sequence[Any], metas: Sequence[Meta]) -> None:
    recorder = hooks.recorder
    found = [plain(meta, meta.shape, each) for each, meta in zip(tensors, metas, strict=True)]
    node.meta[CALL] = RecordedCall(cast("Any", node.target), node.args, {})
    node.meta[RESULT] = tuple(found)
    for index, (tensor, meta) in enumerate(zip(tensors, found, strict=True)):
        alive = weakref.ref(tensor, Forget(recorder._known, id(tensor)))
        recorder._known[id(tensor)] = TracedTensor((node, index), meta, alive, recorder.segment)


def plain(meta: Meta, shape: tuple[Size, ...], tensor: torch.Tensor) -> Meta:
    with torch._C.DisableTorchFunction():
        has_grad = tensor.requires_grad
    return Meta(shape, meta.dtype, contiguous(len(shape)), meta.device, 0, has_grad)


def started(hooks: Hooks, given: Sequence[Any], what: str) -> Branch:
    """The values that a loop starts with: its own, and contiguous."""
    start = Branch(hooks, what)
    start.returns(tuple(given))
    return start


def walking(
    hooks: Hooks, walked: Sequence[torch.Tensor], what: str
) -> tuple[Size, list[torch.fx.Node], list[torch.Tensor]]:
    """Of tensors that are walked: how long they are, their nodes, and the first item of each."""
    recorder = hooks.recorder
    length = recorder.meta(walked[0]).shape[0]
    if not hooks.tracer.decide(ge(length, 1), f"{what} walks at least one item"):
        raise AbortCapture(f"{what} over nothing")
    for each in walked[1:]:
        if not hooks.tracer.decide(eq(recorder.meta(each).shape[0], length), f"{what} walks all"):
            raise AbortCapture(f"{what} over different numbers of items")
    nodes = [recorder.node(each) for each in walked]
    first = [
        recorder.run(torch.clone, (recorder.run(torch.Tensor.select, (each, 0, 0), {}),), {})
        for each in walked
    ]
    return length, nodes, first


def stacked(metas: Sequence[Meta], length: Size, values: Sequence[torch.Tensor]) -> list[Meta]:
    """The metas of what a loop gives for each item."""
    pairs = zip(metas, values, strict=True)
    return [plain(meta, (length, *meta.shape), value) for meta, value in pairs]


# -- values of nodes in this run -------------------------------------------------------------------


def values_of(hooks: Hooks, nodes: Sequence[torch.fx.Node]) -> list[Any]:
    recorder = hooks.recorder
    found: dict[Any, Any] = {node: example for node, _, example in recorder.segment.inputs}
    for known in list(recorder._known.values()):
        alive = known.alive() if isinstance(known.alive, weakref.ref) else known.alive
        if type(known.node) is torch.fx.Node and alive is not None:
            found.setdefault(known.node, alive)

    def value(node: Any) -> Any:
        if type(node) is not torch.fx.Node:
            return node
        if node not in found:
            if node.op != "call_function" or not callable(node.target):
                raise AbortCapture("a value of the loop that is not at hand")
            found[node] = node.target(*map(value, node.args))
        return found[node]

    return list(map(value, nodes))


# -- models ----------------------------------------------------------------------------------------

#: A part of the program, called with tensors: its result.
Part = Callable[..., Any]


def _part(hooks: Hooks, function: Any) -> Part:
    return lambda *args: hooks.call(function, *args)


def graph_part(hooks: Hooks, graph: torch.fx.GraphModule, more: Sequence[Any] = ()) -> Part:
    """A graph of an operator that is captured again."""
    return lambda *args: hooks.call(graph.forward, *args, *more)


def _cond(hooks: Hooks, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    given = list(hooks.iterate(operands))
    if not isinstance(pred, torch.Tensor):
        return hooks.call(true_fn if hooks.truth(pred) else false_fn, *given)
    parts = [partial(_part(hooks, function), *given) for function in (true_fn, false_fn)]
    return _chosen(hooks, pred, *parts)


def _chosen(hooks: Hooks, pred: torch.Tensor, *parts: Part) -> Any:
    branches: list[Branch] = []
    results: list[Any] = []
    for part in parts:
        branch = Branch(hooks, "a branch of torch.cond")
        with branch.recorded():
            results.append(part())
            branch.returns(results[-1])
        branches.append(branch)
    yes, no = branches
    with torch._C.DisableTorchFunction():
        taken = bool(pred)
    chosen, result = (yes, results[0]) if taken else (no, results[1])
    if hooks.tracer.active:
        agree(hooks, "the branches of torch.cond", yes.metas, no.metas)
        node = hooks.recorder.graph.call_function(
            region("cond", (yes.graph, no.graph)),
            (hooks.recorder.node(pred), tuple(yes.inputs), tuple(no.inputs)),
        )
        bind(hooks, node, chosen.outputs, chosen.metas)
    return like(result, chosen.outputs)


def _while_loop(hooks: Hooks, cond_fn: Any, body_fn: Any, carried_inputs: Any, *more: Any) -> Any:
    if more and list(hooks.iterate(more[0])):
        raise AbortCapture("torch.while_loop with additional inputs")
    given = list(hooks.iterate(carried_inputs))
    return _loop(hooks, given, _part(hooks, cond_fn), _part(hooks, body_fn))


def _loop(hooks: Hooks, given: Sequence[Any], goes_on: Part, step: Part) -> Any:
    start = started(hooks, given, "torch.while_loop")
    recorder = hooks.recorder
    nodes = [recorder.node(each) for each in start.outputs]
    test, body = Branch(hooks, "the condition of a loop"), Branch(hooks, "the body of a loop")
    with test.recorded(nodes):
        test.returns(goes_on(*start.outputs))
    with body.recorded(nodes):
        body.returns(step(*start.outputs))
    if not hooks.tracer.active:
        raise AbortCapture("torch.while_loop cannot be followed")
    agree(hooks, "the body of a loop and its start", body.metas, start.metas)
    made = region("while_loop", (test.graph, body.graph))
    more = values_of(hooks, test.inputs), values_of(hooks, body.inputs)
    with torch._C.DisableTorchFunction():
        values = [each.clone() for each in made(start.outputs, *more)]
    node = recorder.graph.call_function(
        made, (tuple(nodes), tuple(test.inputs), tuple(body.inputs))
    )
    bind(hooks, node, values, start.metas)
    return tuple(values)


def _map(hooks: Hooks, f: Any, xs: Any, *args: Any) -> Any:
    walked = flat(xs, "map")
    return _mapped(hooks, walked, lambda *items: hooks.call(f, like(xs, items), *args))


def _mapped(hooks: Hooks, walked: Sequence[torch.Tensor], part: Part) -> Any:
    recorder = hooks.recorder
    length, nodes, first = walking(hooks, walked, "map")
    body = Branch(hooks, "the body of map")
    with body.recorded([recorder.node(each) for each in first]):
        result = part(*first)
        body.returns(result)
    if not hooks.tracer.active:
        raise AbortCapture("map cannot be followed")
    made = region("map", (body.graph,))
    more = values_of(hooks, body.inputs)
    with torch._C.DisableTorchFunction():
        values = list(made(walked, more))
    node = recorder.graph.call_function(made, (tuple(nodes), tuple(body.inputs)))
    bind(hooks, node, values, stacked(body.metas, length, values))
    return like(result, values)


# -- operators with graphs, captured again ---------------------------------------------------------


def _cond_again(hooks: Hooks, graphs: Any, pred: Any, for_yes: Any, for_no: Any) -> Any:
    yes, no = graphs
    return _chosen(hooks, pred, graph_part(hooks, yes, for_yes), graph_part(hooks, no, for_no))


def _loop_again(hooks: Hooks, graphs: Any, carried: Any, for_test: Any, for_body: Any) -> Any:
    test, body = graphs
    return _loop(
        hooks, carried, graph_part(hooks, test, for_test), graph_part(hooks, body, for_body)
    )


def _map_again(hooks: Hooks, graphs: Any, walked: Any, more: Any) -> Any:
    return tuple(_mapped(hooks, walked, graph_part(hooks, graphs[0], more)))


def _with_view_again(hooks: Hooks, graphs: Any, whole: Any, values: Any, more: Any) -> Any:
    """Nothing that depends on data: what it does is followed."""
    copied = hooks.recorder.run(torch.Tensor.clone, (whole,), {})
    (view,) = graph_part(hooks, graphs[0], more)(copied)
    hooks.recorder.run(torch.Tensor.copy_, (view, values), {})
    return copied


_HIGHER: Any = getattr(torch, "_higher_order_ops")  # noqa: B009 no stub has it

MODELS: Final[dict[Any, Callable[..., Any]]] = {
    torch.cond: _cond,
    _HIGHER.while_loop: _while_loop,
    _HIGHER.map: _map,
}

#: Models of operators with graphs, by name: they get the graphs first.
AGAIN: Final[dict[str, Callable[..., Any]]] = {
    "cond": _cond_again,
    "while_loop": _loop_again,
    "map": _map_again,
    "with_view": _with_view_again,
}
