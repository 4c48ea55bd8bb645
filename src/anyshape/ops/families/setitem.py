"""Writing into what a subscript names: `x[…] = v`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.loops.expr import FLOAT8, Scalar
from anyshape.ops.broadcast import require_expands
from anyshape.ops.families.indexing import (
    SUBSCRIPTS,
    Lookup,
    Subscript,
    first_round,
    shape_found,
    subscript,
)
from anyshape.ops.families.scattering import filled
from anyshape.ops.lowering.scalars import where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Target, Value
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, lower_in_place, moving
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size, as_symbol, eq


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


ROWS: tuple[Op, ...] = (
    Op(
        *("setitem", (), setitem, OpKind.INDEX_MAP),
        in_place=("torch.Tensor.__setitem__",),
        effects=SUBSCRIPTS,
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower_in_place(*moving("setitem"))
def lower_setitem(c: Lowering, target: Target, index: Any, value: Any) -> None:
    items = list(index) if isinstance(index, tuple) else [index]
    tensors = [item for item in items if isinstance(item, Value)]
    if any(isinstance(item, bool | list | range) for item in items):
        raise NotLowered("an index that is written out")
    if any(
        isinstance(part, Value)
        for item in items
        if isinstance(item, slice)
        for part in (item.start, item.stop, item.step)
    ):
        raise NotLowered("a slice by data")
    if not tensors:
        part = _part(c, target, index)
        c.check_no_overlap(part)
        c.write(part, filled(c, value, part.meta.shape, c.dtype_of(target)))
        return
    if c.dtype_of(target) in FLOAT8:
        raise NotLowered("no native code for writes by index of what is only stored")
    c.check_no_overlap(target)
    if all(item.dtype == "b1" for item in tensors):
        _fill_mask(c, target, items, value)
        return
    meaning = subscript(c, target.meta.shape, index)
    shown = _shape_found(c, target, items, meaning)
    meaning = meaning.checked(c, target.meta.shape, shown)
    # torch wants the dtype itself here; one number of another is an exception that it makes.
    if isinstance(value, Value) and value.dtype != c.dtype_of(target):
        raise NotLowered("a value of another dtype")
    written = filled(c, value, shown, c.dtype_of(target))
    c.scatter(target, written, meaning.index, meaning.lookups, "set")


def _questions(c: Lowering) -> ShapeQuery:
    return ShapeQuery(c.facts, "setitem")


def _part(c: Lowering, target: Target, key: Any) -> Target:
    """The view that integers, slices and new dimensions make."""
    questions = _questions(c)
    seen, _ = first_round(questions, target.meta, key)
    if questions.needs or questions.unbacked:
        raise NotLowered("a part of a tensor by what is not known")
    return c.subscripted(target, seen, key)


def _shape_found(
    c: Lowering, target: Target, items: Sequence[Any], meaning: Subscript
) -> tuple[Size, ...]:
    """The sizes of what a subscript with tensors names."""
    plain = tuple(slice(None) if isinstance(item, Value) else item for item in items)
    seen = _part(c, target, plain).meta.shape
    # Dimensions of the view that lookups take the place of.
    gone: list[int] = []
    dim = 0
    taken = sum(item is not None and item is not Ellipsis for item in items)
    for item in items:
        if isinstance(item, Value):
            gone.append(dim)
        if item is Ellipsis:
            dim += target.meta.rank - taken
        elif item is None or isinstance(item, slice | Value):
            dim += 1
    kept = [size for at, size in enumerate(seen) if at not in gone]
    return (*kept[: meaning.first], *meaning.places, *kept[meaning.first :])


def _fill_mask(c: Lowering, target: Target, items: Sequence[Any], value: Any) -> None:
    """`x[mask] = number`: chosen element by element."""
    if len(items) != 1:
        raise NotLowered("a mask beside other indices")
    (mask,) = items
    if not mask.sizes or not c.same_sizes(mask.sizes, target.meta.shape[: len(mask.sizes)]):
        raise NotLowered("a mask of other sizes")
    if isinstance(value, Value) and any(size != 1 for size in value.sizes):
        raise NotLowered("values for the places of a mask")
    dtype, sizes = c.dtype_of(target), target.meta.shape
    if isinstance(value, Value) and value.dtype != dtype:
        raise NotLowered("a value of another dtype")
    before = target.value(c.values) if not target.is_view else c.stored(target)
    new = filled(c, value, sizes, dtype)

    def at(index: Index) -> Scalar:
        return where(mask.at(index[: len(mask.sizes)]), new.at(index), before.at(index))

    c.write(target, c.values.new(sizes, dtype, at, (mask, new, before), cost=1))
