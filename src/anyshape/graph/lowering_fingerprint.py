"""What lowering knows at the end of a part, in a form that can be compared: all that decides how
the nodes that follow are lowered.

Tensors of the part are stored by then. Storages and buffers are numbers in the order in which they
are met: two states that are equal in this form differ in names alone, and then equal nodes lead
from both to equal steps and again to equal states. What is older than the part is the same for all
of them, but may be stored by now, or something that it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.graph.aliasing import Storage, TensorView
from anyshape.graph.find_repeats import Flat
from anyshape.graph.materialize import Materialize
from anyshape.ops.lowering.values import Value


class LiveState:
    """`form`: compares equal where the states do. `buffers`: the names of the buffers in it, in the
    order of their numbers."""

    def __init__(self, lowering: Materialize, live: Sequence[tuple[object, object]]) -> None:
        self._lowering = lowering
        self._roots: dict[Storage, int] = {}
        self._met: set[Value] = set()
        self.buffers: dict[str, int] = {}
        flat = Flat()
        flat.add(lowering.facts)
        flat.add([len(each) for each in (lowering.assumed, lowering.required, lowering.once)])
        flat.add([(key, self._of(held)) for key, held in live])
        self.form = flat.kinds, flat.leaves

    def _of(self, held: object) -> object:
        """Sizes are equal by value; what we know nothing about is equal to itself."""
        if type(held) is TensorView:
            # Where it lies in what is stored, its strides tell; what is not is older than the part.
            return self._root(held.root), held.meta, held.views()
        return [*map(self._of, held)] if type(held) is tuple else held

    def _root(self, root: Storage) -> object:
        number = self._roots.setdefault(root, len(self._roots))
        if root.entangled:
            return object()  # it may share memory: like no other
        written = root.native_writes, root.called_writes, root.written_apart
        value = self._value(root.value)
        return number, root.meta, value, root.outside, root.by_strides, written

    def _value(self, value: Value) -> object:
        memory = value.memory
        if memory is None:
            parents = () if value in self._met else value.parents
            self._met.add(value)
            return value, [*map(self._value, parents)]
        number = self.buffers.setdefault(memory.buffer, len(self.buffers))
        laid_out = self._lowering.meta_of(value)
        return number, memory.strides, memory.offset, value.sizes, value.dtype, laid_out
