"""Subscripts: `x[…]` and `x[…] = v`, with integers, slices, None, Ellipsis, truth values, lists and
index tensors.

Torch reads a subscript in two rounds. The first goes through the items from the left and makes a
view: integers select, slices slice, None and truth values insert a dimension of size 1. The second
looks up what is left, the index tensors, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import torch

from anyshape.ops.broadcast import broadcast, pointwise_layout, require_expands
from anyshape.ops.meta import Meta, contiguous, of_tensor
from anyshape.ops.op import Op, OpKind
from anyshape.ops.rules.views import selected, sliced, unsqueezed, without
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Expr, Range, Size, and_, as_symbol, eq, ge, le, lt, ne, or_

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


def setitem(q: ShapeQuery, input: Meta, index: Any, value: Any) -> Meta:
    base, lookups = first_round(q, input, index)
    target = shape_found(q, base, lookups)
    if isinstance(value, Meta):
        _require_dtype(q, input, [lookup for lookup in lookups if lookup is not None], value)
        _require_fits(q, value.shape, target)
    elif isinstance(value, complex) and not input.dtype.is_complex:
        raise q.fail(f"a complex number does not go into a tensor of {input.dtype}")
    return input


def _require_dtype(q: ShapeQuery, input: Meta, found: Sequence[Lookup], value: Meta) -> None:
    """Slices take values of any dtype; index tensors do not, except that one mask may be filled
    with one number.
    """
    if not found or value.dtype == input.dtype:
        return
    one_mask = all(lookup.by_mask and lookup.index is found[0].index for lookup in found)
    if not (one_mask and q.decide(eq(value.numel, 1), "one number fills a mask")):
        raise q.fail(f"values of {value.dtype} are not put into a tensor of {input.dtype}")


def _require_fits(q: ShapeQuery, shape: tuple[Size, ...], target: tuple[Size, ...]) -> None:
    """A value that is written: stretched to its target; dimensions of size 1 at its front do not
    count.
    """
    extra = max(len(shape) - len(target), 0)
    for size in shape[:extra]:
        q.require(
            eq(size, 1),
            "a value may have more dimensions than its target only if they are of size 1",
        )
    require_written(q, shape[extra:], target)


def require_written(q: ShapeQuery, shape: tuple[Size, ...], target: tuple[Size, ...]) -> None:
    """Require that a value of this shape stretches to the places that are written.

    How many places a mask names is not asked: no result has that size, and torch compares the two
    itself.
    """
    counted = {as_symbol(size) for size in q.unbacked}
    wanted = list(target)
    for at in range(-1, -min(len(shape), len(target)) - 1, -1):
        place = target[at]
        if isinstance(place, Expr) and not counted.isdisjoint(place.symbols):
            wanted[at] = shape[at]
    require_expands(q, shape, tuple(wanted))


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


ROWS: tuple[Op, ...] = (
    Op("getitem", ("torch.Tensor.__getitem__",), getitem, OpKind.INDEX_MAP),
    Op("setitem", (), setitem, OpKind.INDEX_MAP, in_place=("torch.Tensor.__setitem__",)),
)
