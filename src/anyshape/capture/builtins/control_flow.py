"""`torch.cond`, `torch.while_loop`, `map` and scans: their parts are captured, each by itself.

A branch runs for real, into the graph at hand; its nodes are then moved into a graph of their own.
What holds for the sizes of either branch is guarded, whichever is taken. A branch that changes
something, draws random numbers or asks about data is not followed. The body of a loop is captured
once, and run for one item after the other, of an associative scan too: but for rounding, that gives
the same in any order of its steps.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

import torch
import torch.fx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.record.graph_names import BoundGraph
from anyshape.capture.record.segment_state import Forget, TracedTensor
from anyshape.ops.higher_order_ops import region
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.node_meta import CALL, RESULT, RecordedCall
from anyshape.symbolic import Size, eq, ge

#: A part of the program, called with tensors: its result.
Part = Callable[..., Any]


class Stretch:
    """What a part of the program adds to the graph at hand while it is called."""

    def __init__(self, hooks: Hooks, what: str, part: Part, given: Sequence[object]) -> None:
        recorder = hooks.recorder
        segment, changes = recorder.segment, recorder.changes
        self._graph = segment.graph
        self._last = segment.graph._root.prev
        changed, changes.any = changes.any, False
        try:
            self.result = part(*given)
        finally:
            #: whether it wrote to a tensor
            self.writes = changes.any
            changes.any = changed or changes.any
        #: why the graph cannot be told apart from what is around it, if so
        self.why = None
        if hooks.tracer.active and recorder.segment is not segment:
            self.why = f"a data-dependent branch inside of {what}"

    def nodes(self) -> Iterator[torch.fx.Node]:
        node = self._last.next
        while node is not self._graph._root:
            yield node
            node = node.next


class Branch:
    """A part of the graph while it is recorded, and the graph that is made of it."""

    def __init__(self, hooks: Hooks, what: str) -> None:
        self._hooks = hooks
        self._recorder = hooks.recorder
        self._what = what
        #: what the part of the program returned, and its tensors as the graph gives them
        self.result: Any = None
        self.outputs: list[torch.Tensor] = []
        self.metas: list[Meta] = []
        #: what the graph takes, in the graph at hand
        self.inputs: list[torch.fx.Node] = []
        self.graph: torch.fx.GraphModule

    def record(
        self, part: Part, given: Sequence[object] = (), carried: Sequence[torch.fx.Node] = ()
    ) -> None:
        """Call a part of the program. What is recorded meanwhile becomes the graph, which takes
        `carried` first."""
        recorder = self._recorder
        segment = recorder.segment
        before = set(recorder._known)
        numbers, expected = len(segment.numbers), len(segment.expectations)
        random = _random_state()
        stretch = Stretch(self._hooks, self._what, part, given)
        self.result = stretch.result
        self.returns(self.result)
        if not self._hooks.tracer.active:
            return
        if stretch.why is not None:
            raise AbortCapture(stretch.why)
        if stretch.writes or _random_state() != random:
            raise AbortCapture(f"{self._what} changes a tensor, or draws random numbers")
        if numbers != len(segment.numbers) or expected != len(segment.expectations):
            raise AbortCapture(f"{self._what} has sizes or numbers that depend on data")
        self._extract(list(stretch.nodes()), before, carried)

    def returns(self, result: object) -> None:
        """What the branch returns: its own, and contiguous, so that all branches are alike."""
        for each in _flat(result, self._what):
            copied = self._recorder.run(
                torch.clone, (each,), {"memory_format": torch.contiguous_format}
            )
            self.outputs.append(copied)
        if self._hooks.tracer.active:
            self.metas = [self._recorder.meta(each) for each in self.outputs]

    def _extract(
        self,
        nodes: Sequence[torch.fx.Node],
        before: set[int],
        carried: Sequence[torch.fx.Node],
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
        inside = [node for node in nodes if node.op != "placeholder" and node not in shared]
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


def _flat(result: Any, what: str) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if type(result) in (tuple, list) and all(isinstance(item, torch.Tensor) for item in result):
        return list(result)
    raise AbortCapture(f"{what} returns something other than tensors")


def _like(result: Any, tensors: Sequence[torch.Tensor]) -> Any:
    return tensors[0] if isinstance(result, torch.Tensor) else type(result)(tensors)


def _agree(hooks: Hooks, what: str, ones: Sequence[Meta], others: Sequence[Meta]) -> None:
    if len(ones) != len(others):
        raise AbortCapture(f"{what} do not return the same number of tensors")
    for one, other in zip(ones, others, strict=True):
        kinds = (one.dtype, one.device, one.rank) == (other.dtype, other.device, other.rank)
        if not kinds:
            raise AbortCapture(f"{what} do not return tensors of the same kind")
        for a, b in zip(one.shape, other.shape, strict=True):
            if not hooks.tracer.decide(eq(a, b), f"{what} return the same sizes"):
                raise AbortCapture(f"{what} do not return the same sizes")


def _bind(hooks: Hooks, node: torch.fx.Node, tensors: Sequence[Any], metas: Sequence[Meta]) -> None:
    recorder = hooks.recorder
    found = [_plain(meta, meta.shape, each) for each, meta in zip(tensors, metas, strict=True)]
    node.meta[CALL] = RecordedCall(cast("Any", node.target), node.args, {})
    node.meta[RESULT] = tuple(found)
    for index, (tensor, meta) in enumerate(zip(tensors, found, strict=True)):
        alive = weakref.ref(tensor, Forget(recorder._known, id(tensor)))
        recorder._known[id(tensor)] = TracedTensor((node, index), meta, alive, recorder.segment)


def _plain(meta: Meta, shape: tuple[Size, ...], tensor: torch.Tensor) -> Meta:
    with torch._C.DisableTorchFunction():
        has_grad = tensor.requires_grad
    return Meta(shape, meta.dtype, contiguous(len(shape)), meta.device, 0, has_grad)


def _started(hooks: Hooks, given: Sequence[object], what: str) -> Branch:
    """The values that a loop starts with: its own, and contiguous."""
    start = Branch(hooks, what)
    start.returns(tuple(given))
    return start


def _walking(
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


def _stacked(metas: Sequence[Meta], length: Size, values: Sequence[torch.Tensor]) -> list[Meta]:
    """The metas of what a loop gives for each item."""
    pairs = zip(metas, values, strict=True)
    return [_plain(meta, (length, *meta.shape), value) for meta, value in pairs]


# -- values of nodes in this run -------------------------------------------------------------------


def values_of(hooks: Hooks, nodes: Sequence[torch.fx.Node]) -> list[object]:
    recorder, segment = hooks.recorder, hooks.recorder.segment
    # What an earlier segment hands on has no example.
    inputs = [(node, example) for node, _, example in segment.inputs if example is not None]
    found: dict[Any, Any] = dict(inputs)
    for known in list(recorder._known.values()):
        alive = known.alive() if isinstance(known.alive, weakref.ref) else known.alive
        node = known.node if known.segment is segment else segment.nodes.get(known)
        if type(node) is torch.fx.Node and alive is not None:
            found.setdefault(node, alive)

    def value(node: object) -> Any:
        if type(node) is not torch.fx.Node:
            return node
        if node not in found:
            if node.op != "call_function" or not callable(node.target):
                raise AbortCapture("a value of the loop that is not at hand")
            found[node] = node.target(*map(value, node.args))
        return found[node]

    return list(map(value, nodes))


# -- models ----------------------------------------------------------------------------------------


def _part(hooks: Hooks, function: object) -> Part:
    return lambda *args: hooks.call(function, *args)


def _graph_part(hooks: Hooks, graph: torch.fx.GraphModule, more: Sequence[object] = ()) -> Part:
    """A graph of an operator that is captured again."""
    return lambda *args: hooks.call(graph.forward, *args, *more)


def _cond(
    hooks: Hooks, pred: object, true_fn: object, false_fn: object, operands: object = ()
) -> object:
    given = list(hooks.iterate(operands))
    if not isinstance(pred, torch.Tensor):
        return hooks.call(true_fn if hooks.truth(pred) else false_fn, *given)
    parts = [partial(_part(hooks, function), *given) for function in (true_fn, false_fn)]
    return _chosen(hooks, pred, *parts)


def _chosen(hooks: Hooks, pred: torch.Tensor, *parts: Part) -> object:
    yes, no = (Branch(hooks, "a branch of torch.cond") for _ in parts)
    for branch, part in zip((yes, no), parts, strict=True):
        branch.record(part)
    with torch._C.DisableTorchFunction():
        chosen = yes if bool(pred) else no
    if hooks.tracer.active:
        _agree(hooks, "the branches of torch.cond", yes.metas, no.metas)
        node = hooks.recorder.graph.call_function(
            region("cond", (yes.graph, no.graph)),
            (hooks.recorder.node(pred), tuple(yes.inputs), tuple(no.inputs)),
        )
        _bind(hooks, node, chosen.outputs, chosen.metas)
    return _like(chosen.result, chosen.outputs)


def _while_loop(
    hooks: Hooks, cond_fn: object, body_fn: object, carried_inputs: object, *more: object
) -> object:
    if more and list(hooks.iterate(more[0])):
        raise AbortCapture("torch.while_loop with additional inputs")
    given = list(hooks.iterate(carried_inputs))
    return _loop(hooks, given, _part(hooks, cond_fn), _part(hooks, body_fn))


def _loop(hooks: Hooks, given: Sequence[object], goes_on: Part, step: Part) -> object:
    start = _started(hooks, given, "torch.while_loop")
    nodes = [hooks.recorder.node(each) for each in start.outputs]
    test, body = Branch(hooks, "the condition of a loop"), Branch(hooks, "the body of a loop")
    test.record(goes_on, start.outputs, nodes)
    body.record(step, start.outputs, nodes)
    if not hooks.tracer.active:
        raise AbortCapture("torch.while_loop cannot be traced")
    _agree(hooks, "the body of a loop and its start", body.metas, start.metas)
    node, values = _run(hooks, "while_loop", (test, body), (start.outputs, nodes))
    _bind(hooks, node, values, start.metas)
    return tuple(values)


def _run(
    hooks: Hooks,
    kind: str,
    parts: Sequence[Branch],
    *given: tuple[Sequence[torch.Tensor], Sequence[torch.fx.Node]],
) -> tuple[torch.fx.Node, list[torch.Tensor]]:
    """A loop as a node of the graph, and what it gives in this run: copies, since a loop may give
    back what it was given."""
    made = region(kind, tuple(part.graph for part in parts))
    more = [values_of(hooks, part.inputs) for part in parts]
    with torch._C.DisableTorchFunction():
        values = [each.clone() for each in made(*(tensors for tensors, _ in given), *more)]
    nodes = [*(nodes for _, nodes in given), *(part.inputs for part in parts)]
    return hooks.recorder.graph.call_function(made, tuple(map(tuple, nodes))), values


def _map(hooks: Hooks, f: object, xs: object, *args: object) -> object:
    walked = _flat(xs, "map")
    return _mapped(hooks, walked, lambda *items: hooks.call(f, _like(xs, items), *args))


def _mapped(hooks: Hooks, walked: Sequence[torch.Tensor], part: Part) -> object:
    length, nodes, first = _walking(hooks, walked, "map")
    body = Branch(hooks, "the body of map")
    body.record(part, first, [hooks.recorder.node(each) for each in first])
    if not hooks.tracer.active:
        raise AbortCapture("map cannot be traced")
    node, values = _run(hooks, "map", (body,), (walked, nodes))
    _bind(hooks, node, values, _stacked(body.metas, length, values))
    return _like(body.result, values)


# -- scans -----------------------------------------------------------------------------------------


def _scan(
    hooks: Hooks,
    combine_fn: object,
    init: object,
    xs: object,
    *,
    dim: object = 0,
    reverse: Any = False,
) -> object:
    starts = _flat(init, "scan")
    dim, walked = _rows(hooks, _flat(xs, "scan"), dim, reverse)
    shapes: list[Any] = []

    def step(*values: Any) -> object:
        carried, items = _like(init, values[: len(starts)]), _like(xs, values[len(starts) :])
        result = hooks.call(combine_fn, carried, items)
        if type(result) not in (tuple, list) or len(result) != 2:
            raise AbortCapture("the body of scan does not return a pair")
        shapes[:] = result
        return (*_flat(result[0], "scan"), *_flat(result[1], "scan"))

    found = _scanned(hooks, starts, walked, step)
    carried, rows = found[: len(starts)], found[len(starts) :]
    return _like(shapes[0], carried), _like(shapes[1], _back(hooks, rows, dim, reverse))


def _scanned(
    hooks: Hooks, starts: Sequence[object], walked: Sequence[torch.Tensor], step: Part
) -> list[torch.Tensor]:
    recorder = hooks.recorder
    start = _started(hooks, starts, "scan")
    length, nodes, first = _walking(hooks, walked, "scan")
    carried = [recorder.node(each) for each in start.outputs]
    body = Branch(hooks, "the body of scan")
    body.record(step, (*start.outputs, *first), [*carried, *map(recorder.node, first)])
    if not hooks.tracer.active:
        raise AbortCapture("scan cannot be traced")
    count = len(carried)
    _agree(hooks, "the body of scan and its start", body.metas[:count], start.metas)
    node, values = _run(hooks, "scan", (body,), (start.outputs, carried), (walked, nodes))
    rows = _stacked(body.metas[count:], length, values[count:])
    _bind(hooks, node, values, [*start.metas, *rows])
    return values


def _associative_scan(
    hooks: Hooks,
    combine_fn: object,
    xs: object,
    dim: object,
    reverse: Any = False,
    combine_mode: object = "pointwise",
) -> object:
    given = _flat(xs, "associative_scan")
    with torch._C.DisableTorchFunction():
        on_cpu = any(each.device.type == "cpu" for each in given)
    if combine_mode not in ("generic", "pointwise") or (combine_mode == "pointwise" and on_cpu):
        raise AbortCapture(f"associative_scan with combine_mode={combine_mode!r}")
    dim, walked = _rows(hooks, given, dim, reverse)

    def step(*values: Any) -> object:
        count = len(given)
        return hooks.call(combine_fn, _like(xs, values[:count]), _like(xs, values[count:]))

    rows = _associatively_scanned(hooks, walked, step)
    return _like(xs, _back(hooks, rows, dim, reverse))


def _associatively_scanned(
    hooks: Hooks, walked: Sequence[torch.Tensor], step: Part
) -> list[torch.Tensor]:
    length, nodes, first = _walking(hooks, walked, "associative_scan")
    before = _started(hooks, first, "associative_scan")
    now = _started(hooks, first, "associative_scan")
    body = Branch(hooks, "the body of associative_scan")
    given = (*before.outputs, *now.outputs)
    body.record(step, given, [hooks.recorder.node(each) for each in given])
    if not hooks.tracer.active:
        raise AbortCapture("associative_scan cannot be traced")
    _agree(hooks, "the body of associative_scan and its items", body.metas, now.metas)
    node, values = _run(hooks, "associative_scan", (body,), (walked, nodes))
    _bind(hooks, node, values, _stacked(body.metas, length, values))
    return values


def _rows(
    hooks: Hooks, given: Sequence[torch.Tensor], dim: object, reverse: object
) -> tuple[int, list[torch.Tensor]]:
    """The dimension that is walked, counted from the first, and the tensors with it in front."""
    recorder = hooks.recorder
    dim = int(hooks.specialized(dim, "the dimension that is walked"))
    dim = dim + recorder.meta(given[0]).rank if dim < 0 else dim
    if type(reverse) is not bool or any(recorder.meta(each).rank <= dim for each in given):
        raise AbortCapture("a scan with such arguments")
    rows = [recorder.run(torch.movedim, (each, dim, 0), {}) for each in given]
    return dim, [recorder.run(torch.flip, (each, [0]), {}) for each in rows] if reverse else rows


def _back(
    hooks: Hooks, rows: Sequence[torch.Tensor], dim: int, reverse: bool
) -> list[torch.Tensor]:
    run = hooks.recorder.run
    found = [run(torch.flip, (each, [0]), {}) for each in rows] if reverse else list(rows)
    return [
        run(torch.movedim, (each, 0, dim), {}) if dim < hooks.recorder.meta(each).rank else each
        for each in found
    ]


# -- operators with graphs, captured again ---------------------------------------------------------


def _cond_again(hooks: Hooks, graphs: Any, pred: Any, for_yes: Any, for_no: Any) -> object:
    yes, no = graphs
    return _chosen(hooks, pred, _graph_part(hooks, yes, for_yes), _graph_part(hooks, no, for_no))


def _loop_again(hooks: Hooks, graphs: Any, carried: Any, for_test: Any, for_body: Any) -> object:
    test, body = graphs
    return _loop(
        hooks, carried, _graph_part(hooks, test, for_test), _graph_part(hooks, body, for_body)
    )


def _walk_again(walk: Callable[..., Any]) -> Callable[..., object]:
    """The model of an operator with one graph, for each item of what it is given."""
    return lambda hooks, graphs, *given: tuple(
        walk(hooks, *given[:-1], _graph_part(hooks, graphs[0], given[-1]))
    )


def _with_view_again(hooks: Hooks, graphs: Any, whole: object, values: object, more: Any) -> object:
    """Nothing that depends on data: what it does is followed."""
    copied = hooks.recorder.run(torch.Tensor.clone, (whole,), {})
    (view,) = _graph_part(hooks, graphs[0], more)(copied)
    hooks.recorder.run(torch.Tensor.copy_, (view, values), {})
    return copied


_HIGHER: Any = getattr(torch, "_higher_order_ops")  # noqa: B009 no stub has it

MODELS: Final[Models] = {
    torch.cond: _cond,
    _HIGHER.while_loop: _while_loop,
    _HIGHER.map: _map,
    _HIGHER.scan: _scan,
    _HIGHER.associative_scan: _associative_scan,
}

#: Models of operators with graphs, by name: they get the graphs first.
AGAIN: Final[dict[str, Callable[..., Any]]] = {
    "cond": _cond_again,
    "while_loop": _loop_again,
    "map": _walk_again(_mapped),
    "with_view": _with_view_again,
    "scan": _walk_again(_scanned),
    "associative_scan": _walk_again(_associatively_scanned),
}
