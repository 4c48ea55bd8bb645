"""The program writes to a tensor: it is another value from then on, and who reads the old one does
so before.

A write may meet memory that it reads, or writes twice: then it is torch's to do. Torch raises an
error where an operator writes to a part of a tensor and reads another part that overlaps, and where
elements of what is written to are one. Which of it happens depends on sizes, so native code only
does what never meets, for all sizes of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Final

from anyshape.graph.aliasing import Storage, TensorView, handles_in
from anyshape.graph.materialize import Materialize
from anyshape.graph.overlap import MEETING, Part, form_of, may_meet
from anyshape.graph.plan import Unlowerable, View
from anyshape.loops import expr
from anyshape.loops.expr import Dtype
from anyshape.loops.kernels import Kernel, Mode, Store
from anyshape.loops.reshape_indexing import reshaped
from anyshape.loops.stages import all_roots, kernel_of
from anyshape.ops.lowering.values import Index, IndexMap, Memory, NotLowered, Value
from anyshape.ops.meta import Dense, Meta
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic.expr import symbols_of


class Mutation(Materialize):
    """Changes of tensors."""

    def write(self, target: TensorView, value: Value) -> None:
        """The program changes a tensor: from now on it is `value` (cast and broadcast already)."""
        root = target.root
        self._may_be_written(target)
        self._count_write(target)
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
            self.materialize(value, target.meta)
            kernel = self._kernel(value, memory, target.meta)
        self.compute(kernel)
        self._written(root)

    #: tensors that the write at hand reads
    read: Sequence[TensorView] = ()

    def check_no_overlap(self, target: TensorView) -> None:
        """What the program writes to is not what it reads, or reads the very same elements."""
        same_root = [each for each in self.read if each.root is target.root]
        if any(may_meet(self.facts, _part(target), _part(each)) for each in same_root):
            raise NotLowered(MEETING)

    def _may_be_written(self, target: TensorView) -> None:
        if target.root.entangled:
            raise Unlowerable("a tensor is written to that may share memory with another")
        if overlaps_itself(target):
            # An error of eager's, or an order of writes that only eager knows.
            raise NotLowered("elements that share memory are written to")

    def _count_write(self, target: TensorView, *, called: bool = False) -> None:
        """An operator writes to a tensor: its version is another one. `called`: torch does it."""
        root = target.root
        if self._counted == (self._node, root):
            return
        self._counted = self._node, root
        if target.counts_apart:
            root.written_apart = True
        elif called:
            root.called_writes += 1
        else:
            root.native_writes += 1
            if root.outside and root.value.memory is not None:
                self.bumps[root.value.memory.buffer] = root.native_writes

    #: the operator and the tensor that were counted last
    _counted: tuple[object, Storage] | None = None

    def _now_is(self, root: Storage, value: Value) -> None:
        """A tensor that has no other memory yet is this from now on."""
        root.native_writes += root.called_writes
        root.called_writes = 0
        if value.memory is not None and not self.has_layout(value.memory, root.meta):
            # Its views go by the strides of the tensor.
            value = self.values.new(value.sizes, value.dtype, value.at, (value,))
        root.value = value
        self._laid_out[value] = root.meta
        root.relaid = False
        if root.by_strides:
            self.materialize_storage(root)

    def has_layout(self, memory: Memory, meta: Meta) -> bool:
        """Whether memory is laid out as the tensor is."""
        strides = zip(meta.shape, memory.strides, meta.strides, strict=True)
        return all(size == 1 or self.same(own, wanted) for size, own, wanted in strides)

    def scatter(
        self,
        target: TensorView,
        value: Value,
        index_map: IndexMap,
        reads: Sequence[Value],
        mode: Mode,
    ) -> None:
        """Write a value into a tensor, each element where the map says: to an index of the target
        that may be read from tensors (`reads`). Later elements win, or add up."""
        if mode != "set":
            self.needs_library()
        self._may_be_written(target)
        self._count_write(target)
        self._before_write(target.root, but=value)
        memory = target.memory()
        assert memory is not None
        for each in (value, *reads):
            # What is read must not change while it is.
            if memory.buffer in each.buffers():
                self._apart(each, memory.buffer)
        self.compute(self._scattering(value, memory, index_map, mode))
        self._written(target.root)

    def scattered(
        self, base: Value, value: Value, index_map: IndexMap, mode: Mode, meta: Meta
    ) -> Value:
        """A copy of `base` with a value written into it, each element where the map says."""
        if mode != "set":
            self.needs_library()
        copy = self.values.new(base.sizes, base.dtype, base.at, (base,), factors=base.factors)
        memory = self.materialize(copy, meta)
        self.compute(self._scattering(value, memory, index_map, mode))
        return self.values.new(base.sizes, base.dtype, None, memory=memory)

    def _scattering(self, value: Value, memory: Memory, index_map: IndexMap, mode: Mode) -> Kernel:
        def make() -> Kernel:
            axes, index = self._loops(value, None)
            there = index_map(index)
            store = Store(memory.buffer, memory.address(there), value.at(index), mode)
            return _side_by_side(kernel_of(axes, [store], ordered=True), index, there)

        return self._with_stored(make)

    def _apart(self, value: Value, buffer: str) -> None:
        """Store a value that depends on a buffer elsewhere."""
        if value.memory is None:
            self.materialize(value)
            return
        raise NotLowered("what is written is read for where it goes")

    def _before_write(self, root: Storage, but: Value | None = None) -> None:
        """Whoever still reads the tensor as it was does so now."""
        memory = self.materialize_storage(root)
        # Most of what lives is in memory, the inputs of the graph above all: no walk through it.
        pending = [each for each in self._env.values() if not _is_in_memory(each)]
        for other in {id(h.root): h.root for h in handles_in(pending)}.values():
            value = other.value
            if value is not but and value.memory is None and memory.buffer in value.buffers():
                self.materialize_storage(other)

    def _written(self, root: Storage) -> None:
        value = root.value
        if root.outside and value.memory is not None:
            self.changed.add(value.memory.buffer)
        root.value = self.values.new(value.sizes, value.dtype, None, memory=value.memory)

    def _may_change(self, handles: Sequence[TensorView]) -> None:
        """Python code writes to these tensors, or may do so."""
        for handle in handles:
            if handle.root.entangled:
                raise Unlowerable("a tensor is written to that may share memory with another")
            self._before_write(handle.root)
        for handle in handles:
            self._written(handle.root)

    def subscripted(self, target: TensorView, shown: Meta, key: object) -> TensorView:
        """The view of a tensor that a subscript of integers, slices and new dimensions makes."""
        return TensorView(
            target.root, shown, target, view=View("call_function", operator.getitem, (key,), {})
        )

    def dtype_of(self, handle: TensorView) -> Dtype:
        return handle.root.value.dtype

    def stored(self, handle: TensorView) -> Value:
        """What a tensor is now, in memory."""
        self.materialize_storage(handle.root)
        return handle.value(self.values)


def _is_in_memory(found: object) -> bool:
    return type(found) is TensorView and found.root.value.memory is not None


def _side_by_side(kernel: Kernel, index: Index, there: Index) -> Kernel:
    """Rounds that differ in a dimension which elements keep never write to the same element: its
    axes stay outside, and the others run inside of them, in their order."""
    kept = [position for position in index if any(position == other for other in there)]
    free = {symbol for position in kept for symbol in symbols_of(position)}
    outer = tuple(axis for axis in kernel.axes if axis.symbol in free)
    inner = tuple(axis for axis in kernel.axes if axis.symbol not in free)
    if not outer or not inner or len(kernel.stages) != 1 or kernel.stages[0].axes:
        return kernel
    return replace(kernel, axes=outer, stages=(replace(kernel.stages[0], axes=inner),))


def _reads_where_it_writes(kernel: Kernel, buffer: str) -> bool:
    """Whether every element of the buffer that a round reads is the one that it writes."""
    written = {
        store.address for stage in kernel.stages for store in stage.stores if store.buffer == buffer
    }
    for scalar in expr.reached(all_roots(kernel)):
        reads = scalar.op == "load" and scalar.data[0] == buffer
        if reads and (written != {scalar.data[1]} or len(kernel.stages) > 1):
            return False
    return True


def _is_all_of(target: TensorView, root: Storage) -> bool:
    """Whether a view shows all elements of its root in their order."""
    same = target.meta.offset == root.meta.offset and target.meta.numel == root.meta.numel
    return same and target.meta.is_contiguous and root.meta.is_contiguous


#: Views whose elements may share memory without a stride that is 0.
_WINDOWS: Final = frozenset({"unfold", "as_strided"})


def overlaps_itself(handle: TensorView) -> bool:
    """Whether two elements of it may be one."""
    each: TensorView | None = handle
    while each is not None:
        made = each.view
        if made is not None and not isinstance(each.meta.layout, Dense):
            name = made.target if isinstance(made.target, str) else made.target.__name__
            if name in _WINDOWS:
                return True
        each = each.base
    return any(
        stride == 0 and size != 1
        for size, stride in zip(handle.meta.shape, handle.meta.strides, strict=True)
    )


def _part(handle: TensorView) -> Part:
    view, base = handle.view, handle.base
    if view is None or base is None or view.place is not None or overlaps_itself(base):
        return Part(handle.meta)
    is_subscript = view.target in (operator.getitem, "__getitem__")
    return Part(handle.meta, base, form_of(view.args[0]) if is_subscript else None)
