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
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.recorded_segments import Known
from anyshape.capture.recorder import Forget
from anyshape.capture.tracer import Leave
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.regions import region
from anyshape.symbolic import Size, eq, ge

Hooks = Any


class _Branch:
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
            raise Leave(f"the way on depends on data inside of {self._what}")
        if in_place or _random_state() != random:
            raise Leave(f"{self._what} changes a tensor, or draws random numbers")
        if numbers != len(segment.numbers) or expected != len(segment.expectations):
            raise Leave(f"{self._what} has sizes or numbers that depend on data")
        self._extract(last, before, carried)

    def returns(self, result: Any) -> None:
        """What the branch returns: its own, and contiguous, so that all branches are alike."""
        for each in _flat(result, self._what):
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
        made = torch.fx.Graph()
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


def _flat(result: Any, what: str) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if type(result) in (tuple, list) and all(isinstance(item, torch.Tensor) for item in result):
        return list(result)
    raise Leave(f"{what} returns something other than tensors")


def _like(result: Any, tensors: Sequence[torch.Tensor]) -> Any:
    return tensors[0] if isinstance(result, torch.Tensor) else type(result)(tensors)


def _agree(hooks: Hooks, what: str, ones: Sequence[Meta], others: Sequence[Meta]) -> None:
    if len(ones) != len(others):
        raise Leave(f"{what} do not return the same number of tensors")
    for one, other in zip(ones, others, strict=True):
        kinds = (one.dtype, one.device, one.rank) == (other.dtype, other.device, other.rank)
        if not kinds:
            raise Leave(f"{what} do not return tensors of the same kind")
        for a, b in zip(one.shape, other.shape, strict=True):
            if not hooks.tracer.decide(eq(a, b), f"{what} return the same sizes"):
                raise Leave(f"{what} do not return the same sizes")


def _bind(hooks: Hooks, node: torch.fx.Node, tensors: Sequence[Any], metas: Sequence[Meta]) -> None:
    recorder = hooks.recorder
    for index, (tensor, meta) in enumerate(zip(tensors, metas, strict=True)):
        alive = weakref.ref(tensor, Forget(recorder._known, id(tensor)))
        known = Known((node, index), _plain(meta, meta.shape, tensor), alive, recorder.segment)
        recorder._known[id(tensor)] = known


def _plain(meta: Meta, shape: tuple[Size, ...], tensor: torch.Tensor) -> Meta:
    with torch._C.DisableTorchFunction():
        has_grad = tensor.requires_grad
    return Meta(shape, meta.dtype, contiguous(len(shape)), meta.device, 0, has_grad)


# -- values of nodes in this run -------------------------------------------------------------------


def _values(hooks: Hooks, nodes: Sequence[torch.fx.Node]) -> list[Any]:
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
                raise Leave("a value of the loop that is not at hand")
            found[node] = node.target(*map(value, node.args))
        return found[node]

    return list(map(value, nodes))


# -- models ----------------------------------------------------------------------------------------


def _cond(hooks: Hooks, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    given = list(hooks.iterate(operands))
    if not isinstance(pred, torch.Tensor):
        return hooks.call(true_fn if hooks.truth(pred) else false_fn, *given)
    yes, no = _Branch(hooks, "a branch of torch.cond"), _Branch(hooks, "a branch of torch.cond")
    results: list[Any] = []
    for branch, function in ((yes, true_fn), (no, false_fn)):
        with branch.recorded():
            results.append(hooks.call(function, *given))
            branch.returns(results[-1])
    with torch._C.DisableTorchFunction():
        taken = bool(pred)
    chosen, result = (yes, results[0]) if taken else (no, results[1])
    if hooks.tracer.active:
        _agree(hooks, "the branches of torch.cond", yes.metas, no.metas)
        node = hooks.recorder.graph.call_function(
            region("cond", (yes.graph, no.graph)),
            (hooks.recorder.node(pred), tuple(yes.inputs), tuple(no.inputs)),
        )
        _bind(hooks, node, chosen.outputs, chosen.metas)
    return _like(result, chosen.outputs)


def _while_loop(hooks: Hooks, cond_fn: Any, body_fn: Any, carried_inputs: Any, *more: Any) -> Any:
    if more and list(hooks.iterate(more[0])):
        raise Leave("torch.while_loop with additional inputs")
    given = list(hooks.iterate(carried_inputs))
    start = _Branch(hooks, "torch.while_loop")
    start.returns(tuple(given))
    recorder = hooks.recorder
    nodes = [recorder.node(each) for each in start.outputs]
    test, body = _Branch(hooks, "the condition of a loop"), _Branch(hooks, "the body of a loop")
    with test.recorded(nodes):
        test.returns(hooks.call(cond_fn, *start.outputs))
    with body.recorded(nodes):
        result = hooks.call(body_fn, *start.outputs)
        body.returns(result)
    if not hooks.tracer.active:
        raise Leave("torch.while_loop cannot be followed")
    _agree(hooks, "the body of a loop and its start", body.metas, start.metas)
    made = region("while_loop", (test.graph, body.graph))
    with torch._C.DisableTorchFunction():
        values = made(start.outputs, _values(hooks, test.inputs), _values(hooks, body.inputs))
        values = [each.clone() for each in values]
    node = recorder.graph.call_function(
        made, (tuple(nodes), tuple(test.inputs), tuple(body.inputs))
    )
    _bind(hooks, node, values, start.metas)
    return tuple(values)


def _map(hooks: Hooks, f: Any, xs: Any, *args: Any) -> Any:
    walked = _flat(xs, "map")
    recorder = hooks.recorder
    length = recorder.meta(walked[0]).shape[0]
    if not hooks.tracer.decide(ge(length, 1), "map walks at least one item"):
        raise Leave("map over nothing")
    nodes = [recorder.node(each) for each in walked]
    first = [
        recorder.run(torch.clone, (recorder.run(torch.select, (each, 0, 0), {}),), {})
        for each in walked
    ]
    firsts = [recorder.node(each) for each in first]
    body = _Branch(hooks, "the body of map")
    with body.recorded(firsts):
        result = hooks.call(f, _like(xs, first), *args)
        body.returns(result)
    if not hooks.tracer.active:
        raise Leave("map cannot be followed")
    made = region("map", (body.graph,))
    with torch._C.DisableTorchFunction():
        values = list(made(walked, _values(hooks, body.inputs)))
    node = recorder.graph.call_function(made, (tuple(nodes), tuple(body.inputs)))
    metas = [
        _plain(meta, (length, *meta.shape), v) for meta, v in zip(body.metas, values, strict=True)
    ]
    _bind(hooks, node, values, metas)
    return _like(result, values)


_HIGHER: Any = getattr(torch, "_higher_order_ops")  # noqa: B009 no stub has it

MODELS: Final[dict[Any, Callable[..., Any]]] = {
    torch.cond: _cond,
    _HIGHER.while_loop: _while_loop,
    _HIGHER.map: _map,
}
