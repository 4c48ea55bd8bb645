"""Subscripts with tensors in them, and operators that look positions up: `x[i]`, `index_select`,
`gather`, `take`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import test, where
from anyshape.graph.lowerings.table import row
from anyshape.graph.lowerings.views import place, slice_start, taken_from_front
from anyshape.graph.pointwise_builder import broadcast_index, broadcast_sizes, cast
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.loops.reshape_indexing import reshaped
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Expr, Size, product

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

INDICES = ("i64", "i32")


class Positions:
    """Positions in a dimension that a tensor of integers names. All of them are checked, whether
    they are used or not. `wraps`: negative ones count from the end. `found`: the sizes of what is
    looked up or written, where eager asks nothing of positions if there are no elements."""

    def __init__(
        self,
        c: Lowering,
        index: Any,
        size: Size,
        *,
        wraps: bool,
        found: Sequence[Size] = (),
    ) -> None:
        if not isinstance(index, Value) or index.dtype not in INDICES:
            raise NotLowered("positions that are no tensor of integers")
        self._index, self._size, self._wraps = index, size, wraps
        elements = product(list(found))

        def holds(raw: Scalar) -> Scalar:
            valid = self._found(raw)[1]
            if elements == 1:
                return valid
            nothing = test("eq", expr.index(elements), expr.constant(0, "i64"))
            return test("or", valid, nothing)

        key = ("positions", size, wraps, elements)
        c.require(index, key, holds, expr.OUT_OF_RANGE)

    def at(self, index: Index) -> Expr:
        """The position at an index of the tensor, for use in an index."""
        found, valid = self._found(self._index.at(index))
        # Nothing outside is touched before the check has failed.
        return expr.position(where(valid, found, expr.constant(0, "i64")))

    def _found(self, raw: Scalar) -> tuple[Scalar, Scalar]:
        found, zero, extent = (
            cast(raw, "i64"),
            expr.constant(0, "i64"),
            expr.index(self._size),
        )
        if self._wraps:
            from_end = expr.operation("add", found, extent, dtype="i64")
            found = where(test("lt", found, zero), from_end, found)
        return found, test("and", test("ge", found, zero), test("lt", found, extent))


# -- subscripts ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """Where the index of one dimension of a tensor comes from: `start + step * index[shown]`, or
    the position that a tensor has (`lookup`)."""

    shown: int | None = None
    start: Size = 0
    step: int = 1
    lookup: Value | None = None
    positions: Positions | None = None


@dataclass(frozen=True, slots=True)
class Subscript:
    """A subscript, dimension by dimension of the tensor. The result has the dimensions that stay
    (`shown`), with those of the lookups (`places` sizes) in front of number `first`."""

    parts: tuple[Part, ...]
    places: tuple[Size, ...]
    first: int

    def index(self, index: Index) -> Index:
        """The index into the tensor for an index of the result."""
        stop = self.first + len(self.places)
        found, kept = index[self.first : stop], (*index[: self.first], *index[stop:])
        result: list[Size] = []
        for part in self.parts:
            if part.lookup is not None and part.positions is not None:
                own = broadcast_index(part.lookup.sizes, self.places, found)
                result.append(part.positions.at(own))
            elif part.shown is None:
                result.append(part.start)
            else:
                result.append(kept[part.shown] * part.step + part.start)
        return tuple(result)

    def checked(self, c: Lowering, sizes: Sequence[Size], found: Sequence[Size]) -> Subscript:
        """The subscript of a tensor of these sizes that finds a tensor of those, with its positions
        checked."""
        parts = [
            part
            if part.lookup is None
            else replace(part, positions=Positions(c, part.lookup, size, wraps=True, found=found))
            for part, size in zip(self.parts, sizes, strict=True)
        ]
        return replace(self, parts=tuple(parts))

    @property
    def lookups(self) -> list[Value]:
        return [part.lookup for part in self.parts if part.lookup is not None]


def subscript(c: Lowering, sizes: Sequence[Size], key: Any) -> Subscript:
    """What `x[key]` means for an `x` of these sizes."""
    items = list(key) if isinstance(key, tuple) else [key]
    for item in items:
        if isinstance(item, bool | list | range):
            raise NotLowered("an index that is written out")
        if isinstance(item, Value):
            if item.dtype not in INDICES:
                raise NotLowered("a mask")
            if not item.sizes:
                raise NotLowered("a position that is read from a tensor selects")
    named = sum(item is not None and item is not Ellipsis for item in items)
    rest = [slice(None)] * (len(sizes) - named)
    at = next((n for n, item in enumerate(items) if item is Ellipsis), None)
    items = [*items, *rest] if at is None else [*items[:at], *rest, *items[at + 1 :]]
    parts: list[Part] = []
    # Dimensions of the view that integers, slices and None make, and those of lookups among them.
    dims: list[bool] = []
    shown = 0
    for item in items:
        if item is None:
            shown += 1
            dims.append(False)
        elif isinstance(item, slice):
            start, step = slice_start(c, item, sizes[len(parts)])
            parts.append(Part(shown, start, step))
            shown += 1
            dims.append(False)
        elif isinstance(item, Value):
            parts.append(Part(lookup=item))
            dims.append(True)
        elif type(item) is int or isinstance(item, Expr):
            parts.append(Part(start=taken_from_front(c, item, sizes[len(parts)])))
        else:
            raise NotLowered(f"an index of type {type(item).__name__}")
    looked = [n for n, found in enumerate(dims) if found]
    together = looked and looked[-1] - looked[0] == len(looked) - 1
    first = looked[0] if together else 0
    return Subscript(tuple(parts), broadcast_sizes(c, [p.lookup for p in parts if p.lookup]), first)


@row("getitem")
def getitem(c: Lowering, input: Value, index: Any) -> Value:
    meaning = subscript(c, input.sizes, index)
    if not meaning.lookups:
        raise NotLowered("a view")
    meaning = meaning.checked(c, input.sizes, c.result.shape)

    def at(index: Index) -> Scalar:
        return input.at(meaning.index(index))

    # What is looked up may be wanted often, what it is looked up in only here and there.
    return c.values.new(c.result.shape, input.dtype, at, (input, *meaning.lookups), cost=1)


# -- operators -------------------------------------------------------------------------------------


@row("index_select")
def index_select(c: Lowering, input: Value, dim: Any, index: Value) -> Value:
    if not input.sizes or len(index.sizes) > 1:
        raise NotLowered("a tensor without dimensions")
    along = place(dim, len(input.sizes))
    positions = Positions(c, index, input.sizes[along], wraps=False)

    def at(here: Index) -> Scalar:
        found = positions.at((here[along],) if index.sizes else ())
        return input.at((*here[:along], found, *here[along + 1 :]))

    return c.values.new(c.result.shape, input.dtype, at, (input, index), cost=1)


@row("gather")
def gather(c: Lowering, input: Value, dim: Any, index: Value, *, sparse_grad: Any) -> Value:
    return along_dim(c, input, dim, index, index.sizes, wraps=False)


def along_dim(
    c: Lowering, input: Value, dim: Any, index: Value, sizes: Sequence[Size], *, wraps: bool
) -> Value:
    """Each element of `index` names a position in a dimension; the others are its own."""
    if not input.sizes or len(index.sizes) != len(input.sizes):
        raise NotLowered("tensors of other numbers of dimensions")
    along = place(dim, len(input.sizes))
    positions = Positions(c, index, input.sizes[along], wraps=wraps, found=sizes)

    def at(here: Index) -> Scalar:
        found = positions.at(broadcast_index(index.sizes, sizes, here))
        there = broadcast_index(input.sizes, sizes, here)
        return input.at((*there[:along], found, *there[along + 1 :]))

    return c.values.new(sizes, input.dtype, at, (input, index), cost=1)


@row("take_along_dim")
def take_along_dim(c: Lowering, input: Value, indices: Value, dim: Any) -> Value:
    if dim is None:
        raise NotLowered("positions in the flattened tensor")
    # Versions of torch differ in what negative positions mean: they are left to torch.
    return along_dim(c, input, dim, indices, c.result.shape, wraps=False)


@row("take")
def take(c: Lowering, input: Value, index: Value) -> Value:
    whole = (product(input.sizes),)
    positions = Positions(c, index, whole[0], wraps=True)

    def at(here: Index) -> Scalar:
        there = reshaped((positions.at(here),), whole, input.sizes, c.values.extents, c.facts)
        return input.at(there)

    return c.values.new(index.sizes, input.dtype, at, (input, index), cost=4)
