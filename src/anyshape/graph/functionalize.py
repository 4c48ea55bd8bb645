"""A graph with gradients without writes in place: who reads a tensor reads what it is then.

A tensor that the graph makes is a value, and another one after each write; views of it are taken
anew of what it is now. A write to a view is one to the whole: the adjoint of the view, which is its
gradient, puts the part into its place. Tensors of the caller are written to as before, if autograd
has no part in them.

Outputs that share memory with inputs or with each other are made behind the rest, by torch: its
autograd has to see that they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
import torch.fx

from anyshape.errors import AnyshapeError
from anyshape.graph.alias_analysis import Source, is_part, result_of, source_of
from anyshape.graph.checkpoint_regions import mark_behind
from anyshape.graph.overlap import MEETING, Part, form_of, may_meet
from anyshape.graph.plan import Unlowerable, leaves, paired_tree
from anyshape.graph.term_graph import Number, RecordedTerms
from anyshape.graph.training_decompositions import part_of
from anyshape.ops.bind import Unbound, bind_match, works_in_place
from anyshape.ops.effects import is_mutable, may_draw, may_write, out_of, written_by
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.infer import infer
from anyshape.ops.meta import Dense, Layout, Meta
from anyshape.ops.node_meta import CALL, FACTS, RESULT, SYMBOL, UNRECORDED, WRITTEN
from anyshape.ops.op import GRADIENT
from anyshape.ops.signature import taken_by
from anyshape.ops.table import OpMatch, lookup, resolve
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Answer, Expr, Symbol
from anyshape.symbolic.expr import of_atom

Node = torch.fx.Node


class FunctionalGraph(NamedTuple):
    graph: torch.fx.Graph
    #: symbols that it takes behind the inputs of the program
    symbols: tuple[Symbol, ...] = ()
    #: makes the outputs of the program of its inputs and of those of the graph
    epilogue: torch.fx.Graph | None = None
    #: what shares memory with inputs that are written to
    unstable: frozenset[Node] = frozenset()
    #: numbers of the inputs that are written to, and of those of them that something reads
    written: tuple[int, ...] = ()
    read: tuple[int, ...] = ()
    #: attention's kernels, by node, where they were asked for
    kernels: tuple[tuple[Node, str], ...] = ()


def functionalized(graph: torch.fx.GraphModule) -> FunctionalGraph:
    """Raises `Unlowerable` where a write cannot be one to a value."""
    return _Functionalize(graph).run()


class _Functionalize:
    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self._old = graph.graph
        self._graph = torch.fx.Graph()
        self._terms = RecordedTerms(self._graph, graph.meta[FACTS])
        self._sources: dict[Node, Source | None] = {}
        self._roots: dict[Node, Node] = {}
        #: roots of tensors that are written to, and of those that a result may share memory with
        #: for some sizes only
        self._written: set[Node] = set()
        self._uncertain: set[Node] = set()
        #: nodes of the new graph; of a root that is written to, what it is now
        self._mapped: dict[Node, Node] = {}
        #: how often such a root was written to so far, and views of it that were taken since
        self._version: dict[Node, int] = {}
        self._views: dict[tuple[Node, int, bool], Node] = {}
        #: whether autograd records where the graph is at
        self._records = True

    def run(self) -> FunctionalGraph:
        for node in self._old.nodes:
            self._analyse(node)
        if not self._written and not self._shared():
            return FunctionalGraph(self._old)
        for node in self._old.nodes:
            if node.op != "output":
                last = self._graph._root.prev
                self._node(node)
                mark_behind(last, node)
        inputs = [node for node in self._old.nodes if node.op == "placeholder"]
        epilogue = self._output(inputs)
        symbols = self._terms.symbols_as_inputs(frozenset(self._mapped.values()))
        caller = {root for root in self._written if root.op == "placeholder"}
        unstable = {
            self._mapped[node]
            for node, root in self._roots.items()
            if root in caller and node in self._mapped
        }
        written = tuple(n for n, node in enumerate(inputs) if node in caller)
        read = {root for node in self._old.nodes for root in self._read_by(node)}
        return FunctionalGraph(
            self._graph,
            symbols,
            epilogue,
            frozenset(unstable),
            written,
            tuple(n for n in written if inputs[n] in read),
        )

    # -- what shares memory ------------------------------------------------------------------------

    def _analyse(self, node: Node) -> None:
        source = self._sources[node] = self._source(node)
        root = self._roots[node] = node if source is None else self._roots[source.node]
        if source is not None and not source.is_certain:
            self._uncertain.add(root)
        call = node.meta.get(CALL)
        if call is None:
            return
        entry = lookup(call.function)
        tensors = [each for each in node.all_input_nodes if result_of(each) is not None]
        by_itself = _has_grad(node) and not tensors
        if by_itself or (entry is not None and entry.op.name in _MAKE_LEAVES):
            raise Unlowerable("a result requires grad, and gradients end at a tensor that is made")
        if entry is not None:
            for target in _nodes_of(written_by(entry, node.args, node.kwargs)):
                self._written.add(self._writable(self._roots[target], node, entry.op.name))
        for target in _given(node):
            name = getattr(call.function, "__name__", str(call.function))
            self._written.add(self._writable(self._roots[target], node, name))
        if _writes(node):
            name = getattr(call.function, "__name__", str(call.function))
            unknown = entry is None or entry.op.restrides or is_mutable(call.function)
            if unknown or "out" in node.kwargs:
                raise Unlowerable(f"a result requires grad, and `{name}` writes in place")
            self._written.add(self._writable(root, node, name))

    def _read_by(self, node: Node) -> set[Node]:
        """Tensors that an operator makes something else of."""
        call = node.meta.get(CALL)
        if call is None:
            return set()
        entry = lookup(call.function)
        written = () if entry is None else _nodes_of(written_by(entry, node.args, node.kwargs))
        into = _given(node)
        read = leaves([*node.args, *(v for k, v in node.kwargs.items() if k != "out")])
        given = [
            each
            for each in node.all_input_nodes
            if each not in written and (each not in into or each in read)
        ]
        return {self._roots[each] for each in given} - {self._roots[node]}

    def _source(self, node: Node) -> Source | None:
        source = source_of(node)
        meta = node.meta.get(RESULT)
        if source is None or source.is_certain or not isinstance(meta, Meta):
            return source
        if meta.shares_if is None:
            return source
        # Capture has asked where a write makes it matter.
        match self._terms.prove(meta.shares_if):
            case Answer.YES:
                return source._replace(is_certain=True)
            case Answer.NO:
                return None
            case _:
                return source

    def _writable(self, root: Node, node: Node, name: str) -> Node:
        if root.op != "placeholder":
            if not _writes(node):
                raise Unlowerable(f"a result requires grad, and `{name}` writes to what is made")
            return root
        tensors = [each for each in node.all_input_nodes if _has_grad(each)]
        if _has_grad(root) or (_writes(node) and tensors and UNRECORDED not in node.meta):
            raise Unlowerable(f"a result requires grad, and `{name}` writes to an input")
        return root

    # -- the graph ---------------------------------------------------------------------------------

    def _node(self, node: Node) -> None:
        root = self._roots[node]
        if root not in self._written or root.op == "placeholder":
            made = self._mapped[node] = self._copied(node, self._now)
            if node.target is torch._C._set_grad_enabled:
                self._records = bool(node.args[0])
            if SYMBOL in node.meta:
                self._terms.symbols[node.meta[SYMBOL]] = made
        elif _writes(node):
            if root in self._uncertain:
                raise Unlowerable("a result requires grad, and a write may be seen elsewhere")
            self._write(node)
        elif node is root:
            self._mapped[node] = self._copied(node, self._now)
            self._version[root] = 0

    def _copied(self, node: Node, mapped: Callable[[Node], Node]) -> Node:
        made = self._graph.node_copy(node, mapped)
        if is_part(node):
            made.meta[RESULT] = result_of(node)
        return made

    def _now(self, node: Node) -> Node:
        """What stands for a node where the graph is at."""
        root = self._roots[node]
        if root not in self._version or node is root:
            return self._mapped[node]
        source = self._sources[node]
        assert source is not None
        if source.is_itself:
            return self._now(source.node)
        key = node, self._version[root], self._records
        if key not in self._views:
            self._views[key] = self._view(node, source.node)
        return self._views[key]

    def _view(self, node: Node, of: Node) -> Node:
        off = self._records and UNRECORDED in node.meta
        if off:
            self._graph.call_function(torch._C._set_grad_enabled, (False,))
        made = self._copied(node, self._now)
        if off:
            self._graph.call_function(torch._C._set_grad_enabled, (True,))
        has_grad = _has_grad(self._now(of)) and not _detaches(node)
        made.meta[RESULT] = _with_grad(result_of(node), has_grad)
        return made

    # -- writes ------------------------------------------------------------------------------------

    def _write(self, node: Node) -> None:
        target: Any = node.args[0] if node.args else node.kwargs["input"]
        root = self._roots[node]
        is_recorded = UNRECORDED not in node.meta
        steps = [target]
        while steps[-1] is not root:
            source = self._sources[steps[-1]]
            assert source is not None
            steps.append(source.node)
        self._check_no_overlap(node, target)
        if _has_grad(self._mapped[root]) and (not is_recorded or any(map(_detaches, steps[:-1]))):
            raise Unlowerable("a result requires grad, and is written to behind autograd's back")
        try:
            with torch.set_grad_enabled(is_recorded):
                value = self._value(node, self._term(target))
                for step in steps[:-1]:
                    source = self._sources[step]
                    assert source is not None
                    # Of several views, the one that was taken has put its value into the base.
                    if not source.is_itself and not isinstance(result_of(step), tuple | list):
                        value = self._embedded(step, value)
        except NoGradient as why:
            raise Unlowerable(f"a result requires grad, and a write in place: {why}") from None
        layout = result_of(root).layout
        if not isinstance(layout, Dense) and layout != value.meta.layout:
            raise Unlowerable("a result requires grad, and a write to a tensor with gaps")
        self._mapped[root] = value.node
        self._version[root] += 1

    def _check_no_overlap(self, node: Node, target: Node) -> None:
        """What is read of the tensor that is written to is the very same elements, or others."""
        call = node.meta[CALL]
        entry, root, facts = lookup(call.function), self._roots[node], self._terms.facts
        written = self._part(target)
        if entry is not None and entry.op.name == "setitem":
            written = self._subscript(target, *call.args[:2])
        read = leaves([*node.args[1:], *node.kwargs.values()])
        for each in node.all_input_nodes:
            shares = each in read and self._roots[each] is root and result_of(each) is not None
            if shares and may_meet(facts, written, self._part(each)):
                raise Unlowerable(f"a result requires grad, and {MEETING}")

    def _part(self, node: Node) -> Part:
        call = node.meta.get(CALL)
        entry = None if call is None else lookup(call.function)
        if call is not None and entry is not None and entry.op.name == "getitem":
            return self._subscript(node.args[0], *call.args)._replace(meta=result_of(node))
        return Part(result_of(node))

    def _subscript(self, base: Any, meta: Meta, key: Any) -> Part:
        """The elements of a subscript; all of the tensor, where data says which those are."""
        form = form_of(key) if isinstance(meta.layout, Dense) else None
        if any(isinstance(each, Meta) for each in leaves(key)):
            return Part(meta)
        try:
            found = infer(self._terms.facts, torch.Tensor.__getitem__, (meta, key), {}).value
        except AnyshapeError:
            return Part(meta)
        return Part(found, base, form)

    def _value(self, node: Node, target: Term) -> Term:
        """What the target is after a write."""
        call = node.meta[CALL]
        entry = lookup(call.function)
        assert entry is not None
        args = paired_tree(node.args, call.args, self._argument)
        kwargs = dict(paired_tree(node.kwargs, call.kwargs, self._argument))
        kwargs.pop("inplace", None)
        try:
            given = bind_match(entry, args, kwargs).arguments
        except Unbound as error:
            raise NoGradient(str(error)) from None
        row = _FORMS.get(entry.op.name)
        function = _functional(entry, call.function)
        # On a GPU, what does not work in place is another kernel, which draws other numbers.
        is_apart = entry.in_place or target.meta.device.type != "cpu"
        try:
            if row is not None:
                value = row(target, **taken_by(row, given))
            elif function is not None and not (may_draw(call.function) and is_apart):
                if not entry.in_place:  # asked to, perhaps by position
                    first, *rest = given
                    args = (given[first],)
                    # Names that other functions of the operator have are not given here.
                    kwargs = {name: given[name] for name in rest if given[name] is not None}
                value = self._terms.record(function, *args, **kwargs)
            else:
                raise NoGradient(f"`{entry.op.name}` is only known in place")
        except NoGradient:
            if any(_has_grad(self._now(each)) for each in node.all_input_nodes):
                raise
            return self._opaque(node, target)
        return self._fitted(value, target)

    def _fitted(self, value: Term, target: Term) -> Term:
        """With the dtype, sizes and layout of what is written to."""
        if value.dtype is not target.dtype:
            value = value.to(target.dtype)
        if value.rank != target.rank or not all(
            map(self._terms.is_same, value.shape, target.shape)
        ):
            value = value.expand(target.shape)
        if value.meta.layout != target.meta.layout:
            value = _laid_out(value, target.meta.layout)
        return value

    def _opaque(self, node: Node, target: Term) -> Term:
        """A write to a copy, which nothing else is made of."""
        copy = target.clone()
        copy.node.meta[WRITTEN] = True
        self._copied(node, lambda each: copy.node if each is node.args[0] else self._now(each))
        return copy

    def _embedded(self, step: Node, value: Term) -> Term:
        """The tensor that a view is of, with this in the place of the view."""
        view, place = part_of(step) if is_part(step) else (step, None)
        source = self._sources[view]
        assert source is not None
        base = self._term(source.node)
        placed = self._adjoint(view, place, value)
        if not self._terms.is_same(value.meta.numel, base.meta.numel):
            ones = value.call(torch.ones_like, dtype=torch.bool)
            placed = self._adjoint(view, place, ones).call(torch.where, placed, base)
        return self._fitted(placed, base)

    def _adjoint(self, view: Node, place: int | None, value: Term) -> Term:
        """Zeros, and a value in the place of a view, or of one of several."""
        call = view.meta[CALL]
        entry = lookup(call.function)
        row = None if entry is None else GRADIENT.get(entry.op.name)
        if row is None or entry is None or entry.op.name in _REPEATING:
            raise NoGradient("a view whose adjoint is not known")
        args = paired_tree(view.args, call.args, self._argument)
        if view.target is getattr:
            args = args[:1]
        kwargs = paired_tree(view.kwargs, call.kwargs, self._argument)
        try:
            arguments = dict(bind_match(entry, args, kwargs).arguments)
        except Unbound as error:
            raise NoGradient(str(error)) from None
        grad, metas = value, view.meta[RESULT]
        if place is not None:
            grad, metas = {place: value}, [replace(each, dtype=value.dtype) for each in metas]
        known = {"result": None, "results": metas, "parts": {}, "function": entry.op.name}
        (made,) = row(grad, **taken_by(row, {**known, **arguments})).values()
        if not isinstance(made, Term):
            raise NoGradient("a view of several tensors")
        return _differentiable(made, value)

    # -- terms -------------------------------------------------------------------------------------

    def _term(self, node: Node) -> Term:
        found = self._now(node)
        return Term(self._terms, found, found.meta[RESULT])

    def _argument(self, node: Node, meta: Any) -> Any:
        if isinstance(meta, Expr):
            return meta
        symbol = node.meta.get(SYMBOL)
        if symbol is not None:
            return of_atom(symbol)
        if isinstance(result_of(node), Meta):
            return self._term(node)
        return Number(self._now(node), meta)

    # -- outputs -----------------------------------------------------------------------------------

    def _output(self, inputs: list[Node]) -> torch.fx.Graph | None:
        output, outputs = self._outputs()
        shared = self._shared()
        if not shared:
            made = [self._now(each) if isinstance(each, Node) else each for each in outputs]
            self._finish(output, made)
            return None
        behind = torch.fx.Graph()
        mapped = {node: behind.node_copy(node) for node in inputs}
        results: list[Node] = []
        for each in outputs:
            if not isinstance(each, Node):
                continue
            root = self._roots.get(each, each)
            own = root if root in shared else each
            if own not in mapped:
                mapped[own] = behind.placeholder(own.name)
                results.append(self._now(own))
        final: list[Any] = []
        for each in outputs:
            final.append(self._behind(behind, each, mapped) if isinstance(each, Node) else each)
        behind.output(tuple(final))
        self._finish(output, results)
        for node in reversed(self._graph.nodes):
            if not node.users and source_of(node) is not None and not _writes(node):
                self._graph.erase_node(node)  # a view that is made behind the rest
        return behind

    def _outputs(self) -> tuple[Node, list[Any]]:
        (output,) = [node for node in self._old.nodes if node.op == "output"]
        results: Any = output.args[0]
        return output, list(results)

    def _shared(self) -> set[Node]:
        """Whose memory outputs share with inputs or with each other."""
        _, outputs = self._outputs()
        tensors = [
            each for each in outputs if isinstance(each, Node) and result_of(each) is not None
        ]
        roots = [self._roots[each] for each in tensors]
        return {root for root in roots if root.op == "placeholder" or roots.count(root) > 1}

    def _behind(self, graph: torch.fx.Graph, node: Node, mapped: dict[Node, Node]) -> Node:
        if node not in mapped:
            source = self._sources[node]
            if source is not None and source.is_itself:
                mapped[node] = self._behind(graph, source.node, mapped)
            else:
                is_number = result_of(node) is None and CALL not in node.meta
                is_view = source is not None and source.is_replayable
                if UNRECORDED in node.meta or not (is_number or is_view):
                    raise Unlowerable("a result requires grad, and shares memory with another one")
                for each in node.all_input_nodes:
                    self._behind(graph, each, mapped)
                mapped[node] = graph.node_copy(node, mapped.__getitem__)
        return mapped[node]

    def _finish(self, output: Node, results: list[Any]) -> None:
        made = self._graph.output(tuple(results))
        made.meta = dict(output.meta)


# -- nodes ---------------------------------------------------------------------------------------


def _writes(node: Node) -> bool:
    call = node.meta.get(CALL)
    if call is None:
        return False
    if lookup(call.function) is None and may_write(call.function):
        return True  # A method of torch that has no row, such as `fill_diagonal_`.
    return works_in_place(call.function, call.args, call.kwargs) or is_mutable(call.function)


def _given(node: Node) -> list[Node]:
    """What the results of a call are written into."""
    call = node.meta.get(CALL)
    found = None if call is None else out_of(call.function, node.args, node.kwargs)
    return [each for each in leaves(found) if isinstance(each, Node)]


def _detaches(node: Node) -> bool:
    call = node.meta.get(CALL)
    entry = None if call is None else lookup(call.function)
    return UNRECORDED in node.meta or (entry is not None and not entry.op.differentiable)


def _has_grad(node: Node) -> bool:
    found = result_of(node)
    metas = found if isinstance(found, tuple | list) else (found,)
    return any(isinstance(each, Meta) and each.requires_grad for each in metas)


def _with_grad(value: Any, has_grad: bool) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_with_grad(each, has_grad) for each in value)
    return replace(value, requires_grad=has_grad) if isinstance(value, Meta) else value


def _nodes_of(arguments: Any) -> list[Node]:
    return [each for each in arguments.values() if isinstance(each, Node)]


#: Views that show an element in several places: their adjoint is a sum.
_REPEATING: Final = frozenset(
    {"unfold", "expand", "expand_as", "broadcast_to", "broadcast_tensors", "meshgrid", "as_strided"}
)
#: They make tensors that gradients end at.
_MAKE_LEAVES: Final = frozenset({"requires_grad_", "detach_", "parameter"})


# -- what writes are as values -------------------------------------------------------------------


def _functional(entry: OpMatch, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The form of an operator that gives a result of its own."""
    if not entry.in_place:
        return function  # which was asked to work in place
    return next(filter(None, map(resolve, entry.op.answers_to)), None)


def _laid_out(value: Term, layout: Layout) -> Term:
    if not isinstance(layout, Dense):
        return value  # a part, which its place in the whole gives a layout
    order = list(layout.order)
    back = [order.index(dim) for dim in range(len(order))]
    return value.permute(order).contiguous().permute(back)


def _copy(target: Term, src: Term) -> Term:
    if src.meta.device != target.meta.device:
        raise NoGradient("a copy from another device")
    if not target.meta.requires_grad or not torch.is_grad_enabled():
        return src.clone()
    # What is overwritten has a gradient, of zeros.
    everywhere = target.call(torch.ones_like, dtype=torch.bool)
    return everywhere.call(torch.where, src.to(target.dtype), target)


def _zeros(target: Term) -> Term:
    zeros = target.records.record(torch.zeros, (), dtype=target.dtype, device=target.meta.device)
    return _copy(target, zeros)


def _setitem(target: Term, index: Any, value: Any) -> Term:
    items = list(index) if isinstance(index, tuple) else [index]
    tensors = [each for each in items if isinstance(each, Term)]
    if not tensors:
        return _set_part(target, index, value)
    if len(items) == 1 and tensors[0].dtype is torch.bool:
        (mask,) = tensors
        if isinstance(value, Term) and value.rank:
            raise NoGradient("values for the places of a mask")
        for _ in range(target.rank - mask.rank):
            mask = mask.unsqueeze(-1)
        if isinstance(value, Term):
            return mask.call(torch.where, value.to(target.dtype), target)
        return target.masked_fill(mask, value)
    if len(tensors) < len(items) or any(each.dtype is torch.bool for each in tensors):
        raise NoGradient("a subscript of several kinds")
    if not isinstance(value, Term):
        options = {"dtype": target.dtype, "device": target.meta.device}
        value = target.records.record(torch.full, (), value, **options)
    return target.call(torch.index_put, tuple(tensors), value)


def _set_part(target: Term, index: Any, value: Any) -> Term:
    part = target.call(torch.Tensor.__getitem__, index)
    if isinstance(value, Term):
        while value.rank > part.rank:
            value = value.squeeze(0)
        value = value.to(part.dtype) if value.dtype is not part.dtype else value
        value = value.expand(part.shape)
    else:
        value = part.call(torch.full_like, value)
    row = GRADIENT["getitem"]
    placed = _differentiable(row(value, input=target, index=index)["input"], value)
    ones = value.call(torch.ones_like, dtype=torch.bool)
    return row(ones, input=target, index=index)["input"].call(torch.where, placed, target)


def _differentiable(placed: Term, value: Term) -> Term:
    if value.meta.requires_grad and not placed.meta.requires_grad:
        raise NoGradient("a view whose adjoint has no gradient")
    return placed


_FORMS: Final[dict[str, Callable[..., Term]]] = {
    "copy_": _copy,
    "zero_": _zeros,
    "setitem": _setitem,
}
