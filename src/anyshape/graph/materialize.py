"""Values become buffers: the kernels that store them, and what rows may ask of sizes.

The state of a lowering is here; writing, calling out and the walk build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
import torch.fx

from anyshape.errors import AnyshapeError
from anyshape.graph.alias_analysis import Sharing
from anyshape.graph.aliasing import Storage
from anyshape.graph.plan import BufferDecl, Native, Step, computing
from anyshape.loops import expr
from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Check, Kernel, Scan, Store
from anyshape.loops.program import Extern
from anyshape.loops.stages import MustBeStored, kernel_of
from anyshape.ops.lowering.index_cases import outcomes
from anyshape.ops.lowering.values import Index, Memory, NotLowered, NumberRef, Value, Values
from anyshape.ops.meta import Dense, Meta, Strided
from anyshape.ops.node_meta import RESULT
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import (
    Answer,
    Fact,
    Facts,
    Size,
    Symbol,
    holds,
    modulo,
    substitute,
)
from anyshape.symbolic.expr import of_atom

#: Functions of the tensor library that segments on GPUs call, too.
ON_GPUS: Final = frozenset(
    {
        *("mm_out", "bmm_out", "addmm_out", "convolution", "convolution_backward"),
        *(
            f"_scaled_dot_product_{kernel}_attention{which}"
            for kernel in ("efficient", "flash")
            for which in ("", "_backward")
        ),
    }
)


class Materialize:
    """Buffers and steps of a plan."""

    #: integers that the program is given, which are no sizes of tensors
    unbounded: Set[Symbol] = frozenset()

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        #: where the tensors are that native code works on
        self.device = torch.device("cpu")
        self.values = Values()
        self.held: dict[str, BufferDecl] = {}
        self.steps: list[Step] = []
        #: the meta of the result of the node at hand
        self.result: Any = None
        self._env: dict[torch.fx.Node, object] = {}
        self._uses: dict[torch.fx.Node, int] = {}
        self._sizes: dict[Size, Size] = {}
        #: how values that are tensors of the program are laid out once they are stored
        self._laid_out: WeakKeyDictionary[Value, Meta] = WeakKeyDictionary()
        #: values that are stored part by part: those, and the dimension they follow each other in
        self._parts: WeakKeyDictionary[Value, tuple[Sequence[Value], int]] = WeakKeyDictionary()
        #: what has been checked, and how
        self.required: set[tuple[object, object]] = set()
        #: numbers that are known before anything is run
        self.early: set[str] = set()
        #: that calls give, by what is called
        self._numbers: dict[tuple[object, ...], NumberRef] = {}
        #: what several nodes need
        self.once: dict[object, Value] = {}
        self._sharing: Sharing | None = None
        self._count = 0
        self._node: torch.fx.Node | None = None
        self.assumed: list[Fact] = []
        #: inputs that have to begin at a multiple of 16 bytes
        self.aligned: set[str] = set()
        #: of the graph's inputs
        self.input_names: dict[torch.fx.Node, str] = {}
        #: buffers of tensors that Python has and that are written to
        self.changed: set[str] = set()
        #: by how much native code moves the version of a tensor on
        self.bumps: dict[str, int] = {}
        self.native: dict[str, int] = {}
        self.called: dict[str, str] = {}
        #: what is one kernel though the program spells it out, and why it is not
        self.fused: set[str] = set()
        self.unfused: dict[str, str] = {}

    def meta_of(self, value: Value) -> Meta | None:
        """How a value is laid out once it is stored, if it is a tensor of the program."""
        return self._laid_out.get(value)

    def materialize_storage(self, root: Storage) -> Memory:
        """The memory of a tensor as the program has it, stored if it was not."""
        stored = self._laid_out.get(root.value)
        if stored is not None and stored.layout != root.meta.layout:
            inner = root.value
            root.value = self.values.new(inner.sizes, inner.dtype, inner.at, (inner,))
            self._laid_out[root.value] = root.meta
            root.relaid = False
        if root.value.memory is None:
            self.materialize(root.value, root.meta)
        assert root.value.memory is not None
        return root.value.memory

    def made_once(self, key: object, make: Callable[[], Value]) -> Value:
        """What several nodes need, made by the first of them."""
        found = self.once.get(key)
        if found is None:
            found = self.once[key] = make()
        return found

    def materialize(self, value: Value, meta: Meta | None = None) -> Memory:
        """Store a value in a buffer of its own."""
        if value.memory is not None:
            return value.memory
        meta = self._laid_out.get(value, meta)
        strides = contiguous_strides(value.sizes) if meta is None else meta.strides
        if meta is not None and not isinstance(meta.layout, Dense):
            strides = contiguous_strides(value.sizes)
        name = self._name("b")
        memory = Memory(name, strides)
        parts, dim = self._parts.pop(value, ((value,), 0))
        start: Size = 0
        for part in parts:
            place = Memory(name, strides, start * strides[dim] if strides else 0)
            self.compute(self._kernel(part, place, meta))
            start = start + part.sizes[dim] if part.sizes else start
        self.held[name] = BufferDecl(name, value.dtype, value.sizes, strides, given=False)
        self.values.now_stored(value, memory)
        return memory

    def stored_in_parts(self, value: Value, parts: Sequence[Value], dim: int) -> None:
        """Should the value be stored, then as these, side by side along a dimension."""
        self._parts[value] = parts, dim

    def joined(
        self, parts: Sequence[Value], dim: int, sizes: Sequence[Size], meta: Meta | None
    ) -> Value:
        """Store values side by side along a dimension of one buffer."""
        made = self.values.new(sizes, parts[0].dtype, None, parts)
        self.stored_in_parts(made, parts, dim)
        self.materialize(made, meta)
        return made

    def in_order(self, value: Value, sizes: Sequence[Size]) -> Value:
        """The elements of a value in their order, stored without gaps, in another shape."""
        made, memory = self.fresh(sizes, value.dtype)
        as_it_is = Memory(memory.buffer, contiguous_strides(value.sizes))
        self.compute(self._kernel(value, as_it_is, None))
        return made

    def _kernel(self, value: Value, memory: Memory, meta: Meta | None) -> Kernel:
        def make() -> Kernel:
            axes, index = self._loops(value, meta)
            return kernel_of(axes, [Store(memory.buffer, memory.address(index), value.at(index))])

        return self._with_stored(make)

    def _with_stored(self, make: Callable[[], Kernel]) -> Kernel:
        """What `make` gives once the reductions are stored that cannot be part of it."""
        while True:
            try:
                return make()
            except MustBeStored as needed:
                for scalar in needed.reductions:
                    self.materialize(self.values.reductions[scalar.data[1][0].symbol])

    def _loops(self, value: Value, meta: Meta | None) -> tuple[list[Axis], tuple[Size, ...]]:
        """Axes in the order of memory, and the index that they make."""
        by_dim: list[list[Axis]] = []
        index: list[Size] = []
        for factors in value.split_sizes():
            axes = [self.values.axis(size) for size in factors if size != 1]
            by_dim.append(axes)
            position: Size = 0
            for axis in axes:
                position = position * axis.extent + of_atom(axis.symbol)
            index.append(position)
        order = range(len(by_dim))
        if meta is not None and isinstance(meta.layout, Dense):
            order = meta.layout.order
        return [axis for dim in order for axis in by_dim[dim]], tuple(index)

    def scan(self, fold: str, value: Value, dim: int, meta: Meta) -> Value:
        """Store the running fold of a value along a dimension."""
        name = self._name("b")
        memory = Memory(name, contiguous_strides(value.sizes))

        def make() -> Kernel:
            axes, index = self._loops(value, None)
            # The dimension of the scan runs innermost.
            along = [axis for axis in axes if of_atom(axis.symbol) == index[dim]]
            if len(along) != 1:
                raise NotLowered("a running fold over a dimension of size 1")
            axes = [axis for axis in axes if axis is not along[0]] + along
            scan = Scan(fold, value.at(index), value.dtype, name, memory.address(index))
            return kernel_of(axes, [], scans=[scan])

        kernel = self._with_stored(make)
        self.held[name] = BufferDecl(name, value.dtype, value.sizes, memory.strides, given=False)
        self.compute(kernel)
        return self.values.new(value.sizes, value.dtype, None, memory=memory)

    def fresh_as(
        self, sizes: Sequence[Size], dtype: expr.Dtype, meta: Meta
    ) -> tuple[Value, Memory]:
        """A buffer that a step of the plan fills, laid out as torch lays out the result."""
        return self.fresh(sizes, dtype, meta.strides)

    def fresh(
        self,
        sizes: Sequence[Size],
        dtype: expr.Dtype,
        strides: tuple[Size, ...] | None = None,
    ) -> tuple[Value, Memory]:
        """A buffer that a step of the plan fills, and its value."""
        name = self._name("b")
        memory = Memory(name, strides or contiguous_strides(sizes))
        self.held[name] = BufferDecl(name, dtype, tuple(sizes), memory.strides, given=False)
        return self.values.new(sizes, dtype, None, memory=memory), memory

    def compute(self, kernel: Kernel) -> None:
        self.steps.append(computing(kernel.without_reads() if kernel.is_vacuous else kernel))

    @property
    def on_gpu(self) -> bool:
        return self.device.type != "cpu"

    def needs_library(self, *functions: str) -> None:
        """To be asked before anything is stored for functions of the tensor library; of others than
        these if none is named."""
        if self.on_gpu and not (functions and ON_GPUS.issuperset(functions)):
            raise NotLowered("a function of torch's own")

    def outcomes(
        self, value: Value, where: Callable[[Index], Sequence[Fact]] = lambda index: ()
    ) -> frozenset[float] | None:
        """The numbers among its elements, if these are made of indices alone."""
        return outcomes(self.facts, value, where, self.unbounded)

    def is_aligned(self, memory: Memory, by: int, *, trusts: bool = False) -> bool:
        """Whether rows of this memory begin at multiples of so many elements, of 16 bytes: so if
        steps from row to row are such multiples, and it is the plan's own, given by someone whom
        the caller `trusts`, or an input, of which it is asked at each call then."""
        steps = (*memory.strides[:-1], memory.offset)
        if not all(self.same(modulo(step, by), 0) for step in steps):
            return False
        is_given = self.held[memory.buffer].given
        return trusts or not is_given or self._begins_aligned(memory.buffer)

    def _begins_aligned(self, buffer: str) -> bool:
        """Go on for inputs that begin at a multiple of 16 bytes, if this one did."""
        node = next((node for node, own in self.input_names.items() if own == buffer), None)
        if node is None:
            return False
        offset = self.facts.hint(node.meta[RESULT].offset)
        if offset is None or offset * expr.WIDTH[self.held[buffer].dtype] % 16:
            return False
        self.aligned.add(buffer)
        return True

    def extern(self, extern: Extern, reads: Sequence[str], writes: Sequence[str]) -> None:
        self.needs_library(extern.function)
        self.steps.append(Native(extern, frozenset(reads), frozenset(writes)))

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
        if (value, key) in self.required:
            return

        def make() -> Kernel:
            axes, index = self._loops(value, None)
            return kernel_of(axes, [], checks=[Check(condition(value.at(index)), message)])

        self.compute(self._with_stored(make))
        self.required.add((value, key))

    def probe(self, value: Value) -> tuple[Size, ...]:
        """Some index of a value, to see what it is made of."""
        return self._loops(value, None)[1]

    def settled(self, meta: object) -> Any:
        """A meta with numbers for the sizes that turned out to be fixed: a size of 1 that was
        broadcast is 1."""
        if isinstance(meta, tuple):
            return tuple(map(self.settled, meta))
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

    def _number_of(self, size: Size) -> Size:
        """A size that can only be one number is that number: a dimension, a flag."""
        if isinstance(size, int):
            return size
        number = self.facts.value(size)
        return size if number is None else number

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count - 1}"


def contiguous_strides(sizes: Sequence[Size]) -> tuple[Size, ...]:
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))
