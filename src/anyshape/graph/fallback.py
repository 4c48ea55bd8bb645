"""Operators without native code: torch is called, with tensors as the program would have them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import function_of
from anyshape.graph.aliasing import (
    Foreign,
    Several,
    Storage,
    TensorView,
    handles_in,
    has_tensors,
    is_size,
    several,
)
from anyshape.graph.autograd_step import Step
from anyshape.graph.mutation import Mutation
from anyshape.graph.plan import (
    BufferDecl,
    PythonCall,
    TensorRef,
    Unlowerable,
    leaves,
    paired_tree,
)
from anyshape.loops import expr
from anyshape.ops.bind import Unbound, works_in_place
from anyshape.ops.effects import may_be_written, out_of, schema_of_extension, written_by
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.kernel_launch import KernelLaunch
from anyshape.ops.lowering.scalars import cast
from anyshape.ops.lowering.values import DTYPES, HostScalar, Memory, NotLowered, NumberRef, Value
from anyshape.ops.meta import Layout, Meta
from anyshape.ops.node_meta import CALL, NUMBER, SYMBOL
from anyshape.ops.op import OpKind as Kind
from anyshape.ops.runtime_checks import CHECKS
from anyshape.ops.table import OpMatch
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import (
    Expr,
    Size,
    maximum,
    minimum,
)
from anyshape.symbolic.expr import of_atom

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

#: What addresses are kept in.
_ADDRESSES: Final = (torch.int64, torch.uint64)

#: What has no meta and reads its tensors only.
_READS: Final = frozenset({"size", "item", "tolist", "dim", "numel", "stride"})


def _same_number(function: Any, args: Any) -> tuple[object, ...] | None:
    """Equal for calls that give the same number; None if that is not known. An optimizer computes
    a factor of its rate anew for each parameter."""
    if getattr(function, "__module__", None) not in ("_operator", "math"):
        return None
    if not all(isinstance(each, NumberRef | Expr | int | float) for each in args):
        return None
    # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
    return (
        function,
        *((type(each), repr(each)) if isinstance(each, int | float) else each for each in args),
    )


class Calling(Mutation):
    """Call-outs, and arguments in the forms that rows and calls need."""

    def _arguments(self, nodes: object, metas: Any) -> Any:
        """The arguments of a node: handles for tensors, sizes and numbers for the rest."""
        return paired_tree(nodes, metas, self._argument)

    def _argument(self, node: torch.fx.Node, meta: Any) -> Any:
        found = self._env[node]
        return self._number_of(meta) if is_size(found) and is_size(meta) else found

    def _values(self, tree: object, scalars: bool = False) -> Any:
        """Handles as the values that they have now. `scalars`: a tensor of one element on the
        processor is a number of the kernel."""
        if isinstance(tree, TensorView):
            return tree.value(self.values)
        if isinstance(tree, Foreign):
            if scalars and _is_host_scalar(tree.elsewhere):
                return self._host_scalar(tree)
            raise NotLowered("a tensor that only Python handles")
        if isinstance(tree, dict):
            return {key: self._values(item, scalars) for key, item in tree.items()}
        if isinstance(tree, tuple | list):
            items = [self._values(item, scalars) for item in tree]
            return items if isinstance(tree, list) else tuple(items)
        if isinstance(tree, slice):
            return slice(*(self._values(part) for part in (tree.start, tree.stop, tree.step)))
        return tree

    def _host_scalar(self, tensor: Foreign) -> Value:
        """Read where the program uses it, if it may be written to: else with all other numbers,
        which does not part the native steps."""
        assert tensor.elsewhere is not None
        name, args = self._name("c"), (TensorRef(tensor.name),)
        is_early = tensor.is_constant
        self.steps.append(PythonCall("call_method", "item", args, {}, name, is_number=is_early))
        dtype = DTYPES[tensor.elsewhere.dtype]
        return self.values.host_scalar(name, cast(expr.number(name), dtype), dtype)

    def _are_early(self, given: object) -> bool:
        def is_early(leaf: object) -> bool:
            if isinstance(leaf, Expr):
                return all(symbol.backed for symbol in leaf.symbols)
            is_known = not isinstance(leaf, TensorRef)
            return leaf.name in self.early if isinstance(leaf, NumberRef) else is_known

        return all(map(is_early, leaves(given)))

    def check_first(self, number: NumberRef, check: Callable[[float], object]) -> bool:
        """Let a function that may raise look at a number, before anything is run if the number is
        known by then. Where it is not, that would part native steps: the processor's kernels look
        at it themselves, which is False."""
        if number.name not in self.early and not self.on_gpu:
            return False
        if (number.name, check) not in self.required:
            self.required.add((number.name, check))
            name = self._name("c")
            self.steps.append(
                PythonCall("call_function", check, (number,), {}, name, is_number=True)
            )
        return True

    def read_by(self, number: HostScalar, reader: Callable[[torch.Tensor], float]) -> None:
        """Let a number be read by a function that may raise."""
        for place, step in reversed(list(enumerate(self.steps))):
            if isinstance(step, PythonCall) and step.result == number.name:
                self.steps[place] = replace(step, kind="call_function", target=reader)
                return

    def _metas(self, tree: Any) -> Any:
        if isinstance(tree, TensorView):
            return tree.meta
        if isinstance(tree, Foreign):
            raise NotLowered("a tensor that only Python handles")
        if isinstance(tree, dict):
            return {key: self._metas(item) for key, item in tree.items()}
        if type(tree) in (tuple, list):
            return type(tree)(map(self._metas, tree))
        return tree

    def _without_meta(self, node: torch.fx.Node) -> object:
        args = self._arguments(node.args, node.args)
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        symbol = node.meta.get(SYMBOL)
        if symbol is None and node.target in _OF_SIZES and all(map(is_size, args)):
            return _OF_SIZES[node.target](*args)
        is_number = NUMBER in node.meta
        known = _same_number(node.target, args) if is_number and symbol is None else None
        if known is not None and known in self._numbers:
            return self._numbers[known]
        name = self._name("c")
        named = self._arguments(node.kwargs, node.kwargs)
        numeric = not has_tensors((args, named))
        if not numeric and node.target not in _READS and node.target not in CHECKS:
            if isinstance(node.target, KernelLaunch):
                self._may_follow_addresses(handles_in(args))
            self._may_change(self._written_handles(node, args, named))
        refs, kwargs = self._references(args), self._references(named)
        self.steps.append(
            PythonCall(node.op, node.target, refs, kwargs, name, (), symbol, is_number)
        )
        made = NumberRef(name) if symbol is None else of_atom(symbol)
        if is_number and symbol is None and self._are_early((refs, kwargs)):
            self.early.add(name)
        if known is not None and isinstance(made, NumberRef):
            self._numbers[known] = made
        return made

    def _written_handles(self, node: torch.fx.Node, args: Any, kwargs: Any) -> Sequence[TensorView]:
        return handles_in(may_be_written(function_of(node), args, kwargs))

    def _may_follow_addresses(self, given: Sequence[TensorView]) -> None:
        """A kernel may find addresses of other tensors among its arguments, in a tensor of integers
        of 64 bits: whatever still has to be computed of any tensor is computed before."""
        if any(handle.meta.dtype in _ADDRESSES for handle in given):
            for handle in handles_in(list(self._env.values())):
                self.materialize_storage(handle.root)

    def _call_out(self, node: torch.fx.Node, entry: OpMatch | None, why: str) -> object:
        """Let torch do it. What it may change is computed first by those who read it."""
        args = self._arguments(node.args, node.args)
        kwargs = self._arguments(node.kwargs, node.kwargs)
        in_place = entry is not None and entry.in_place
        if CALL in node.meta:
            in_place |= works_in_place(node.meta[CALL].function, args, kwargs)
        # Operators with graphs change nothing, and give tensors of their own; so do gradients.
        own = region_of(node.target) is not None or isinstance(node.target, Step)
        handles = handles_in((args, kwargs))
        written: Sequence[TensorView] = ()
        if not own and (entry is None or may_write(entry, node)):
            written = self._written_handles(node, args, kwargs)
        if in_place:
            if not handles:
                raise Unlowerable("a tensor that only Python handles is written to")
            self._may_change(handles[:1])
            self._count_write(handles[0], called=True)
        else:
            self._may_change(written)
        refs, named = self._references(args), self._references(kwargs)
        name = self._name("c")
        tensors: list[tuple[str, tuple[int, ...]]] = []
        if in_place:
            bound: object = handles[0]
            self._written(handles[0].root)
        else:
            bound = self._results(name, self.result, (), tensors)
            for handle in written:
                self._written(handle.root)
            if not own and (
                written
                or entry is None
                or entry.op.lowering in (Kind.VIEW, Kind.NOTHING, Kind.INDEX_MAP)
                or (isinstance(self.result, Meta) and self.result.shares_if is not None)
            ):
                roots = [handle.root for handle in handles]
                made = [handle.root for handle in handles_in(bound)]
                if entry is None and schema_of_extension(node.meta[CALL].function) is not None:
                    for root in roots:  # Such an operator makes nothing of one argument another's.
                        entangle([root, *made])
                else:
                    entangle([*roots, *made])
        self.steps.append(
            PythonCall(
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
    ) -> object:
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

    def _references(self, tree: object) -> Any:
        """Arguments as Python gets them; tensors are in memory by then."""
        if isinstance(tree, TensorView):
            memory = self.materialize_storage(tree.root)
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

    def _given(
        self, name: str, meta: Meta | None, layout: Layout | None = None
    ) -> TensorView | Foreign:
        """A tensor that Python has. `layout`: of its memory, if that is not the program's."""
        if meta is None or meta.dtype not in DTYPES:
            return Foreign(name)
        if meta.device != self.device:
            if meta.device.type in ("cpu", "cuda"):
                return Foreign(name, meta)
            raise Unlowerable(f"a tensor on {meta.device}")
        dtype = DTYPES[meta.dtype]
        own = meta if layout is None else meta.like(layout=layout)
        self.held[name] = BufferDecl(name, dtype, meta.shape, own.strides, given=True)
        value = self.values.new(meta.shape, dtype, None, memory=Memory(name, own.strides))
        if layout is None:
            return TensorView(Storage(meta, value, True), meta)
        self._laid_out[value] = own
        return TensorView(Storage(meta, value, relaid=True), meta)


def _is_host_scalar(meta: Meta | None) -> bool:
    """Whether operators on a GPU take a tensor of the processor as a number. What is no float of
    Python's is left to torch."""
    return (
        meta is not None
        and meta.device.type == "cpu"
        and not meta.shape
        and meta.dtype.is_floating_point
        and meta.dtype in DTYPES
        and not meta.requires_grad
    )


def entangle(roots: list[Storage]) -> None:
    for root in roots:
        root.entangled |= {other for other in roots if other is not root}


def may_write(entry: OpMatch, node: torch.fx.Node) -> bool:
    """Operators that write what is not their first argument: statistics, tables, given results."""
    if out_of(function_of(node), node.args, node.kwargs) is not None:
        return True
    try:
        return bool(written_by(entry, node.args, node.kwargs))
    except Unbound:
        return True
