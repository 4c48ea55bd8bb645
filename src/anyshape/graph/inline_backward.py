"""A graph that computes gradients, with the operators of the backward in it.

    loss = …; gradients([loss], [w], [None])

    loss = …; ones = ones_like(loss); …; grad_w = …

What comes before is written anew (`backward_graph`), with the gradients of the same table that
native training has. Everything then runs without autograd, also what comes after: a step has no
history left that one could go back through.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence, Set
from typing import Any

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.graph.alias_analysis import root_of
from anyshape.graph.autograd_step import Step
from anyshape.graph.backward_graph import TrainingGraphs, training_graphs
from anyshape.graph.functionalize import FunctionalGraph, functionalized
from anyshape.graph.plan import Unlowerable
from anyshape.ops.families.autograd_gradients import gradients
from anyshape.ops.families.pinned_layout import dense_in_order
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.node_meta import CALL, FACTS, RESULT, SYMBOL, UNRECORDED, RecordedCall
from anyshape.symbolic import Facts, Symbol
from anyshape.symbolic.expr import of_atom

Node = torch.fx.Node


def computes_gradients(graph: torch.fx.Graph) -> bool:
    return any(node.target is gradients for node in graph.nodes)


def with_inline_backward(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same inputs and outputs. Raises `Unlowerable` where torch's autograd has to do it."""
    found = [node for node in module.graph.nodes if node.target is gradients]
    if len(found) != 1:
        raise Unlowerable("gradients are computed more than once")
    made = _LazyGraphModule(torch.nn.Module(), _Inline(module, found[0]).run())
    made.meta |= module.meta
    return made


class _Inline:
    def __init__(self, module: torch.fx.GraphModule, at: Node) -> None:
        self._module = module
        self._at = at
        self._nodes = list(module.graph.nodes)
        self._graph = torch.fx.Graph()
        #: nodes of the new graph for those of the old one
        self._mapped: dict[Node, Any] = {}
        #: what stands for the gradients, by their places
        self._grads: list[Node] = []

    def run(self) -> torch.fx.Graph:
        place = self._nodes.index(self._at)
        before, after = self._nodes[:place], self._nodes[place + 1 :]
        inputs = [node for node in self._nodes if node.op == "placeholder"]
        results, tensors, weights = self._arguments()
        if not all(each in inputs for each in tensors):
            raise Unlowerable("gradients of what is computed on the way")
        # What is needed behind, by itself: the results come first.
        read = {each for node in after for each in node.all_input_nodes}
        read |= {each for each in weights if each is not None}
        later = [node for node in before if node in read and node.op != "placeholder"]
        part = self._part(inputs, before, [*results, *later])
        program = functionalized(part)
        graphs = training_graphs(part, program, self._numbers(program, inputs, len(results)))
        self._check(graphs, len(results))
        for node in inputs:
            self._mapped[node] = self._copied(node)
        self._graph.call_function(torch._C._set_grad_enabled, (False,))
        outputs, kept = self._forward(graphs, inputs)
        self._mapped |= zip([*results, *later], outputs, strict=True)
        seeds = list(map(self._seed, results, weights))
        forward = set(self._graph.nodes)
        grads = self._backward(graphs, inputs, kept, seeds)
        found = dict(zip((inputs[n] for n in graphs.wanted), grads, strict=True))
        self._gradients(found, tensors, set(self._graph.nodes) - forward)
        self._rest(after)
        self._graph.lint()
        return self._graph

    def _arguments(self) -> tuple[list[Node], list[Node], list[Node | None]]:
        results, tensors, weights = self._at.args[:3]
        return list(results), list(tensors), list(weights)  # pyright: ignore[reportArgumentType] lists

    def _part(
        self, inputs: Sequence[Node], nodes: Sequence[Node], outputs: Sequence[Node]
    ) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        mapped: dict[Node, Node] = {}
        for node in (*inputs, *(each for each in nodes if each.op != "placeholder")):
            mapped[node] = graph.node_copy(node, mapped.__getitem__)
        graph.output(tuple(mapped[node] for node in outputs))
        made = _LazyGraphModule(torch.nn.Module(), graph)
        made.meta |= self._module.meta
        return made

    def _numbers(
        self, program: FunctionalGraph, inputs: Sequence[Node], count: int
    ) -> tuple[int, ...]:
        """Which outputs of the graph without writes the results are."""
        if program.epilogue is None:
            return tuple(range(count))
        nodes = list(program.epilogue.nodes)
        given = [node for node in nodes if node.op == "placeholder"]
        wanted: Any = nodes[-1].args[0]
        places = {node: number - len(inputs) for number, node in enumerate(given)}
        found = tuple(places.get(each, -1) for each in wanted[:count])
        if min(found) < 0:
            raise Unlowerable("a result is a view of something else")
        return found

    def _check(self, graphs: TrainingGraphs, count: int) -> None:
        if len(graphs.differentiable) != count:
            raise Unlowerable("a result has no gradient")
        for module in (graphs.forward, graphs.backward):
            for node in module.graph.nodes:
                if isinstance(node.target, Step):
                    raise Unlowerable(f"torch's autograd does {node.target.__name__}")

    # -- the parts ---------------------------------------------------------------------------------

    def _copied(self, node: Node) -> Node:
        return self._graph.node_copy(node, self._mapped.__getitem__)

    def _inlined(self, graph: torch.fx.Graph, given: Sequence[Any]) -> list[Any]:
        mapped: dict[Node, Any] = {}
        values = iter(given)
        for node in graph.nodes:
            if node.op == "placeholder":
                mapped[node] = next(values)
            elif node.op == "output":
                return list(torch.fx.map_arg(node.args[0], mapped.__getitem__))
            else:
                made = mapped[node] = self._graph.node_copy(node, mapped.__getitem__)
                if "stack_trace" not in made.meta:
                    made.meta |= self._line()
        raise AssertionError("a graph has an output")

    def _line(self) -> dict[str, str]:
        found = self._at.meta.get("stack_trace")
        return {} if found is None else {"stack_trace": found}

    def _forward(
        self, graphs: TrainingGraphs, inputs: Sequence[Node]
    ) -> tuple[list[Any], list[Any]]:
        given = [self._mapped[node] for node in inputs]
        symbols = [self._symbol(symbol, inputs) for symbol in graphs.more]
        made = self._inlined(graphs.forward.graph, [*given, *symbols])
        outputs, kept = made[: graphs.outputs], made[graphs.outputs :]
        if graphs.program.epilogue is not None:
            outputs = self._inlined(graphs.program.epilogue, [*given, *outputs])
        return outputs, kept

    def _backward(
        self, graphs: TrainingGraphs, inputs: Sequence[Node], kept: list[Any], seeds: list[Any]
    ) -> list[Any]:
        taken = [self._mapped[inputs[number]] for number in graphs.inputs]
        symbols = [self._symbol(symbol, inputs) for symbol in graphs.symbols]
        return self._inlined(graphs.backward.graph, [*kept, *taken, *seeds, *symbols])

    def _symbol(self, symbol: Symbol, inputs: Sequence[Node]) -> Node:
        for node in inputs:
            if node.meta.get(SYMBOL) is symbol:
                return self._mapped[node]
        for node in inputs:
            meta = node.meta.get(RESULT)
            if isinstance(meta, Meta) and of_atom(symbol) in meta.shape:
                dim = meta.shape.index(of_atom(symbol))
                made = self._graph.call_method("size", (self._mapped[node], dim))
                made.meta[SYMBOL] = symbol
                return made
        raise Unlowerable(f"the size {symbol.name} is not one of an input")

    def _call(self, function: Callable[..., Any], meta: Meta, node: Node, *args: Any) -> Node:
        made = self._graph.call_function(function, (node, *args))
        known = node.meta[RESULT]
        made.meta = {RESULT: meta, CALL: RecordedCall(function, (known, *args), {})}
        made.meta |= {UNRECORDED: True, **self._line()}
        return made

    def _seed(self, result: Node, weight: Node | None) -> Node:
        own: Meta = result.meta[RESULT]
        if weight is None:
            return self._call(torch.ones_like, own.like(), self._mapped[result])
        meta: Meta = weight.meta[RESULT]
        if meta.shape != own.shape or meta.dtype is not own.dtype:
            raise Unlowerable("a weight of another form than its result")
        found = self._mapped[weight]
        return (
            found if meta.is_contiguous else self._call(torch.Tensor.contiguous, meta.like(), found)
        )

    # -- gradients ---------------------------------------------------------------------------------

    def _gradients(self, found: dict[Node, Node], tensors: Sequence[Node], made: Set[Node]) -> None:
        """Have those that the program asks for, each with memory of its own. `made`: nodes of the
        backward."""
        expected: Any = self._at.meta[RESULT]
        facts: Facts = self._module.meta[FACTS]
        memory: set[Node] = set()
        for tensor, meta in zip(tensors, expected, strict=True):
            grad = found.get(tensor)
            if grad is None:
                raise Unlowerable("no gradient reaches a tensor")
            own: Meta = grad.meta[RESULT]
            sizes = zip(own.shape, meta.shape, strict=True)
            if own.dtype is not meta.dtype or not all(
                a == b or facts.equal(a, b) for a, b in sizes
            ):
                raise Unlowerable("a gradient of another form than its tensor")
            root = root_of(grad)
            is_own = root in made and root not in memory and isinstance(own.layout, Dense)
            memory.add(root)
            if own.layout != meta.layout and not meta.is_contiguous:
                grad = self._call(dense_in_order, meta, grad, meta.layout.order)
                is_own = False
            if not is_own or own.layout != meta.layout:
                grad = self._call(torch.clone, meta, grad)
                if meta.is_contiguous:
                    grad.kwargs = {"memory_format": torch.contiguous_format}
                    grad.meta[CALL] = grad.meta[CALL]._replace(kwargs=dict(grad.kwargs))
            self._grads.append(grad)

    # -- the rest ----------------------------------------------------------------------------------

    def _rest(self, nodes: Sequence[Node]) -> None:
        switches = [node for node in self._nodes if node.target is torch._C._set_grad_enabled]
        # Without any, gradients were recorded from the beginning.
        last: Any = switches[-1].args[0] if switches else True
        for node in nodes:
            if node.target is torch._C._set_grad_enabled:
                continue
            if node.target is operator.getitem and node.args[0] is self._at:
                place: Any = node.args[1]
                self._mapped[node] = self._grads[place]
            elif node.op == "output":
                self._graph.call_function(torch._C._set_grad_enabled, (last,))
                self._graph.output(torch.fx.map_arg(node.args[0], self._mapped.__getitem__))
            elif node.op != "placeholder":
                self._mapped[node] = self._copied(node)
