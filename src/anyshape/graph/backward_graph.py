"""From a graph that autograd would record to two that it need not: forward and backward.

Gradients go from the outputs back to the inputs, operator by operator: by its row of gradients
(`ops/gradient.py`), or where it has none by a step in which torch's autograd does that operator
alone. What the backward graph needs of the forward one is kept, or computed again where that needs
nothing else to be kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.config import TrainingMemory
from anyshape.graph.alias_analysis import root_of
from anyshape.graph.autograd_step import (
    AutogradStep,
    RecordedGradient,
    RecordedOperator,
    placed,
)
from anyshape.graph.backward_cut import RECOMPUTED, Recomputed, kept_and_again
from anyshape.graph.channels_last import CHANNELS_LAST
from anyshape.graph.checkpoint_regions import region_at
from anyshape.graph.functionalize import FunctionalGraph
from anyshape.graph.plan import Unlowerable, leaves, paired_tree
from anyshape.graph.recorded_operators import (
    NothingNative,
    draws,
    gives_sparse,
    is_by_torch,
    writes_when_run_again,
)
from anyshape.graph.size_symbols import shown_by, symbols_in
from anyshape.graph.term_graph import Number, TermGraph
from anyshape.graph.training_decompositions import decomposed, part_of
from anyshape.graph.training_layout import keep_channels_last
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.effects import APPLY, runs_python
from anyshape.ops.gradient import NoGradient, Term, sum_to
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.meta_tensors import mapped_tree
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.node_meta import (
    ARGUMENT,
    CALL,
    FACTS,
    LAYOUT,
    RESULT,
    SYMBOL,
    UNRECORDED,
    RecordedCall,
)
from anyshape.ops.op import GRADIENT
from anyshape.ops.runtime_checks import CHECKS
from anyshape.ops.signature import taken_by
from anyshape.ops.table import lookup
from anyshape.support.error_notes import noting
from anyshape.symbolic import Expr, Symbol
from anyshape.symbolic.expr import of_atom


class TrainingGraphs(NamedTuple):
    #: the outputs, then what is kept
    forward: torch.fx.GraphModule
    #: takes what is kept, inputs, symbols and gradients; gives gradients of inputs
    backward: torch.fx.GraphModule
    #: how many outputs there are, before those of the program are made of them
    outputs: int
    #: those of them that have gradients
    differentiable: tuple[int, ...]
    #: numbers of the inputs that the backward graph takes as they are
    inputs: tuple[int, ...]
    symbols: tuple[Symbol, ...]
    #: numbers of the inputs that get gradients, in the order of the backward graph's results, and
    #: of those that would if any reached them
    wanted: tuple[int, ...]
    unreached: tuple[int, ...]
    #: operators that torch's autograd does, and why
    by_torch: Mapping[str, str]
    #: nodes that are kept, by their numbers
    kept: tuple[int, ...]
    #: places among them of images that are kept with their channels last
    relaid: tuple[int, ...]
    #: how many operators are computed again
    again: int
    #: outputs that lie in the memory of something that is kept
    in_kept: frozenset[int]
    #: whether random numbers are drawn
    draws: bool
    #: the same without writes to what it makes, and what makes the program's outputs of its own
    program: FunctionalGraph
    #: symbols that the forward graph takes behind the program's inputs
    more: tuple[Symbol, ...]


def training_graphs(
    graph: torch.fx.GraphModule,
    program: FunctionalGraph,
    used: Sequence[int] | None = None,
    whole: TrainingGraphs | None = None,
    memory: TrainingMemory = "eager",
) -> TrainingGraphs:
    """Raises `Unlowerable` where gradients cannot be written down. `program`: the graph without
    writes. `used`: the outputs that gradients come back for, if not for all; then the forward graph
    is that of the `whole`. `memory`: what is computed again."""
    return _Backward(graph, program, used, whole, RECOMPUTED[memory]).graphs()


class _Backward(TermGraph):
    """The gradients of a graph on their way from its outputs to its inputs."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        program: FunctionalGraph,
        used: Sequence[int] | None,
        whole: TrainingGraphs | None,
        recomputed: Recomputed,
    ) -> None:
        super().__init__(torch.fx.Graph(), graph.meta[FACTS])
        self._module = graph
        self._only, self._whole = used, whole
        self._recomputed = recomputed
        self._program = program
        kernels = dict(program.kernels)
        made = self._decomposed = decomposed(program.graph, graph.meta[FACTS], kernels)
        self._nodes = list(made.graph.nodes)
        unstable = self._program.unstable
        self._unstable = {made.mapped[each] for each in unstable if each in made.mapped}
        #: nodes of the forward graph as placeholders of the backward one, and the way back
        self._placeholders: dict[torch.fx.Node, torch.fx.Node] = {}
        self._outer_of: dict[torch.fx.Node, torch.fx.Node] = {}
        #: gradients by node; of nodes with several results, by their place
        self._grads: dict[torch.fx.Node, Term] = {}
        self._parts: dict[torch.fx.Node, dict[int, Term]] = {}
        #: by node of the forward graph, the regions of those whose gradients need it
        self._asked: dict[torch.fx.Node, set[object | None]] = {}
        self._asking: object | None = None
        #: operators that torch's autograd does, and why
        self._by_torch: dict[str, str] = {}

    def record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return super().record(function, *args, **kwargs)
        except NoGradient:
            # What strides may make of a result is nobody's business here, and a question of sizes.
            terms = [each for each in leaves(args) if isinstance(each, Term)]
            if all(each.meta.is_contiguous for each in terms):
                raise
            return super().record(function, *mapped_tree(args, self._in_order), **kwargs)

    def _in_order(self, value: Any) -> Any:
        if not isinstance(value, Term) or value.meta.is_contiguous:
            return value
        return super().record(torch.clone, value, memory_format=torch.contiguous_format)

    # -- the forward graph as the backward one sees it ---------------------------------------------

    def _outer(self, node: torch.fx.Node, meta: Any = None) -> Any:
        """A node of the forward graph, as a term or a number."""
        symbol = node.meta.get(SYMBOL)
        if symbol is not None:
            return of_atom(symbol)
        found = self._placeholder(node)
        if RESULT not in node.meta:
            return Number(found, meta)
        if isinstance(found.meta[RESULT], Meta):
            return Term(self, found, found.meta[RESULT])
        raise NoGradient("several tensors as one argument")

    def _placeholder(self, node: torch.fx.Node) -> torch.fx.Node:
        """What stands for a node of the forward graph."""
        if SYMBOL in node.meta:
            return self._symbol(node.meta[SYMBOL])
        self._asked.setdefault(node, set()).add(self._asking)
        found = self._placeholders.get(node)
        if found is None:
            found = self._placeholders[node] = self._graph.placeholder(node.name)
            self._outer_of[found] = node
            if RESULT in node.meta:
                found.meta[RESULT] = self.without_grad(node.meta[RESULT])
        return found

    def _arguments(self, nodes: Any, metas: Any) -> Any:
        return paired_tree(
            nodes,
            metas,
            lambda node, meta: (
                self.settled(meta) if isinstance(meta, Expr) else self._outer(node, meta)
            ),
        )

    # -- gradients ---------------------------------------------------------------------------------

    def graphs(self) -> TrainingGraphs:
        inputs = [node for node in self._nodes if node.op == "placeholder"]
        (output,) = [node for node in self._nodes if node.op == "output"]
        outputs: list[Any] = list(output.args[0])
        self._refuse()
        given: list[torch.fx.Node] = []
        differentiable: list[int] = []
        for number, node in enumerate(outputs):
            if self._only is not None and number not in self._only:
                continue
            if isinstance(node, torch.fx.Node) and _has_grad(node):
                differentiable.append(number)
                grad = self._graph.placeholder(f"grad_{number}")
                meta = grad.meta[RESULT] = _contiguous(self.without_grad(node.meta[RESULT]))
                given.append(grad)
                self._add(node, Term(self, grad, meta))
        if not given:
            raise Unlowerable("no output requires grad")
        for node in reversed(self._nodes):
            self._node(node)
        wanted = [n for n, node in enumerate(inputs) if _has_grad(node) and node in self._grads]
        if not wanted and self._whole is None:
            raise Unlowerable("a result requires grad, and no gradient reaches an input")
        results = [self._grads[inputs[number]].node for number in wanted]
        if self._whole is None and all(map(is_by_torch, (*self._nodes, *self._graph.nodes))):
            raise NothingNative("a result requires grad, and torch does all that there is to do")
        return self._cut(inputs, outputs, given, differentiable, wanted, results)

    def _refuse(self) -> None:
        """What is not done yet."""
        for node in self._nodes:
            if node.op in ("placeholder", "output") or SYMBOL in node.meta:
                continue
            if node.target in MODES:
                raise Unlowerable(f"a result requires grad, and modes change ({node.args})")
            call = node.meta.get(CALL)
            if call is None:
                if any(RESULT in each.meta for each in node.all_input_nodes) and not (
                    node.target is operator.getitem or node.target in CHECKS
                ):
                    raise Unlowerable("a result requires grad, and a number depends on data")
                continue
            result = node.meta.get(RESULT)
            has_grad = any(map(_has_grad, node.all_input_nodes)) and UNRECORDED not in node.meta
            if has_grad and not _is_known(result):
                raise Unlowerable("a result requires grad, and a tensor is only Python's to handle")
            if has_grad and runs_python(call.function):
                name = call.function.__name__.removeprefix(APPLY)
                why = f"`{name}.apply` has a gradient of the program's own"
                raise Unlowerable(f"a result requires grad, and {why}")
            is_run_again = not isinstance(call.function, RecordedOperator)
            if is_run_again and draws(node, call) and _has_grad(node):
                raise Unlowerable("a result requires grad, and numbers are drawn")

    def _add(self, node: torch.fx.Node, grad: Term) -> None:
        known = self._grads.get(node)
        self._grads[node] = grad if known is None else known + grad

    def _node(self, node: torch.fx.Node) -> None:
        if node.op in ("placeholder", "output"):
            return
        if node.target is operator.getitem and CALL not in node.meta:
            grad = self._grads.get(node)
            if grad is not None:
                whole, place = part_of(node)
                parts = self._parts.setdefault(whole, {})
                parts[place] = grad if place not in parts else parts[place] + grad
            return
        grad: Any = self._grads.get(node) or self._parts.get(node)
        call = node.meta.get(CALL)
        if grad is None or call is None or UNRECORDED in node.meta:
            return
        if not any(_has_grad(each) for each in node.all_input_nodes):
            return
        if ARGUMENT in node.meta:
            argument: Any = node.args[node.meta[ARGUMENT]]
            self._add(argument, grad)
            return
        last = self.last()
        self._asking = region_at(node)
        try:
            self._by_row(node, call, grad)
        except NoGradient as why:
            self.erase_behind(last)
            self._by_autograd(node, call, grad, str(why))

    def _by_row(self, node: torch.fx.Node, call: RecordedCall, grad: Any) -> None:
        entry = lookup(call.function)
        row = None if entry is None else GRADIENT.get(entry.op.name)
        if row is None:
            raise NoGradient("there is no gradient formula for it")
        assert entry is not None
        args = self._arguments(node.args, call.args)
        if node.target is getattr:
            args = args[:1]
        kwargs = self._arguments(node.kwargs, call.kwargs)
        try:
            bound = bind_match(entry, args, kwargs)
        except Unbound as error:
            raise NoGradient(str(error)) from None
        arguments = dict(bound.arguments)
        result = None
        if isinstance(node.meta[RESULT], Meta):
            result = self._outer(node)
        elif not isinstance(grad, dict):
            raise NoGradient("several results")
        metas = {
            "result": result,
            "results": node.meta[RESULT],
            "parts": self._parts_of(node),
            "function": entry.op.name,
        }
        found: list[tuple[torch.fx.Node, Term]] = []
        with noting(f"in the gradient row of `{entry.op.name}`"):
            given = row(grad, **taken_by(row, {**metas, **arguments}))
        if not isinstance(given, dict) or not given.keys() <= arguments.keys():
            wanted = f"gradients by the names of arguments ({', '.join(arguments)})"
            raise TypeError(f"the gradient row of `{entry.op.name}` gave {given!r}, not {wanted}")
        for name, each in given.items():
            found += self._fitted(arguments[name], each)
        # All of them, or none: nothing is left of a row that gives up.
        for owner, each in found:
            self._add(owner, each)

    def _parts_of(self, node: torch.fx.Node) -> dict[int, Term]:
        """Of a node with several results, those that have nodes of their own."""
        parts = [each for each in node.users if each.target is operator.getitem]
        return {part_of(each)[1]: self._outer(each) for each in parts if CALL not in each.meta}

    def _fitted(self, argument: Any, grad: Any) -> list[tuple[torch.fx.Node, Term]]:
        """The gradients of the tensors of an argument, with their sizes and dtypes."""
        if isinstance(argument, Number):
            return []
        if isinstance(argument, tuple | list):
            pairs = zip(argument, grad, strict=True)
            return [each for one, own in pairs for each in self._fitted(one, own)]
        if not isinstance(argument, Term) or grad is None:
            return []
        outer = self._outer_of[argument.node]
        if not _has_grad(outer):
            return []
        grad = sum_to(grad, argument.shape)
        return [(outer, grad if grad.dtype is argument.dtype else grad.to(argument.dtype))]

    def _by_autograd(self, node: torch.fx.Node, call: RecordedCall, grad: Any, why: str) -> None:
        step = call.function
        if isinstance(step, RecordedOperator):
            return self._by_record(node, step, grad, call, why)
        entry = lookup(step)
        self._by_torch.setdefault(entry.op.name if entry else str(step), why)
        if entry is not None and gives_sparse(entry, call):
            raise Unlowerable("a result requires grad, and a gradient is sparse")
        if writes_when_run_again(entry, node, call):
            raise Unlowerable("a result requires grad, and an operator updates its arguments")
        known = placed(node, call)
        given = list(known.given)
        results = sorted(grad) if isinstance(grad, dict) else None
        parts: list[Any] = [grad] if results is None else [grad[each] for each in results]
        wanted = [_has_grad(each) for each in given]
        wanted = self._reached(known.function, known.spec, known.given.values(), wanted, results)
        if any(wanted):
            made = AutogradStep(known.function, known.spec, wanted, results)
            args = ([each.node for each in parts], *map(self._placeholder, given))
            self._step(made, args, [e for e, own in zip(given, wanted, strict=True) if own])
        return None

    def _by_record(
        self, node: torch.fx.Node, step: RecordedOperator, grad: Any, call: RecordedCall, why: str
    ) -> None:
        entry = lookup(step.function)
        self._by_torch.setdefault(entry.op.name if entry else str(step.function), why)
        given: Any = node.args
        count = len(node.meta[RESULT]) - 1
        results = sorted(grad)
        places = None if step.is_one else results
        wanted = self._reached(step.function, step.spec, call.args, step.wanted, places)
        recorded = [number for number, own in enumerate(step.wanted) if own]
        reached = [place for place, number in enumerate(recorded) if wanted[number]]
        if reached:
            (record,) = [each for each in node.users if part_of(each)[1] == count]
            args = ([grad[each].node for each in results], self._placeholder(record))
            owners = [given[recorded[place]] for place in reached]
            self._step(RecordedGradient(step, results, reached), args, owners)

    def _reached(
        self,
        function: Callable[..., Any],
        spec: tuple[Any, dict[str, Any]],
        metas: Iterable[Any],
        wanted: Sequence[bool],
        results: Sequence[int] | None,
    ) -> list[bool]:
        """Of what has a gradient, what it reaches."""
        like = list(map(self._example, metas))
        found = AutogradStep(function, spec, wanted, results).reaches(like)
        if not all(found) and any(isinstance(e, torch.Tensor) and not e.numel() for e in like):
            # Of nothing there may be no gradient where there is one of something.
            raise Unlowerable("a result requires grad, and nothing was seen of a tensor")
        reached = iter(found)
        return [each and next(reached) for each in wanted]

    def _step(self, step: Any, args: tuple[Any, ...], owners: Sequence[torch.fx.Node]) -> None:
        """A step of autograd that gives the gradients of these."""
        made = self._graph.call_function(step, args)
        metas = tuple(_contiguous(self.without_grad(each.meta[RESULT])) for each in owners)
        made.meta[CALL] = RecordedCall(step, (), {})
        made.meta[RESULT] = metas
        for owner, part in zip(owners, self._terms(made, metas), strict=True):
            self._add(owner, part)

    def _example(self, value: Any) -> Any:
        """A tensor or a number like one that the capture has seen, without data."""
        hint = self.facts.hint
        if isinstance(value, Meta):
            shape, strides = (
                [hint(each) or 0 for each in of] for of in (value.shape, value.strides)
            )
            return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
        return hint(value) if isinstance(value, Expr) else value

    # -- what is kept ------------------------------------------------------------------------------

    def _cut(
        self,
        inputs: list[torch.fx.Node],
        outputs: list[Any],
        given: list[torch.fx.Node],
        differentiable: list[int],
        wanted: list[int],
        results: list[torch.fx.Node],
    ) -> TrainingGraphs:
        own, outer = self._used(results)
        known = None if self._whole is None else [self._nodes[n] for n in self._whole.kept]
        before = None if self._whole is None else [inputs[n] for n in self._whole.inputs]
        kept, again = kept_and_again(
            self._nodes, outer, self._asked, known, before, self._recomputed, self.facts
        )
        final = torch.fx.Graph()
        mapped: dict[torch.fx.Node, torch.fx.Node] = {}
        read = {*outer, *(each for node in again for each in node.all_input_nodes)}
        if not self._unstable.isdisjoint(read):
            raise Unlowerable("a result requires grad, and its gradient needs what is written to")
        read -= {*kept}
        taken = [n for n, node in enumerate(inputs) if node in read and SYMBOL not in node.meta]
        forward = self._forward(outputs, kept)
        relaid = self._relaid(forward, len(outputs))
        tensors = (*kept, *(inputs[n] for n in taken), *given)
        for number, node in enumerate(tensors):
            new = mapped[node] = final.placeholder(node.name)
            if RESULT in node.meta:
                new.meta[RESULT] = self.without_grad(node.meta[RESULT])
            if number in relaid:
                new.meta[LAYOUT] = CHANNELS_LAST
        numbers = {node.meta[SYMBOL]: node for node in inputs if SYMBOL in node.meta}
        symbols = [*self.symbols, *(each for each, node in numbers.items() if node in read)]
        # A size may be known by a product with others alone.
        hidden = {each for node in (*own, *again) for each in symbols_in(node)}
        hidden = hidden & shown_by(inputs) - shown_by(tensors)
        symbols += sorted(hidden, key=lambda symbol: symbol.name)
        for symbol in dict.fromkeys(symbols):
            new = final.placeholder(symbol.name)
            new.meta[SYMBOL] = symbol
            for each in (self.symbols.get(symbol), numbers.get(symbol)):
                if each is not None:
                    mapped[each] = new
        for node, inner in self._placeholders.items():
            if node in mapped:
                mapped[inner] = mapped[node]

        def compute_again(node: torch.fx.Node) -> None:
            if node not in mapped:
                for each in node.all_input_nodes:
                    compute_again(each)
                mapped[node] = self._copied(final, node, mapped)

        for node in self._graph.nodes:
            if node not in own or node.op == "placeholder":
                continue
            # Where it is needed: what is computed at the beginning would live until then.
            for each in node.all_input_nodes:
                if each not in mapped:
                    compute_again(self._outer_of[each])
                    mapped[each] = mapped[self._outer_of[each]]
            mapped[node] = self._copied(final, node, mapped)
        for each in results:
            if each not in mapped:
                compute_again(self._outer_of[each])
                mapped[each] = mapped[self._outer_of[each]]
        final.output(tuple(mapped[node] for node in results))
        numbers_of = {node: number for number, node in enumerate(self._nodes)}
        return TrainingGraphs(
            forward,
            self._module_of(final),
            len(outputs),
            tuple(differentiable),
            tuple(taken),
            tuple(dict.fromkeys(symbols)),
            tuple(wanted),
            tuple(n for n, node in enumerate(inputs) if _has_grad(node) and n not in wanted),
            self._by_torch,
            tuple(numbers_of[node] for node in kept),
            relaid,
            len(again),
            self._in_kept(outputs, kept),
            any(CALL in node.meta and draws(node, node.meta[CALL]) for node in self._nodes),
            self._program,
            (*self._program.symbols, *self._decomposed.symbols),
        )

    def _in_kept(self, outputs: Sequence[Any], kept: Sequence[torch.fx.Node]) -> frozenset[int]:
        """A view of what is kept is another tensor: torch could not see that it was changed."""
        roots = {root_of(node) for node in kept if node.op != "placeholder"}
        return frozenset(
            number
            for number, node in enumerate(outputs)
            if isinstance(node, torch.fx.Node)
            and RESULT in node.meta
            and node not in kept
            and root_of(node) in roots
        )

    def _used(
        self, results: Sequence[torch.fx.Node]
    ) -> tuple[set[torch.fx.Node], list[torch.fx.Node]]:
        """Nodes of the backward graph that its results need, and of the forward graph."""
        own: set[torch.fx.Node] = set()
        stack = list(results)
        while stack:
            node = stack.pop()
            if node not in own:
                own.add(node)
                stack += node.all_input_nodes
        outer = {self._outer_of[node] for node in own if node in self._outer_of}
        return own, [node for node in self._nodes if node in outer]

    def _relaid(self, forward: torch.fx.GraphModule, outputs: int) -> tuple[int, ...]:
        if self._whole is not None:
            return self._whole.relaid
        results: Any = forward.graph.output_node().args[0]
        nodes, own = list(forward.graph.nodes), {*results[:outputs]}
        keep_channels_last(nodes, {*results[outputs:]} - own, self.facts.hints)
        return tuple(n for n, node in enumerate(results[outputs:]) if LAYOUT in node.meta)

    def _forward(
        self, outputs: Sequence[Any], kept: Sequence[torch.fx.Node]
    ) -> torch.fx.GraphModule:
        if self._whole is not None:
            return self._whole.forward
        graph = torch.fx.Graph()
        mapped: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in self._nodes:
            if node.op == "output":
                made = [self._kept(graph, mapped[each]) for each in kept]
                own = mapped_tree(tuple(outputs), lambda each: mapped.get(each, each))
                graph.output((*own, *made))
            else:
                mapped[node] = self._copied(graph, node, mapped)
        return self._module_of(graph)

    def _kept(self, graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
        """A node as it is kept: inputs are the program's, which may write to them."""
        if node.op != "placeholder":
            return node
        made = graph.call_function(torch.clone, (node,))
        meta = made.meta[RESULT] = node.meta[RESULT]
        made.meta[CALL] = RecordedCall(torch.clone, (meta,), {})
        return made

    def _copied(
        self,
        graph: torch.fx.Graph,
        node: torch.fx.Node,
        mapped: dict[torch.fx.Node, torch.fx.Node],
    ) -> torch.fx.Node:
        made = graph.node_copy(node, mapped.__getitem__)
        if RESULT in made.meta:
            made.meta[RESULT] = self.without_grad(made.meta[RESULT])
        if CALL in made.meta:
            call = made.meta[CALL]
            metas = self.without_grad(call.args), self.without_grad(call.kwargs)
            made.meta[CALL] = RecordedCall(call.function, *metas)
        return made

    def _module_of(self, graph: torch.fx.Graph) -> torch.fx.GraphModule:
        made = _LazyGraphModule(torch.nn.Module(), graph)
        made.meta |= {**self._module.meta, FACTS: self.facts}
        return made


def _has_grad(node: torch.fx.Node) -> bool:
    if UNRECORDED in node.meta:
        return False
    return any(
        isinstance(each, Meta) and each.requires_grad for each in leaves(node.meta.get(RESULT))
    )


def _contiguous(meta: Meta) -> Meta:
    return meta.like(layout=contiguous(len(meta.shape)))


#: They change what tensors are.
MODES: Final = (enter_mode, leave_mode)


def _is_known(result: Any) -> bool:
    """Whether metas tell all there is to know of a result."""
    if isinstance(result, tuple | list):
        return all(each is None or _is_known(each) for each in result)
    return isinstance(result, Meta) and not result.dtype.is_complex
