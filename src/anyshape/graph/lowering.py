"""The walk through a captured graph: every node becomes a value, a view, or a call-out.

Values stay expressions as long as that is cheaper than a buffer. They are stored where Python or
the tensor library needs them, where the program writes to them in part, and where they would be
computed several times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
import torch.fx

from anyshape.errors import AnyshapeError
from anyshape.graph.arguments import named_as_torch, without_flag
from anyshape.graph.handles import Handle, IndexMap, Rearranged, Root
from anyshape.graph.plan import (
    Call,
    Compute,
    Held,
    Native,
    NumberRef,
    Plan,
    Step,
    TensorRef,
    View,
)
from anyshape.graph.rows import ROWS, VIEWS, WRITES
from anyshape.graph.sharing import Sharing
from anyshape.graph.touched import touched
from anyshape.graph.values import DTYPES, Memory, NotAView, NotLowered, Value, Values
from anyshape.loops import scalars
from anyshape.loops.indices import reshaped
from anyshape.loops.kernels import Check, Kernel, Mode, Scan, Store
from anyshape.loops.program import Extern
from anyshape.loops.scalars import Axis, Dtype, Scalar
from anyshape.loops.stages import MustBeStored, kernel_of, roots_of
from anyshape.ops.meta import Dense, Meta, Strided
from anyshape.ops.node_notes import CALL, NUMBER, RESULT, SYMBOL
from anyshape.ops.op import Lowering as Kind
from anyshape.ops.table import Entry, lookup
from anyshape.symbolic import (
    Answer,
    Expr,
    Fact,
    Facts,
    Size,
    Symbol,
    holds,
    maximum,
    minimum,
    substitute,
)
from anyshape.symbolic.expr import of_atom

#: An expression of more operations than this is stored rather than computed twice, or grown on.
MOST_TWICE: Final = 6
MOST_AT_ALL: Final = 120

#: Operations on sizes, which the plan computes itself.
_OF_SIZES: Final[dict[Any, Callable[..., Size]]] = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.floordiv: operator.floordiv,
    operator.mod: operator.mod,
    min: minimum,
    max: maximum,
}


#: What has no meta and reads its tensors only.
_READS: Final = frozenset({"size", "item", "tolist", "dim", "numel", "stride"})


class Unlowerable(Exception):
    """The graph as a whole has to run as it is, and why."""


class Foreign:
    """A tensor that only Python code handles: sparse, complex, quantised."""

    def __init__(self, name: str) -> None:
        self.name = name


class Several(tuple[Any, ...]):
    """The tensors of a result of Python code, and the name of the result itself: it may have more
    of them than the run at hand had."""

    name: str


def several(name: str, items: Sequence[Any]) -> Several:
    found = Several(items)
    found.name = name
    return found


class Lowering:
    """One graph on its way to a plan. Rows of operators get it as their first argument."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.values = Values()
        self.held: dict[str, Held] = {}
        self.steps: list[Step] = []
        #: the meta of the result of the node at hand
        self.result: Any = None
        self._env: dict[torch.fx.Node, Any] = {}
        self._uses: dict[torch.fx.Node, int] = {}
        self._sizes: dict[Size, Size] = {}
        #: how values that are tensors of the program are laid out once they are stored
        self._laid_out: WeakKeyDictionary[Value, Meta] = WeakKeyDictionary()
        self._required: set[tuple[Value, object]] = set()
        self._sharing: Sharing | None = None
        self._count = 0
        self._node: torch.fx.Node | None = None
        self.assumed: list[Fact] = []
        self.native: dict[str, int] = {}
        self.called: dict[str, str] = {}

    # -- the walk --------------------------------------------------------------------------------

    def run(self, graph: torch.fx.Graph) -> Plan:
        inputs: list[str | Symbol] = []
        outputs: list[Any] = []
        self._uses = {node: len(node.users) for node in graph.nodes}
        self._sharing = Sharing(graph, _may_write)
        for node in graph.nodes:
            self._node = node
            if node.op == "placeholder":
                inputs.append(self._placeholder(node))
            elif node.op == "output":
                outputs = [self._output(each) for each in node.args[0]]
            else:
                self._lower(node)
            for each in node.all_input_nodes:
                self._uses[each] -= 1
                if not self._uses[each]:
                    self._env.pop(each, None)
        return Plan(inputs, self.held, self.steps, outputs, self.assumed, self.native, self.called)

    def _placeholder(self, node: torch.fx.Node) -> str | Symbol:
        symbol = node.meta.get(SYMBOL)
        if symbol is not None:
            self._env[node] = of_atom(symbol)
            return symbol
        name = self._name("a")
        if RESULT not in node.meta:
            self._env[node] = NumberRef(name)
        else:
            self._env[node] = self._given(name, self._settled(node.meta[RESULT]))
        return name

    def _settled(self, meta: Any) -> Any:
        """A meta with numbers for the sizes that turned out to be fixed: a size of 1 that was
        broadcast is 1."""
        if isinstance(meta, tuple):
            return tuple(map(self._settled, meta))
        if not isinstance(meta, Meta):
            return meta
        shape = tuple(map(self._settled_size, meta.shape))
        layout = meta.layout
        if not isinstance(layout, Dense):
            layout = Strided(tuple(map(self._settled_size, layout.strides)))
        offset = self._settled_size(meta.offset)
        if shape == meta.shape and layout == meta.layout and offset == meta.offset:
            return meta
        return replace(meta, shape=shape, layout=layout, offset=offset)

    def _settled_size(self, size: Size) -> Size:
        if isinstance(size, int):
            return size
        found = self._sizes.get(size)
        if found is None:
            fixed = {symbol: self.facts.value(of_atom(symbol)) for symbol in size.symbols}
            known = {symbol: value for symbol, value in fixed.items() if value is not None}
            found = substitute(size, known) if known else size
            # min(1, s0) is 1 where s0 is not 0.
            value = self.facts.value(found)
            found = self._sizes[size] = found if value is None else value
        return found

    def _given(self, name: str, meta: Meta | None) -> Handle | Foreign:
        """A tensor that Python has."""
        if meta is None or meta.dtype not in DTYPES:
            return Foreign(name)
        if meta.device.type != "cpu":
            raise Unlowerable(f"a tensor on {meta.device}")
        dtype = DTYPES[meta.dtype]
        self.held[name] = Held(name, dtype, meta.shape, meta.strides, given=True)
        memory = Memory(name, meta.strides)
        return Handle(
            Root(meta, self.values.new(meta.shape, dtype, None, memory=memory), True), meta
        )

    def _lower(self, node: torch.fx.Node) -> None:
        call = node.meta.get(CALL)
        if call is None:
            self._env[node] = self._without_meta(node)
            return
        entry = lookup(call.function)
        args = self._arguments(node.args, call.args)
        result = self.result = self._settled(node.meta.get(RESULT))
        if result is None and RESULT in node.meta:
            self._env[node] = self._call_out(node, entry, "a tensor that only Python handles")
            return
        if result is None and entry is not None and entry.in_place and args:
            # `x[i] = v` gives nothing; what it is about is its first argument.
            result = self.result = args[0].meta if isinstance(args[0], Handle) else None
        if result is None:
            self._env[node] = self._without_meta(node)
            return
        if entry is None or entry.op.lowering is not Kind.VIEW:
            # A view of a parameter says so even where no gradients are recorded.
            _no_gradient(result)
        kwargs = self._arguments(node.kwargs, call.kwargs)
        if node.target is getattr:
            args = args[:1]
        name = entry.op.name if entry is not None else _name_of(call.function)
        try:
            self._env[node] = self._by_row(call.function, entry, args, kwargs)
            self.native[name] = self.native.get(name, 0) + 1
        except NotLowered as why:
            self.called.setdefault(name, str(why))
            self._env[node] = self._call_out(node, entry, str(why))
            return
        self._keep_if_worthwhile(node)

    def _by_row(self, function: Any, entry: Entry | None, args: Any, kwargs: dict[str, Any]) -> Any:
        if entry is None:
            raise NotLowered("not in the table of operators")
        if entry.in_place and entry.op.restrides:
            raise Unlowerable(f"`{entry.op.name}` in place")
        args, kwargs = named_as_torch(entry.op, args, kwargs)
        in_place, args, kwargs = without_flag(function, args, kwargs)
        if "out" in kwargs:
            raise Unlowerable("a result is written into a given tensor")
        view = VIEWS.get(entry.op.name)
        if view is not None:
            try:
                return self._view(view, args, kwargs)
            except NotAView:
                pass
        if entry.in_place and entry.op.name in WRITES:
            return self._write_into(WRITES[entry.op.name], args, kwargs)
        row = ROWS.get(entry.op.name)
        if row is None:
            raise NotLowered("no native code yet")
        values = self._values((args, kwargs))
        try:
            made = row(self, *values[0], **values[1])
        except TypeError as error:
            raise NotLowered(f"unforeseen arguments ({error})") from None
        made = self._not_an_argument(made, values)
        if entry.in_place or in_place:
            target = args[0] if args else kwargs["input"]
            assert isinstance(target, Handle)
            self._agrees(made, target.meta)
            self.write(target, made)
            return target
        return self._bound(made, self.result)

    def _not_an_argument(self, made: Any, values: Any) -> Any:
        """A result is a tensor of its own: a row that hands on an argument means a copy of it."""
        if isinstance(made, tuple | list):
            return tuple(self._not_an_argument(each, values) for each in made)
        if not isinstance(made, Value) or not any(made is each for each in _values_in(values)):
            return made
        return self.values.new(made.sizes, made.dtype, made.at, (made,), factors=made.factors)

    def _bound(self, made: Any, meta: Any) -> Any:
        """The handles of a row's result."""
        if isinstance(made, Handle):
            return made
        if isinstance(made, Value):
            self._agrees(made, meta)
            if made.memory is not None and not self._lies_as(made.memory, meta):
                made = self.values.new(made.sizes, made.dtype, made.at, (made,))
            self._laid_out[made] = meta
            return Handle(Root(meta, made), meta)
        if not isinstance(meta, tuple) or len(meta) != len(made):
            raise NotLowered("another number of results")
        return tuple(self._bound(each, item) for each, item in zip(made, meta, strict=True))

    def _lies_as(self, memory: Memory, meta: Meta) -> bool:
        strides = zip(meta.shape, memory.strides, meta.strides, strict=True)
        return all(size == 1 or self.same(own, wanted) for size, own, wanted in strides)

    def _agrees(self, made: Value, meta: Meta) -> None:
        if meta.device.type != "cpu" or DTYPES.get(meta.dtype) != made.dtype:
            raise NotLowered(f"the result is {meta.dtype} on {meta.device}, not {made.dtype}")
        if not self.same_sizes(made.sizes, meta.shape):
            raise NotLowered(f"the result has sizes {meta.shape}, not {made.sizes}")

    def _view(self, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        base = args[0] if args else kwargs.get("input")
        if not isinstance(base, Handle):
            raise NotLowered("a view of what only Python handles")
        found = view(self, base.meta, *self._metas(args[1:]), **self._metas(kwargs))
        how = self._how_viewed(args, kwargs)
        if isinstance(found, list):
            return tuple(
                Handle(base.root, meta, base, index_map, how and how._replace(place=place))
                for place, (meta, index_map) in enumerate(zip(self.result, found, strict=True))
            )
        if self.result.dtype is not base.meta.dtype:
            raise NotLowered("a view of another dtype")
        if found is None:
            base.root.by_strides = True
        if found is None or not self._comes_out(base, found):
            self.keep(base.root)
        return Handle(base.root, self.result, base, found, how)

    def _how_viewed(self, args: Any, kwargs: dict[str, Any]) -> View | None:
        node = self._node
        assert node is not None
        if not args or _handles((args[1:], kwargs)):
            return None
        if node.target is getattr:
            return View("getattr", node.args[1], (), {})
        return View(node.op, node.target, tuple(args[1:]), kwargs)

    def _comes_out(self, base: Handle, found: Any) -> bool:
        """Whether a view of an expression needs no division: what was merged is not split anew."""
        if not isinstance(found, Rearranged) or base.root.value.memory is not None:
            return True
        return found.factors(base.value(self.values).split_sizes()) is not None

    def _write_into(self, write: Callable[..., None], args: Any, kwargs: dict[str, Any]) -> Handle:
        target = args[0]
        assert isinstance(target, Handle)
        values = self._values((args[1:], kwargs))
        try:
            write(self, target, *values[0], **values[1])
        except TypeError as error:
            raise NotLowered(f"unforeseen arguments ({error})") from None
        return target

    # -- numbers and what has no meta ------------------------------------------------------------

    def _without_meta(self, node: torch.fx.Node) -> Any:
        args = self._arguments(node.args, node.args)
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        symbol = node.meta.get(SYMBOL)
        if symbol is None and node.target in _OF_SIZES and all(map(_is_size, args)):
            return _OF_SIZES[node.target](*args)
        name = self._name("c")
        numeric = not _has_tensors(args)
        if not numeric and node.target not in _READS:
            self._may_change(_handles(args))
        refs = self._references(args)
        kwargs = self._references(self._arguments(node.kwargs, node.kwargs))
        self.steps.append(
            Call(node.op, node.target, refs, kwargs, name, (), symbol, NUMBER in node.meta)
        )
        return NumberRef(name) if symbol is None else of_atom(symbol)

    def _arguments(self, nodes: Any, metas: Any) -> Any:
        """The arguments of a node: handles for tensors, sizes and numbers for the rest."""
        if isinstance(nodes, torch.fx.Node):
            found = self._env[nodes]
            return self._number_of(metas) if _is_size(found) and _is_size(metas) else found
        if isinstance(nodes, dict):
            return {key: self._arguments(item, metas[key]) for key, item in nodes.items()}
        if isinstance(nodes, tuple | list):
            items = [self._arguments(a, b) for a, b in zip(nodes, metas, strict=False)]
            return type(nodes)(items) if type(nodes) in (tuple, list) else tuple(items)
        if isinstance(nodes, slice):
            parts = zip(
                (nodes.start, nodes.stop, nodes.step),
                (metas.start, metas.stop, metas.step),
                strict=True,
            )
            return slice(*(self._arguments(a, b) for a, b in parts))
        return nodes

    def _number_of(self, size: Size) -> Size:
        """A size that can only be one number is that number: a dimension, a flag."""
        if isinstance(size, int):
            return size
        number = self.facts.value(size)
        return size if number is None else number

    def _values(self, tree: Any) -> Any:
        """Handles as the values that they have now."""
        if isinstance(tree, Handle):
            return tree.value(self.values)
        if isinstance(tree, Foreign):
            raise NotLowered("a tensor that only Python handles")
        if isinstance(tree, dict):
            return {key: self._values(item) for key, item in tree.items()}
        if isinstance(tree, tuple | list):
            return (list if isinstance(tree, list) else tuple)(map(self._values, tree))
        if isinstance(tree, slice):
            return slice(*(self._values(part) for part in (tree.start, tree.stop, tree.step)))
        return tree

    def _metas(self, tree: Any) -> Any:
        if isinstance(tree, Handle):
            return tree.meta
        if isinstance(tree, Foreign):
            raise NotLowered("a tensor that only Python handles")
        if isinstance(tree, dict):
            return {key: self._metas(item) for key, item in tree.items()}
        if type(tree) in (tuple, list):
            return type(tree)(map(self._metas, tree))
        return tree

    # -- call-outs -------------------------------------------------------------------------------

    def _call_out(self, node: torch.fx.Node, entry: Entry | None, why: str) -> Any:
        """Let torch do it. What it may change is computed first by those who read it."""
        args = self._arguments(node.args, node.args)
        kwargs = self._arguments(node.kwargs, node.kwargs)
        in_place = entry is not None and entry.in_place
        if CALL in node.meta:
            in_place |= without_flag(node.meta[CALL].function, args, kwargs)[0]
        unknown = entry is None or _may_write(entry, node)
        handles = _handles((args, kwargs))
        if in_place:
            if not handles:
                raise Unlowerable("a tensor that only Python handles is written to")
            self._may_change(handles[:1])
        elif unknown:
            self._may_change(handles)
        refs, named = self._references(args), self._references(kwargs)
        name = self._name("c")
        tensors: list[tuple[str, tuple[int, ...]]] = []
        if in_place:
            bound: Any = handles[0]
            self._written(handles[0].root)
        else:
            bound = self._results(name, self.result, (), tensors)
            if unknown:
                for handle in handles:
                    self._written(handle.root)
            if (
                unknown
                or entry is None
                or entry.op.lowering in (Kind.VIEW, Kind.NOTHING, Kind.INDEX_MAP)
                or (isinstance(self.result, Meta) and self.result.shares_if is not None)
            ):
                _entangle([handle.root for handle in (*handles, *_handles(bound))])
        self.steps.append(
            Call(
                node.op,
                node.target,
                refs,
                named,
                name,
                tuple(tensors),
                node.meta.get(SYMBOL),
                why=why,
            )
        )
        return bound

    def _results(
        self,
        name: str,
        meta: Any,
        path: tuple[int, ...],
        tensors: list[tuple[str, tuple[int, ...]]],
    ) -> Any:
        if isinstance(meta, tuple):
            found = [
                self._results(name, item, (*path, place), tensors)
                for place, item in enumerate(meta)
            ]
            return tuple(found) if path else several(name, found)
        if meta is None and path:
            return None
        own = self._name("t")
        tensors.append((own, path))
        return self._given(own, meta)

    def _references(self, tree: Any) -> Any:
        """Arguments as Python gets them; tensors are in memory by then."""
        if isinstance(tree, Handle):
            memory = self.keep(tree.root)
            whole = not tree.is_view
            if whole:
                return TensorRef(memory.buffer)
            place, views = tree.memory(), tree.views()
            assert place is not None
            if views is not None:
                return TensorRef(place.buffer, views)
            return TensorRef(place.buffer, (), tree.meta.shape, place.strides, place.offset)
        if isinstance(tree, Foreign):
            return TensorRef(tree.name)
        if isinstance(tree, Several):
            return NumberRef(tree.name)
        if isinstance(tree, dict):
            return {key: self._references(item) for key, item in tree.items()}
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return type(tree)(*map(self._references, tree))
        if isinstance(tree, tuple | list):
            return type(tree)(map(self._references, tree))
        if isinstance(tree, slice):
            return slice(*(self._references(part) for part in (tree.start, tree.stop, tree.step)))
        return tree

    def _may_change(self, handles: Sequence[Handle]) -> None:
        """Python code writes to these tensors, or may do so."""
        for handle in handles:
            if handle.root.entangled:
                raise Unlowerable("a tensor is written to that may share memory with another")
            self._before_write(handle.root)
        for handle in handles:
            self._written(handle.root)

    def _output(self, node: Any) -> Any:
        if not isinstance(node, torch.fx.Node):
            return node
        return self._references(self._env[node])

    # -- writing ---------------------------------------------------------------------------------

    def write(self, target: Handle, value: Value) -> None:
        """The program changes a tensor: from now on it is `value` (cast and broadcast already)."""
        root = target.root
        if root.entangled:
            raise Unlowerable("a tensor is written to that may share memory with another")
        if not target.is_view and not root.outside:
            self._now_is(root, value)
            return
        if not root.outside and _is_all_of(target, root):
            # Another shape of the whole tensor: it is another tensor from now on.
            shown = target.meta.shape
            own = root.meta.shape
            extents, facts = self.values.extents, self.facts
            whole = self.values.new(
                own,
                value.dtype,
                lambda index: value.at(reshaped(index, own, shown, extents, facts)),
                (value,),
            )
            self._now_is(root, whole)
            return
        self._before_write(root, but=value)
        memory = target.memory()
        assert memory is not None
        kernel = self._kernel(value, memory, target.meta)
        if not _reads_where_it_writes(kernel, memory.buffer):
            self.realise(value, target.meta)
            kernel = self._kernel(value, memory, target.meta)
        self._compute(kernel)
        self._written(root)

    def _now_is(self, root: Root, value: Value) -> None:
        """A tensor that has no other memory yet is this from now on."""
        root.value = value
        self._laid_out[value] = root.meta
        if root.by_strides:
            self.keep(root)

    def scatter(
        self, target: Handle, value: Value, index_map: IndexMap, reads: Sequence[Value], mode: Mode
    ) -> None:
        """Write a value into a tensor, each element where the map says: to an index of the target
        that may be read from tensors (`reads`). Later elements win, or add up."""
        if target.root.entangled:
            raise Unlowerable("a tensor is written to that may share memory with another")
        self._before_write(target.root, but=value)
        memory = target.memory()
        assert memory is not None
        for each in (value, *reads):
            # What is read must not change while it is.
            if memory.buffer in each.buffers():
                self._apart(each, memory.buffer)
        self._compute(self._scattering(value, memory, index_map, mode))
        self._written(target.root)

    def scattered(
        self, base: Value, value: Value, index_map: IndexMap, mode: Mode, meta: Meta
    ) -> Value:
        """A copy of `base` with a value written into it, each element where the map says."""
        copy = self.values.new(base.sizes, base.dtype, base.at, (base,), factors=base.factors)
        memory = self.realise(copy, meta)
        self._compute(self._scattering(value, memory, index_map, mode))
        return self.values.new(base.sizes, base.dtype, None, memory=memory)

    def _scattering(self, value: Value, memory: Memory, index_map: IndexMap, mode: Mode) -> Kernel:
        while True:
            axes, index = self._loops(value, None)
            store = Store(memory.buffer, memory.address(index_map(index)), value.at(index), mode)
            try:
                return kernel_of(axes, [store], ordered=True)
            except MustBeStored as needed:
                for scalar in needed.reductions:
                    self._store_reduction(scalar)

    def _apart(self, value: Value, buffer: str) -> None:
        """Store a value that depends on a buffer elsewhere."""
        if value.memory is None:
            self.realise(value)
            return
        raise NotLowered("what is written is read for where it goes")

    def _before_write(self, root: Root, but: Value | None = None) -> None:
        """Whoever still reads the tensor as it was does so now."""
        memory = self.keep(root)
        for other in {id(h.root): h.root for h in _handles(list(self._env.values()))}.values():
            value = other.value
            if value is not but and value.memory is None and memory.buffer in value.buffers():
                self.keep(other)

    def _written(self, root: Root) -> None:
        value = root.value
        root.value = self.values.new(value.sizes, value.dtype, None, memory=value.memory)

    # -- storing ---------------------------------------------------------------------------------

    def keep(self, root: Root) -> Memory:
        """The memory of a tensor, stored if it was not."""
        if root.value.memory is None:
            self.realise(root.value, root.meta)
        assert root.value.memory is not None
        return root.value.memory

    def realise(self, value: Value, meta: Meta | None = None) -> Memory:
        """Store a value in a buffer of its own."""
        if value.memory is not None:
            return value.memory
        meta = self._laid_out.get(value, meta)
        strides = _contiguous_strides(value.sizes) if meta is None else meta.strides
        if meta is not None and not isinstance(meta.layout, Dense):
            strides = _contiguous_strides(value.sizes)
        name = self._name("b")
        memory = Memory(name, strides)
        kernel = self._kernel(value, memory, meta)
        self.held[name] = Held(name, value.dtype, value.sizes, strides, given=False)
        self._compute(kernel)
        self.values.now_stored(value, memory)
        return memory

    def joined(
        self, parts: Sequence[Value], dim: int, sizes: Sequence[Size], meta: Meta | None
    ) -> Value:
        """Store values side by side along a dimension of one buffer."""
        name = self._name("b")
        strides = _contiguous_strides(sizes)
        if meta is not None and isinstance(meta.layout, Dense):
            strides = meta.strides
        self.held[name] = Held(name, parts[0].dtype, tuple(sizes), strides, given=False)
        start: Size = 0
        for part in parts:
            place = Memory(name, strides, start * strides[dim])
            self._compute(self._kernel(part, place, meta))
            start = start + part.sizes[dim]
        memory = Memory(name, strides)
        return self.values.new(sizes, parts[0].dtype, None, memory=memory)

    def in_order(self, value: Value, sizes: Sequence[Size]) -> Value:
        """The elements of a value in their order, stored without gaps, in another shape."""
        made, memory = self.fresh(sizes, value.dtype)
        as_it_is = Memory(memory.buffer, _contiguous_strides(value.sizes))
        self._compute(self._kernel(value, as_it_is, None))
        return made

    def _kernel(self, value: Value, memory: Memory, meta: Meta | None) -> Kernel:
        while True:
            axes, index = self._loops(value, meta)
            store = Store(memory.buffer, memory.address(index), value.at(index))
            try:
                return kernel_of(axes, [store])
            except MustBeStored as needed:
                for scalar in needed.reductions:
                    self._store_reduction(scalar)

    def _store_reduction(self, scalar: Scalar) -> None:
        found = self.values.reductions[scalar.data[1][0].symbol]()
        assert found is not None, "a reduction outlives its users"
        self.realise(found)

    def _loops(self, value: Value, meta: Meta | None) -> tuple[list[Axis], tuple[Size, ...]]:
        """Axes in the order of memory, and the index that they make."""
        by_dim: list[list[Axis]] = []
        index: list[Size] = []
        for factors in value.split_sizes():
            axes = [self.values.axis(size) for size in factors if size != 1]
            by_dim.append(axes)
            position: Size = 0
            for axis in axes:
                position = position * axis.extent + scalars.expr_of(axis.symbol)
            index.append(position)
        order = range(len(by_dim))
        if meta is not None and isinstance(meta.layout, Dense):
            order = meta.layout.order
        return [axis for dim in order for axis in by_dim[dim]], tuple(index)

    def scan(self, fold: str, value: Value, dim: int, meta: Meta) -> Value:
        """Store the running fold of a value along a dimension."""
        name = self._name("b")
        memory = Memory(name, _contiguous_strides(value.sizes))
        while True:
            axes, index = self._loops(value, None)
            # The dimension of the scan runs innermost.
            along = [axis for axis in axes if scalars.expr_of(axis.symbol) == index[dim]]
            if len(along) != 1:
                raise NotLowered("a running fold over a dimension of size 1")
            axes = [axis for axis in axes if axis is not along[0]] + along
            scan = Scan(fold, value.at(index), value.dtype, name, memory.address(index))
            try:
                kernel = kernel_of(axes, [], scans=[scan])
                break
            except MustBeStored as needed:
                for scalar in needed.reductions:
                    self._store_reduction(scalar)
        self.held[name] = Held(name, value.dtype, value.sizes, memory.strides, given=False)
        self._compute(kernel)
        return self.values.new(value.sizes, value.dtype, None, memory=memory)

    def fresh_as(
        self, sizes: Sequence[Size], dtype: scalars.Dtype, meta: Meta
    ) -> tuple[Value, Memory]:
        """A buffer that a step of the plan fills, laid out as torch lays out the result."""
        return self.fresh(sizes, dtype, meta.strides)

    def fresh(
        self,
        sizes: Sequence[Size],
        dtype: scalars.Dtype,
        strides: tuple[Size, ...] | None = None,
    ) -> tuple[Value, Memory]:
        """A buffer that a step of the plan fills, and its value."""
        name = self._name("b")
        memory = Memory(name, strides or _contiguous_strides(sizes))
        self.held[name] = Held(name, dtype, tuple(sizes), memory.strides, given=False)
        return self.values.new(sizes, dtype, None, memory=memory), memory

    def _compute(self, kernel: Kernel) -> None:
        reads, writes, numbers = touched(kernel)
        self.steps.append(Compute(kernel, reads, writes, numbers))

    def extern(self, extern: Extern, reads: Sequence[str], writes: Sequence[str]) -> None:
        self.steps.append(Native(extern, frozenset(reads), frozenset(writes)))

    def _keep_if_worthwhile(self, node: torch.fx.Node) -> None:
        """Store what would be computed several times, or has grown long."""
        for handle in _handles(self._env[node]):
            value = handle.root.value
            if handle.is_view or value.memory is not None:
                continue
            twice = len(node.users) > 1 and (value.cost > MOST_TWICE or bool(value.axes))
            if twice or value.cost > MOST_AT_ALL:
                self.keep(handle.root)

    @property
    def node(self) -> torch.fx.Node:
        """The node at hand."""
        assert self._node is not None
        return self._node

    @property
    def is_functional(self) -> bool:
        """Whether the function at hand is one of `torch.nn.functional`."""
        function = self.node.meta[CALL].function
        return getattr(function, "__module__", "") == "torch.nn.functional"

    # -- what rows ask ---------------------------------------------------------------------------

    def assume(self, fact: Fact, why: str) -> None:
        """Go on for sizes of which this holds; calls of others run the graph as it is."""
        if self.facts.prove(fact) is Answer.YES:
            return
        if not all(symbol.backed for symbol in fact.symbols):
            raise NotLowered(f"{why}, which depends on data")
        if not holds(fact, self.facts.hints):
            raise NotLowered(f"{why}, which is not so in this run")
        try:
            self.facts = self.facts.assume(fact, why)
        except AnyshapeError:
            raise NotLowered(f"{why}, which never holds") from None
        self.assumed.append(fact)

    def same_sizes(self, a: Sequence[Size], b: Sequence[Size]) -> bool:
        return len(a) == len(b) and all(map(self.same, a, b))

    def same(self, a: Size, b: Size) -> bool:
        return a is b or a == b or self.facts.equal(a, b)

    def require(
        self, value: Value, key: object, condition: Callable[[Scalar], Scalar], message: str
    ) -> None:
        """Check all elements of a value here and now, once for each `key`: where the condition does
        not hold the program fails."""
        if (value, key) in self._required:
            return
        while True:
            axes, index = self._loops(value, None)
            check = Check(condition(value.at(index)), message)
            try:
                self._compute(kernel_of(axes, [], checks=[check]))
                break
            except MustBeStored as needed:
                for scalar in needed.reductions:
                    self._store_reduction(scalar)
        self._required.add((value, key))

    def probe(self, value: Value) -> tuple[Size, ...]:
        """Some index of a value, to see what it is made of."""
        return self._loops(value, None)[1]

    def dtype_of(self, handle: Handle) -> Dtype:
        return handle.root.value.dtype

    def stored(self, handle: Handle) -> Value:
        """What a tensor is now, in memory."""
        self.keep(handle.root)
        return handle.value(self.values)

    def sharing_matters(self) -> bool:
        """Whether anybody could tell if the result at hand is a view or a copy."""
        return self._node is None or self._sharing is None or self._sharing.matters(self._node)

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count - 1}"


def _reads_where_it_writes(kernel: Kernel, buffer: str) -> bool:
    """Whether every element of the buffer that a round reads is the one that it writes."""
    written = {
        store.address for stage in kernel.stages for store in stage.stores if store.buffer == buffer
    }
    seen: set[Scalar] = set()
    stack = [root for stage in kernel.stages for root in roots_of(stage)]
    stack += kernel.positions.values()
    while stack:
        scalar = stack.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        reads = scalar.op == "load" and scalar.data[0] == buffer
        if reads and (written != {scalar.data[1]} or len(kernel.stages) > 1):
            return False
        stack += scalar.args
    return True


def _is_all_of(target: Handle, root: Root) -> bool:
    """Whether a view shows all elements of its root in their order."""
    same = target.meta.offset == root.meta.offset and target.meta.numel == root.meta.numel
    return same and target.meta.is_contiguous and root.meta.is_contiguous


def _contiguous_strides(sizes: Sequence[Size]) -> tuple[Size, ...]:
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def _handles(tree: Any) -> list[Handle]:
    if isinstance(tree, Handle):
        return [tree]
    if isinstance(tree, dict):
        return [handle for item in tree.values() for handle in _handles(item)]
    if isinstance(tree, tuple | list):
        return [handle for item in tree for handle in _handles(item)]
    if isinstance(tree, slice):
        return _handles((tree.start, tree.stop, tree.step))
    return []


def _values_in(tree: Any) -> list[Value]:
    if isinstance(tree, Value):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [each for item in tree for each in _values_in(item)] if _is_tree(tree) else []


def _is_tree(tree: Any) -> bool:
    return isinstance(tree, tuple | list)


def _has_tensors(tree: Any) -> bool:
    return bool(_handles(tree)) or any(isinstance(each, Foreign) for each in tree)


def _entangle(roots: list[Root]) -> None:
    for root in roots:
        root.entangled |= {other for other in roots if other is not root}


def _may_write(entry: Entry, node: torch.fx.Node) -> bool:
    """Operators that write what is not their first argument: statistics, a given result."""
    return "batch_norm" in entry.op.name or "instance_norm" in entry.op.name or "out" in node.kwargs


def _is_size(value: Any) -> bool:
    return type(value) is int or isinstance(value, Expr)


def _no_gradient(result: Any) -> None:
    if isinstance(result, Meta):
        if result.requires_grad:
            raise Unlowerable("a result requires grad")
    elif isinstance(result, tuple):
        for item in result:
            _no_gradient(item)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", str(function))
