"""Tensors that are not there yet: what they are at an index.

A value is a shape, a dtype, and a function from an index to a scalar. Views are functions of the
index, so that chains of them fold into one expression. A value that has been stored is read from
its buffer from then on, by everybody who was made from it. What native rows may ask of the lowering
that they are a part of is a protocol, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Axis, Dtype, Scalar
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Extern
from anyshape.ops.meta import Meta
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import (
    Fact,
    Facts,
    Size,
    Symbol,
    as_symbol,
    symbol,
    total,
)
from anyshape.symbolic.expr import of_atom

Index = tuple[Size, ...]
At = Callable[[Index], Scalar]
#: of each dimension, the sizes that it was merged from, if that is known
Factors = tuple[tuple[Size, ...], ...]

#: A tensor of the program that a row writes to.
Target = Any

DTYPES: Final[dict[torch.dtype, Dtype]] = {
    getattr(torch, full): name for name, full in expr.FULL_NAMES.items()
}


@dataclass(frozen=True, slots=True)
class NumberRef:
    """A number that a `PythonCall` of the plan gives."""

    name: str


class NotLowered(Exception):
    """The operator has to be called out, and why."""


class NotAView(NotLowered):
    """What is a view elsewhere is a tensor of its own here: a row has it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a value is kept: strides and offset in elements of the buffer."""

    buffer: str
    strides: tuple[Size, ...]
    offset: Size = 0

    def address(self, index: Index) -> Size:
        steps = [at * stride for at, stride in zip(index, self.strides, strict=True)]
        return total([self.offset, *steps])


class Value:
    """A tensor as a function of the index. It never changes what it is; it may come to be kept in
    memory."""

    __slots__ = (
        *(
            "__weakref__",
            "_at",
            "_memo",
            "_now",
            "_since",
            "axes",
            "cost",
            "dtype",
            "factors",
            "memory",
            "parents",
        ),
        *("fold", "sizes"),
    )

    def __init__(
        self,
        sizes: Sequence[Size],
        dtype: Dtype,
        at: At | None,
        parents: Sequence[Value],
        now: list[object],
        *,
        cost: int = 0,
        memory: Memory | None = None,
        factors: Factors | None = None,
    ) -> None:
        self.sizes = tuple(sizes)
        self.dtype: Dtype = dtype
        self._at = at
        self._memo: dict[Index, Scalar] = {}
        self._now = now
        self._since = now[0]
        self.parents = tuple(parents)
        self.memory = memory
        #: operations to compute one element, from what is in memory
        self.cost = cost + sum(parent.cost for parent in parents if parent.memory is None)
        self.factors = factors
        #: of a reduction: its axes, and the fold
        self.axes: tuple[Axis, ...] = ()
        self.fold = ""

    def at(self, index: Index) -> Scalar:
        if self.memory is not None:
            return expr.load(self.memory.buffer, self.memory.address(index), self.dtype)
        if self._since is not self._now[0]:
            # Something has been stored since: what was made of it is read from memory now.
            self._memo.clear()
            self._since = self._now[0]
        found = self._memo.get(index)
        if found is None:
            assert self._at is not None
            found = self._memo[index] = self._at(index)
        return found

    @property
    def made_by(self) -> At | None:
        """What tells its elements as long as it is not stored."""
        return self._at

    def forget(self) -> None:
        """How it was made does not matter any more."""
        self._memo.clear()
        self._at = None
        self.parents = ()
        self.cost = 0

    def buffers(self) -> set[str]:
        """What computing it would read."""
        found: set[str] = set()
        seen: set[int] = set()
        stack: list[Value] = [self]
        while stack:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if value.memory is not None:
                found.add(value.memory.buffer)
            stack += value.parents
        return found

    def split_sizes(self) -> Factors:
        """The sizes to loop over, of each dimension."""
        return self.factors or tuple((size,) for size in self.sizes)


class HostScalar(Value):
    """A tensor of one element on the processor, in a graph for a GPU: kernels take it as they take
    a number of Python's, and torch rounds it no more than that."""

    __slots__ = ("name",)

    #: of the number
    name: str


#: from an index of the view to the index of what it is a view of
IndexMap = Callable[[Index], Index]


class Rearranged:
    """An index map that knows what the sizes of the view are made of, by what those of its base
    are made of."""

    def __init__(self, index_map: IndexMap, factors: Callable[[Factors], Factors | None]) -> None:
        self.index_map = index_map
        self.factors = factors

    def __call__(self, index: Index) -> Index:
        return self.index_map(index)


class Values:
    """The values of one lowering, and the axes of their loops."""

    def __init__(self) -> None:
        #: changes when a value is stored
        self._now: list[object] = [object()]
        self._axes = 0
        #: reductions by their first axis
        self.reductions: dict[Symbol, Value] = {}
        self.extents: dict[Symbol, Size] = {}

    def new(
        self,
        sizes: Sequence[Size],
        dtype: Dtype,
        at: At | None,
        parents: Sequence[Value] = (),
        *,
        cost: int = 0,
        memory: Memory | None = None,
        factors: Factors | None = None,
    ) -> Value:
        return Value(
            sizes, dtype, at, parents, self._now, cost=cost, memory=memory, factors=factors
        )

    def host_scalar(self, name: str, number: Scalar, dtype: Dtype) -> HostScalar:
        made = HostScalar((), dtype, lambda index: number, (), self._now)
        made.name = name
        return made

    def now_stored(self, value: Value, memory: Memory) -> None:
        """A value is in memory from now on."""
        value.memory = memory
        value.forget()
        self._now[0] = object()

    def axis(self, extent: Size, prefix: str = "i") -> Axis:
        found = as_symbol(symbol(f"{prefix}{self._axes}"))
        self._axes += 1
        self.extents[found] = extent
        return Axis(found, extent)

    def check_reduced(self, source: Value, dims: Sequence[int]) -> None:
        """To be asked before anything is stored for the sake of a reduction."""
        if not dims:
            raise NotLowered("a reduction over no dimension")

    def reduction(
        self, fold: str, source: Value, dims: Sequence[int], dtype: Dtype, *, keep: bool
    ) -> Value:
        """The fold of a value over some dimensions."""
        axes = tuple(self.axis(source.sizes[dim], "r") for dim in dims)
        place = {dim: number for number, dim in enumerate(dims)}
        rest = [dim for dim in range(len(source.sizes)) if dim not in place]
        sizes = tuple(
            1 if dim in place else size
            for dim, size in enumerate(source.sizes)
            if keep or dim not in place
        )

        def at(index: Index) -> Scalar:
            outer = [index[dim] for dim in rest] if keep else list(index)
            given = dict(zip(rest, outer, strict=True))
            full = tuple(
                of_atom(axes[place[dim]].symbol) if dim in place else given[dim]
                for dim in range(len(source.sizes))
            )
            return expr.reduce(fold, axes, source.at(full), dtype)

        self.check_reduced(source, dims)
        value = self.new(sizes, dtype, at, (source,), cost=4)
        value.axes, value.fold = axes, fold
        self.reductions[axes[0].symbol] = value
        return value


def must_be_known(number: Any) -> float:
    """A number that native code has as a constant."""
    if not isinstance(number, int | float):
        raise NotLowered("a number that is not a constant")
    return number


def place(dim: Any, rank: int) -> int:
    """A dimension counted from the front."""
    if type(dim) is not int:
        raise NotLowered("a dimension that is not known")
    if not rank:
        raise NotLowered("a dimension of a 0-d tensor")
    return dim + rank if dim < 0 else dim


class Lowering(Protocol):
    """One graph on its way to a plan, at the node of the row."""

    facts: Facts
    values: Values
    #: the metas of the result, nested as it is
    result: Any
    #: what is multiplied with weights of so many elements at most has few rows
    few_rows: int
    #: whether attention is over few keys
    few_keys: bool

    # -- the node ----------------------------------------------------------------------------------

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def is_channels_last(self) -> bool: ...
    def is_read_by_a_loop(self) -> bool: ...
    def sharing_matters(self) -> bool: ...
    def stored_as(self, meta: Meta, place: int | None = None) -> Meta: ...

    # -- sizes -------------------------------------------------------------------------------------

    def assume(self, fact: Fact, why: str) -> None: ...
    def same(self, a: Size, b: Size) -> bool: ...
    def same_sizes(self, a: Sequence[Size], b: Sequence[Size]) -> bool: ...

    # -- values and buffers ------------------------------------------------------------------------

    def materialize(self, value: Value, meta: Meta | None = None) -> Memory: ...
    def made_once(self, key: object, make: Callable[[], Value]) -> Value: ...
    def materialize_if_expensive(self, value: Value, times: int) -> None: ...
    def meta_of(self, value: Value) -> Meta | None: ...
    def has_layout(self, memory: Memory, meta: Meta) -> bool: ...
    def probe(self, value: Value) -> tuple[Size, ...]: ...
    def outcomes(
        self, value: Value, where: Callable[[Index], Sequence[Fact]] = lambda index: ()
    ) -> frozenset[float] | None: ...
    def require(
        self, value: Value, key: object, condition: Callable[[Scalar], Scalar], message: str
    ) -> None: ...
    def check_first(self, number: NumberRef, check: Callable[[float], object]) -> bool: ...
    def read_by(self, number: HostScalar, reader: Callable[[torch.Tensor], float]) -> None: ...
    def in_order(self, value: Value, sizes: Sequence[Size]) -> Value: ...
    def joined(
        self, parts: Sequence[Value], dim: int, sizes: Sequence[Size], meta: Meta | None
    ) -> Value: ...
    def stored_in_parts(self, value: Value, parts: Sequence[Value], dim: int) -> None: ...
    def scan(self, fold: str, value: Value, dim: int, meta: Meta) -> Value: ...
    def fresh(
        self, sizes: Sequence[Size], dtype: Dtype, strides: tuple[Size, ...] | None = None
    ) -> tuple[Value, Memory]: ...
    def fresh_as(self, sizes: Sequence[Size], dtype: Dtype, meta: Meta) -> tuple[Value, Memory]: ...
    def compute(self, kernel: Kernel) -> None: ...
    def needs_library(self, *functions: str) -> None: ...
    def is_aligned(self, memory: Memory, by: int, *, trusts: bool = False) -> bool: ...
    @property
    def on_gpu(self) -> bool: ...
    def extern(self, extern: Extern, reads: Sequence[str], writes: Sequence[str]) -> None: ...

    # -- writes ------------------------------------------------------------------------------------

    def dtype_of(self, handle: Target) -> Dtype: ...
    def stored(self, handle: Target) -> Value: ...
    def subscripted(self, target: Target, shown: Meta, key: Any) -> Target: ...
    def check_no_overlap(self, target: Target) -> None: ...
    def write(self, target: Target, value: Value) -> None: ...
    def scatter(
        self,
        target: Target,
        value: Value,
        index_map: IndexMap,
        reads: Sequence[Value],
        mode: Any,
    ) -> None: ...
    def scattered(
        self, base: Value, value: Value, index_map: IndexMap, mode: Any, meta: Meta
    ) -> Value: ...
