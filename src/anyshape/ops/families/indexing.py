"""Subscripts: `x[…]` with integers, slices, None, Ellipsis, truth values, lists and index tensors.

Torch reads a subscript in two rounds. The first goes through the items from the left and makes a
view: integers select, slices slice, None and truth values insert a dimension of size 1. The second
looks up what is left, the index tensors, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.broadcast import broadcast, pointwise_layout, require_expands
from anyshape.ops.families.slice_gradient import slice_start as start_of_slice
from anyshape.ops.families.slice_gradient import spread, widened
from anyshape.ops.families.slicing import selected, sliced
from anyshape.ops.families.views import unsqueezed, without
from anyshape.ops.gradient import Gradients, NoGradient, Term, place_of, zeros_like
from anyshape.ops.lowering.pointwise_builder import broadcast_index, broadcast_sizes
from anyshape.ops.lowering.scalars import cast, test, where
from anyshape.ops.lowering.values import (
    Index,
    IndexMap,
    Lowering,
    NotAView,
    NotLowered,
    Value,
    place,
)
from anyshape.ops.meta import Meta, contiguous, of_tensor
from anyshape.ops.onnx import END, Node, NotMapped, Writer, is_node
from anyshape.ops.op import Effects, Op, OpKind, gradient, lower, lower_view, moving
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import (
    Answer,
    Expr,
    Range,
    Size,
    and_,
    eq,
    ge,
    le,
    lt,
    maximum,
    ne,
    or_,
    product,
)

_MASKS = (torch.bool, torch.uint8)
_INDICES = (torch.int64, torch.int32)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The index tensor for a dimension. One that a mask gave finds its positions in the dimension,
    even if that has none.
    """

    index: Meta
    by_mask: bool = False
    #: positions that are written out in the program
    written: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenIndices:
    """Positions written out in the program: torch's check of them is no question of data."""

    index: Meta
    positions: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class WrittenMask:
    """A mask written out in the program: how many of it are True is no question of data."""

    size: int
    count: int


#: One entry a dimension; None for a dimension that stays.
Lookups = list[Lookup | None]


def getitem(q: ShapeQuery, input: Meta, index: Any) -> Meta:
    base, lookups = first_round(q, input, index)
    return looked_up(q, base, lookups)


# ---- the first round: a view ---------------------------------------------------------------------


def first_round(q: ShapeQuery, input: Meta, index: Any) -> tuple[Meta, Lookups]:
    """The view that integers, slices and new dimensions make, and the lookups left to do."""
    items = [_as_tensor(q, item) for item in _items(index)]
    named = sum(map(_dims_named, items))
    if named > input.rank:
        raise q.fail(f"{named} indices are too many for {input.rank} dimensions")
    base, dim = input, 0
    lookups: Lookups = []
    for item in items:
        if isinstance(item, EllipsisType):
            dim += input.rank - named
        elif item is None:
            base = unsqueezed(base, dim)
            dim += 1
        elif isinstance(item, slice):
            base = _apply_slice(q, base, dim, item)
            dim += 1
        elif isinstance(item, int | Expr) and not isinstance(item, bool):
            base = selected(q, base, dim, item)
        elif isinstance(item, Meta) and _is_position(item):
            base = _at_position(q, base, dim)
        else:
            lookups += [None] * (dim - len(lookups))
            if isinstance(item, bool) or (isinstance(item, Meta) and not item.shape):
                base = unsqueezed(base, dim)
                found: Lookups = [_truth(q, item, input)]
            else:
                found = _as_lookups(q, base, dim, item)
            lookups += found
            dim += len(found)
    return base, lookups


def _items(index: Any) -> Sequence[Any]:
    if isinstance(index, tuple):
        return index
    # A list that holds more than integers was once a tuple to numpy, and still is to torch.
    if isinstance(index, list) and len(index) < 32:
        parts = (Meta, list, tuple, range, slice, EllipsisType, type(None))
        if any(isinstance(item, parts) for item in index):
            return index
    return (index,)


def _dims_named(item: Any) -> int:
    """How many dimensions of the tensor an item speaks of: what is left is for the Ellipsis."""
    if item is None or isinstance(item, bool | EllipsisType):
        return 0
    return item.rank if isinstance(item, Meta) and item.dtype in _MASKS else 1


def _as_tensor(q: ShapeQuery, item: Any) -> Any:
    """Sequences and arrays as the index tensors that torch makes of them."""
    if item is None or isinstance(item, Meta | slice | EllipsisType | int | Expr):
        return item
    if isinstance(item, float | str | complex):
        raise q.fail(f"{item!r} is no index")
    if not isinstance(item, list | tuple | range):
        return of_tensor(torch.as_tensor(item))
    shape: list[Size] = []
    inner: Any = item
    while isinstance(inner, list | tuple | range):
        shape.append(len(inner))
        inner = inner[0] if len(inner) else 0
    if isinstance(inner, bool):
        if len(shape) > 1:
            raise q.fail("a mask of several dimensions must be a tensor")
        return WrittenMask(len(item), sum(map(bool, item)))
    if isinstance(inner, Meta):
        raise q.fail("a list of tensors within a list is no index")
    index = Meta(tuple(shape), torch.int64, contiguous(len(shape)), torch.device("cpu"))
    return WrittenIndices(index, _outermost(item))


def _outermost(item: Any) -> tuple[Size, ...]:
    """The positions in nested sequences; of plain integers only the least and the greatest."""
    if isinstance(item, int | Expr):
        return (item,)
    found = [position for inner in item for position in _outermost(inner)]
    plain = [position for position in found if isinstance(position, int)]
    others = dict.fromkeys(position for position in found if isinstance(position, Expr))
    return (*({min(plain), max(plain)} if plain else ()), *others)


def _apply_slice(q: ShapeQuery, base: Meta, dim: int, item: slice) -> Meta:
    start, stop, step = item.start, item.stop, 1 if item.step is None else item.step
    if not isinstance(start, Meta) and not isinstance(stop, Meta) and not isinstance(step, Meta):
        return sliced(q, base, dim, start, stop, step)
    size = base.shape[dim]
    first, length = q.new_size(), q.new_size()
    q.given(le(first + length, size))
    stride = base.strides[dim] * (step if not isinstance(step, Meta) else q.new_size())
    shape = (*base.shape[:dim], length, *base.shape[dim + 1 :])
    strides = (*base.strides[:dim], stride, *base.strides[dim + 1 :])
    return base.viewed(shape, strides, base.offset + first * base.strides[dim])


def _is_position(item: Meta) -> bool:
    """Whether an index tensor is read as an integer."""
    return not item.shape and not item.dtype.is_floating_point and item.dtype not in _MASKS


def _at_position(q: ShapeQuery, base: Meta, dim: int) -> Meta:
    position = q.new_size()
    q.require(ne(base.shape[dim], 0), "there is a position to select")
    q.given(lt(position, base.shape[dim]))
    moved = replace(base, offset=base.offset + position * base.strides[dim])
    return without(moved, (dim,))


def _truth(q: ShapeQuery, item: Meta | bool, input: Meta) -> Lookup:
    """What a truth value looks up: the one position of a new dimension, or none."""
    if isinstance(item, bool):
        size: Size = int(item)
    else:
        if item.dtype not in _MASKS:
            raise q.fail(f"{item.dtype} is no dtype for indices")
        size = q.new_size(Range(0, 1))
    return Lookup(Meta((size,), torch.int64, contiguous(1), input.device))


def _as_lookups(
    q: ShapeQuery, base: Meta, dim: int, item: Meta | WrittenMask | WrittenIndices
) -> Lookups:
    """One lookup a dimension: a mask looks up as many dimensions as it has, at the places where it
    is True.
    """
    if isinstance(item, WrittenMask):
        sizes: tuple[Size, ...] = (item.size,)
        count: Size = item.count
    elif isinstance(item, WrittenIndices):
        return [Lookup(item.index, written=item.positions)]
    elif item.dtype in _INDICES:
        return [Lookup(item)]
    elif item.dtype in _MASKS:
        sizes, count = item.shape, q.new_size()
        q.given(le(count, item.numel))
    else:
        raise q.fail(f"{item.dtype} is no dtype for indices")
    for size, wanted in zip(sizes, base.shape[dim : dim + len(sizes)], strict=True):
        q.require(eq(size, wanted), "a mask has the sizes of the dimensions that it looks up")
    places = Meta((count,), torch.int64, contiguous(1), base.device)
    return [Lookup(places, by_mask=True)] * len(sizes)


# ---- the second round: lookups -------------------------------------------------------------------


def looked_up(q: ShapeQuery, base: Meta, lookups: Lookups) -> Meta:
    """The elements that the index tensors name, which are broadcast; one tensor of indices a
    dimension.
    """
    found = [lookup.index for lookup in lookups if lookup is not None]
    if not found:
        return base
    result, places, first = _found(q, base, lookups)
    if base.is_contiguous and all(index.is_contiguous for index in found):
        return base.like(result)
    others = [dim for dim in range(base.rank) if dim >= len(lookups) or lookups[dim] is None]
    strides = tuple(base.strides[dim] for dim in others)
    still = (0,) * len(places)
    source = base.viewed(result, (*strides[:first], *still, *strides[first:]))
    after = len(result) - first - len(places)
    operands = [source, *(_laid_over(index, len(result) - after, after) for index in found)]
    return base.like(result, layout=pointwise_layout(q, result, operands))


def shape_found(q: ShapeQuery, base: Meta, lookups: Lookups) -> tuple[Size, ...]:
    """The shape of what is looked up."""
    return _found(q, base, lookups)[0] if any(lookups) else base.shape


def _found(
    q: ShapeQuery, base: Meta, lookups: Lookups
) -> tuple[tuple[Size, ...], tuple[Size, ...], int]:
    """The shape of what is looked up, that of the indices in it, and where they stand."""
    found = [lookup.index for lookup in lookups if lookup is not None]
    places = _places(q, [index.shape for index in found])
    dims = [dim for dim, lookup in enumerate(lookups) if lookup is not None]
    sizes = [
        base.shape[d]
        for d, lookup in enumerate(lookups)
        if lookup is not None and not lookup.by_mask
    ]
    _require_positions(q, sizes, places)
    # Neighbouring dimensions are replaced where they stand; otherwise the places come first.
    first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    shape = tuple(size for dim, size in enumerate(base.shape) if dim not in dims)
    result = (*shape[:first], *places, *shape[first:])
    _require_in_range(q, base, lookups, result)
    return result, places, first


def _places(q: ShapeQuery, shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The shape of the indices broadcast together.

    Beside a vector of a known size above 1 another may be of that size or 1: the result is the
    same, and so is its layout.
    """
    known = next((s for s in shapes if len(s) == 1 and isinstance(s[0], int) and s[0] > 1), None)
    if known is None or any(len(shape) > 1 for shape in shapes):
        return broadcast(q, shapes)
    for shape in shapes:
        require_expands(q, shape, known)
    return known


def _laid_over(index: Meta, before: int, after: int) -> Meta:
    """An index tensor as torch lays it over the result: of size 1 where the places are not."""
    front = before - index.rank
    outer = index.shape[0] * index.strides[0] if index.shape else 1
    inner = index.strides[-1] if index.shape else 1
    return index.viewed(
        (1,) * front + index.shape + (1,) * after,
        (outer,) * front + index.strides + (inner,) * after,
    )


def _require_in_range(q: ShapeQuery, base: Meta, lookups: Lookups, result: Sequence[Size]) -> None:
    """Positions that the program wrote out exist, unless there is nothing to look up anyway."""
    for size, lookup in zip(base.shape, lookups, strict=False):
        for position in lookup.written if lookup is not None else ():
            inside = and_(ge(position, -size), lt(position, size))
            if not q.known(inside):
                empty = [eq(other, 0) for other in result]
                q.require(
                    or_(inside, *empty), f"position {position} is out of range for size {size}"
                )


def _require_positions(q: ShapeQuery, sizes: Sequence[Size], places: Sequence[Size]) -> None:
    """Nothing can be looked up in a dimension of size 0."""
    empty = [ne(size, 0) for size in sizes]
    q.require(
        or_(and_(*empty), *(eq(size, 0) for size in places)),
        "there is nothing to look up in a size of 0",
    )


#: A position without dimensions is a number, also to a GPU.
SUBSCRIPTS: Final = Effects(waits=0)

ROWS: tuple[Op, ...] = (
    Op(
        *("getitem", ("torch.Tensor.__getitem__",), getitem, OpKind.INDEX_MAP),
        effects=SUBSCRIPTS,
    ),
)


# -- native code ----------------------------------------------------------------------------------


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

        inside = c.values.new(index.sizes, "b1", lambda at: self._found(index.at(at))[1], (index,))
        if c.outcomes(inside) not in ({1}, set()):
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
            parts.append(Part(start=takenfrom_front(c, item, sizes[len(parts)])))
        else:
            raise NotLowered(f"an index of type {type(item).__name__}")
    looked = [n for n, found in enumerate(dims) if found]
    together = looked and looked[-1] - looked[0] == len(looked) - 1
    first = looked[0] if together else 0
    return Subscript(tuple(parts), broadcast_sizes(c, [p.lookup for p in parts if p.lookup]), first)


@lower(*moving("getitem"))
def lower_getitem(c: Lowering, input: Value, index: Any) -> Value:
    meaning = subscript(c, input.sizes, index)
    if not meaning.lookups:
        raise NotLowered("a view")
    meaning = meaning.checked(c, input.sizes, c.result.shape)

    def at(index: Index) -> Scalar:
        return input.at(meaning.index(index))

    # What is looked up may be wanted often, what it is looked up in only here and there.
    return c.values.new(c.result.shape, input.dtype, at, (input, *meaning.lookups), cost=1)


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


def basic_index(c: Lowering, base: Meta, key: Any) -> IndexMap:
    """`x[key]` without tensors in the key: each part takes, drops or adds a dimension."""
    parts = list(key) if isinstance(key, tuple) else [key]
    taken = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if Ellipsis in [part for part in parts if not isinstance(part, Expr | slice | Meta)]:
        at = next(n for n, part in enumerate(parts) if part is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (base.rank - taken)
    else:
        parts += [slice(None)] * (base.rank - taken)
    # of each dimension of the base: (place in the index or None, start, step)
    sources: list[tuple[int | None, Size, int]] = []
    shown = 0
    for part in parts:
        dim = len(sources)
        if part is None:
            shown += 1
        elif isinstance(part, slice):
            start, step = slice_start(c, part, base.shape[dim])
            sources.append((shown, start, step))
            shown += 1
        elif type(part) is int or isinstance(part, Expr):
            sources.append((None, takenfrom_front(c, part, base.shape[dim]), 1))
        else:
            raise NotLowered("an index by data")

    def index_map(index: Index) -> Index:
        return tuple(
            start if at is None else index[at] * step + start for at, start, step in sources
        )

    return index_map


def takenfrom_front(c: Lowering, at: Size, size: Size) -> Size:
    if isinstance(at, int):
        return at + size if at < 0 else at
    if c.facts.prove(ge(at, 0)) is Answer.YES:
        return at
    if c.facts.prove(le(at, -1)) is Answer.YES:
        return at + size
    raise NotLowered("a position whose sign is not known")


def slice_start(c: Lowering, part: slice, size: Size) -> tuple[Size, int]:
    step = 1 if part.step is None else part.step
    if type(step) is not int or step < 1:
        raise NotLowered("a step that is not known")
    if part.start is None:
        return 0, step
    if not (type(part.start) is int or isinstance(part.start, Expr)):
        raise NotLowered("a start that is no size")
    start = takenfrom_front(c, part.start, size)
    # Python cuts what is out of bounds: in front to 0. Where it starts behind the end there is
    # nothing to read.
    if c.facts.prove(ge(start, 0)) is not Answer.YES:
        start = maximum(start, 0)
    return start, step


@lower_view("getitem")
def lower_getitem_view(c: Lowering, base: Meta, index: Any) -> IndexMap:
    if isinstance(c.result, Meta) and not has_tensors(index):
        return basic_index(c, base, index)
    raise NotAView("an index by data")


def has_tensors(index: Any) -> bool:
    if isinstance(index, tuple | list):
        return any(map(has_tensors, index))
    return isinstance(index, Meta | bool)


# -- gradients ------------------------------------------------------------------------------------


@gradient("getitem")
def gradient_getitem(grad: Term, input: Term, index: Any) -> Gradients:
    """Of a part that begins somewhere and leaves nothing out: zeros around it."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(each, Term) for each in items):
        return {"input": _of_positions(grad, input, items)}
    known = [each for each in items if each is not None and each is not Ellipsis]
    if any(isinstance(each, bool) or not isinstance(each, int | Expr | slice) for each in known):
        raise NoGradient("an index that is a tensor or a list")
    missing = input.rank - len(known)
    if Ellipsis not in items:
        items.append(Ellipsis)
    at = items.index(Ellipsis)
    items[at : at + 1] = [slice(None)] * missing
    starts: list[tuple[int, Size]] = []
    steps: dict[int, int] = {}
    own = 0
    for each in items:
        if each is None:
            continue
        if isinstance(each, slice):
            if each.step not in (None, 1):
                steps[own] = each.step
            begin = start_of_slice(grad.records, each.start, input.shape[own])
        else:
            begin = place_of(grad.records, each, input.shape[own])
        starts.append((own, begin))
        own += 1
    kept = [item for item in items if item is not None]
    sizes = iter(
        [
            size
            for size, item in zip(grad.shape, [i for i in items if not _is_place(i)], strict=True)
            if item is not None
        ]
    )
    shape = [1 if _is_place(item) else next(sizes) for item in kept]
    found = grad.reshape(shape)
    for dim, begin in starts:
        if dim in steps:
            found = spread(found, dim, begin, steps[dim], input.shape[dim])
        else:
            found = widened(found, dim, begin, input.shape[dim])
    return {"input": found}


def _of_positions(grad: Term, input: Term, items: list[Any]) -> Term:
    """Of elements that were looked up by tensors and numbers, side by side."""
    tensors = [each for each in items if isinstance(each, Term)]
    whole = [each for each in items if not _looks_up(each)]
    if any(each is not Ellipsis and each != slice(None) for each in whole):
        raise NoGradient("positions and parts at once")
    if any(each.dtype not in (torch.int64, torch.int32) for each in tensors):
        raise NoGradient("positions that depend on data")
    at = next(number for number, each in enumerate(items) if _looks_up(each))
    count = len(items) - len(whole)
    if not all(map(_looks_up, items[at : at + count])):
        raise NoGradient("positions that are not side by side")
    dim = at if Ellipsis not in items[:at] else input.rank - (len(items) - at)
    sizes = input.shape[dim : dim + count]
    if len(tensors) > 1:
        tensors = input.records.record(torch.broadcast_tensors, *tensors)
    left = iter(tensors)
    place: Any = 0
    for item, size in zip(items[at : at + count], sizes, strict=True):
        if isinstance(item, Term):
            own: Any = from_front(next(left), size)
        else:
            own = place_of(input.records, item, size)
        place = place * size + own
    flat = [*input.shape[:dim], product(list(sizes)), *input.shape[dim + count :]]
    found = added_at(zeros_like(input).reshape(flat), dim, place, grad)
    return found.reshape(input.shape)


def _looks_up(item: Any) -> bool:
    return isinstance(item, Term) or (_is_place(item) and not isinstance(item, bool))


def from_front(index: Term, size: Size) -> Term:
    """Positions, those from the end as well, counted from the beginning."""
    index = index.to(torch.int64)
    return index.where(index >= 0, index + size)


def added_at(into: Term, dim: int, index: Term, grad: Term) -> Term:
    """The sum of what goes to each place of a dimension; `grad` has those of the index in it."""
    rows = product(list(index.shape))
    flat = [*into.shape[:dim], rows, *into.shape[dim + 1 :]]
    return into.index_add(dim, index.reshape([rows]), grad.reshape(flat))


def _is_place(item: Any) -> bool:
    return isinstance(item, int | Expr)


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_getitem(w: Writer, node: Node, x: Any, index: Any) -> Any:
    if isinstance(w.example(x), tuple | list):
        found = w.values[x]
        if not isinstance(index, int) or not isinstance(found, list):
            raise NotMapped("a part of several results")
        return found[index]
    items = list(index) if isinstance(index, tuple) else [index]
    if items.count(...) > 1:
        raise NotMapped("an index with two ellipses")
    places: dict[int, Any] = {}
    found, dim = w.name(x), 0
    for item in items:
        if item is ...:
            dim += w.rank(x) - sum(_taken(w, each) for each in items if each is not ...)
        elif isinstance(w.example(item), torch.Tensor):
            places[dim] = item
            dim += _taken(w, item)
        else:
            found, dim = _item(w, found, dim, item)
    return _gathered(w, found, places, _rank_before(w, node, places)) if places else found


def _taken(w: Writer, item: Any) -> int:
    """How many dimensions of the tensor an item speaks of."""
    example = w.example(item)
    if isinstance(example, torch.Tensor) and example.dtype is torch.bool:
        return example.dim()
    return 0 if item is None else 1


def _item(w: Writer, found: str, dim: int, item: Any) -> tuple[str, int]:
    if item is None:
        return w.add("Unsqueeze", [found, w.constant([dim])]), dim + 1
    if isinstance(item, bool):
        raise NotMapped("an index that is True or False")
    if isinstance(item, int) or is_node(item):
        return w.add("Gather", [found, w.name(item, torch.int64)], axis=dim), dim
    if not isinstance(item, slice):
        raise NotMapped(f"an index of type {type(item).__name__}")
    if item == slice(None):
        return found, dim + 1
    ends = (
        0 if item.start is None else item.start,
        END if item.stop is None else item.stop,
        1 if item.step is None else item.step,
    )
    parts = [w.shape([each]) for each in ends]
    inputs = [found, parts[0], parts[1], w.constant([dim]), parts[2]]
    return w.add("Slice", inputs), dim + 1


def _rank_before(w: Writer, node: Node, places: dict[int, Any]) -> int:
    """Of the tensor that is indexed: the result has the dimensions of the places instead."""
    taken = sum(_taken(w, each) for each in places.values())
    return w.rank(node) - _rank_of_places(w, places) + taken


def _rank_of_places(w: Writer, places: dict[int, Any]) -> int:
    return max(1 if w.dtype(each) is torch.bool else w.rank(each) for each in places.values())


def _gathered(w: Writer, found: str, places: dict[int, Any], rank: int) -> str:
    (first, item), *others = places.items()
    is_mask = w.dtype(item) is torch.bool
    if not others and not is_mask:
        return w.add("Gather", [found, w.name(item)], axis=first)
    if is_mask:
        if others:
            raise NotMapped("indexing by a mask and something else")
        taken = list(range(first, first + w.rank(item)))
        rows = w.add("Transpose", [w.add("NonZero", [w.name(item)])], perm=[1, 0])
    else:
        if any(w.dtype(each) is torch.bool for each in places.values()):
            raise NotMapped("indexing by a mask and something else")
        taken = list(places)
        rows = _rows(w, list(places.values()))
    left = [dim for dim in range(rank) if dim not in taken]
    if taken != list(range(len(taken))):
        found = w.add("Transpose", [found], perm=[*taken, *left])
    made = w.add("GatherND", [found, rows])
    if taken[0] == 0 or taken != list(range(taken[0], taken[0] + len(taken))):
        return made  # places that are not side by side come first, as the first ones do
    count, before = _rank_of_places(w, places), taken[0]
    tail = range(count + before, count + len(left))
    order = [*range(count, count + before), *range(count), *tail]
    return w.add("Transpose", [made], perm=order)


def _rows(w: Writer, places: Sequence[Any]) -> str:
    """The places, one list for each element of the result."""
    names = [w.name(each, torch.int64) for each in places]
    shape = w.add("Shape", [w.add("Sum", [w.cast(each, torch.float32) for each in names])])
    spread = [w.add("Expand", [each, shape]) for each in names]
    rank = max(w.rank(each) for each in places)
    return w.add("Concat", [w.add("Unsqueeze", [n, w.constant([rank])]) for n in spread], axis=rank)
