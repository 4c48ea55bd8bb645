"""Writing into parts of a tensor: `x[key] = v`, scatter, index_add and their relatives."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.aliasing import IndexMap, TensorView
from anyshape.graph.lowerings.indexing import Positions, Subscript, subscript
from anyshape.graph.lowerings.pointwise import INTEGERS, where
from anyshape.graph.lowerings.table import row, writes
from anyshape.graph.lowerings.views import place
from anyshape.graph.plan import NumberRef, View
from anyshape.graph.pointwise_builder import (
    Operand,
    broadcast_index,
    cast,
    scalar_of,
    wide,
)
from anyshape.graph.scalar_range_check import must_fit
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops.expr import FLOATS, HALVES, Dtype, Scalar
from anyshape.ops.rules.indexing import first_round
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size, eq

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def filled(c: Lowering, value: Any, sizes: Sequence[Size], dtype: Dtype) -> Value:
    """A value stretched to these sizes, in this dtype."""
    if isinstance(value, Value):
        own = list(value.sizes)
        while len(own) > len(sizes) and own[0] == 1:
            own.pop(0)
        skip = len(value.sizes) - len(own)
        if len(own) > len(sizes) or not _stretches(c, own, sizes):
            raise NotLowered("a value of other sizes")
        factors = value.factors if not skip and c.same_sizes(own, sizes) else None

        def read(index: Index) -> Scalar:
            there = broadcast_index(own, sizes, index)
            return cast(value.at((0,) * skip + there), dtype)

        return c.values.new(sizes, dtype, read, (value,), cost=0, factors=factors)
    number = _fitting(value, dtype)
    must_fit(c, number, dtype)

    def constant(index: Index) -> Scalar:
        return cast(scalar_of(number, index, sizes, wide(dtype)), dtype)

    return c.values.new(sizes, dtype, constant)


def _stretches(c: Lowering, own: Sequence[Size], sizes: Sequence[Size]) -> bool:
    skip = len(sizes) - len(own)
    return all(
        size == 1 or c.same(size, wanted) for size, wanted in zip(own, sizes[skip:], strict=True)
    )


def _fitting(value: Any, dtype: Dtype) -> Operand:
    """A number that the dtype has."""
    if isinstance(value, NumberRef | Expr | bool | int | float):
        if dtype in FLOATS or dtype == "b1":
            return value
        if isinstance(value, float) and not math.isfinite(value):
            raise NotLowered("a number that the dtype does not have")
        if isinstance(value, Expr | NumberRef):
            raise NotLowered("a number that the dtype may not have")
        low, high = INTEGERS[dtype]
        if low <= value <= high:
            return value
    raise NotLowered("a number that the dtype does not have")


# -- subscripts ------------------------------------------------------------------------------------


@writes("setitem")
def setitem(c: Lowering, target: TensorView, index: Any, value: Any) -> None:
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


def _part(c: Lowering, target: TensorView, key: Any) -> TensorView:
    """The view that integers, slices and new dimensions make."""
    questions = _questions(c)
    seen, _ = first_round(questions, target.meta, key)
    if questions.needs or questions.unbacked:
        raise NotLowered("a part of a tensor by what is not known")
    view = View("call_function", operator.getitem, (key,), {})
    return TensorView(target.root, seen, target, view=view)


def _shape_found(
    c: Lowering, target: TensorView, items: Sequence[Any], meaning: Subscript
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


def _fill_mask(c: Lowering, target: TensorView, items: Sequence[Any], value: Any) -> None:
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


# -- operators -------------------------------------------------------------------------------------


def along(
    c: Lowering, dim: int, size: Size, index: Value, value: Value, *, wraps: bool, per_element: bool
) -> IndexMap:
    """Where an element of the value goes: elsewhere in one dimension only."""
    positions = Positions(c, index, size, wraps=wraps, found=value.sizes)

    def index_map(here: Index) -> Index:
        own = here if per_element else (here[dim],) if index.sizes else ()
        return (*here[:dim], positions.at(own), *here[dim + 1 :])

    return index_map


def scatter_row(name: str, plan: Any, otherwise: Any = None) -> None:
    """`plan(c, sizes, dtype, ...)` gives (value, index map, lookups, mode): both for the operator
    and for its in-place form. `otherwise`: what the operator does where there is no such plan."""

    @row(name)
    def lowered(c: Lowering, input: Value, **arguments: Any) -> Value:
        try:
            value, index_map, _, mode = plan(c, input.sizes, input.dtype, **arguments)
        except NotLowered:
            if otherwise is None:
                raise
            return otherwise(c, input, **arguments)
        adds_exactly(mode, input.dtype)
        return c.scattered(input, value, index_map, mode, c.result)

    @writes(name)
    def written(c: Lowering, target: TensorView, **arguments: Any) -> None:
        value, index_map, lookups, mode = plan(
            c, target.meta.shape, c.dtype_of(target), **arguments
        )
        adds_exactly(mode, c.dtype_of(target))
        c.scatter(target, value, index_map, lookups, mode)


def adds_exactly(mode: str, dtype: Dtype) -> None:
    """Sums of two bytes would be rounded after each addition; torch rounds less often."""
    if mode in ("add", "mul") and dtype in HALVES:
        raise NotLowered("sums of two bytes")


def per_element(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, source: Any, mode: str
) -> Any:
    if not sizes or len(index.sizes) != len(sizes):
        raise NotLowered("tensors of other numbers of dimensions")
    at = place(dim, len(sizes))
    if isinstance(source, Value):
        if source.dtype != dtype or len(source.sizes) != len(sizes):
            raise NotLowered("a source of another kind")
        # The source may be larger than the positions.
        value = c.values.new(index.sizes, dtype, source.at, (source,))
    else:
        value = filled(c, source, index.sizes, dtype)
    return (
        value,
        along(c, at, sizes[at], index, value, wraps=False, per_element=True),
        [index],
        mode,
    )


def scatter(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    src: Any = None,
    *,
    value: Any = None,
    reduce: Any = None,
) -> Any:
    if reduce is not None:
        raise NotLowered("a scatter that reduces")
    return per_element(c, sizes, dtype, dim, index, value if src is None else src, "set")


def scatter_add(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, src: Any
) -> Any:
    return per_element(c, sizes, dtype, dim, index, src, "add")


def _slices(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    source: Any,
    mode: str,
    wraps: bool,
) -> Any:
    """A slice of the source for each position."""
    if not sizes or len(index.sizes) > 1:
        raise NotLowered("a tensor without dimensions")
    at = place(dim, len(sizes))
    count = index.sizes[0] if index.sizes else 1
    shape = (*sizes[:at], count, *sizes[at + 1 :])
    if isinstance(source, Value) and source.sizes and not c.same_sizes(source.sizes, shape):
        raise NotLowered("a source of other sizes")
    value = filled(c, source, shape, dtype)
    return (
        value,
        along(c, at, sizes[at], index, value, wraps=wraps, per_element=False),
        [index],
        mode,
    )


def index_add(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    source: Value,
    *,
    alpha: Any = 1,
) -> Any:
    if type(alpha) is not int or alpha != 1 or source.dtype != dtype:
        raise NotLowered("a scaled source")
    return _slices(c, sizes, dtype, dim, index, source, "add", False)


def index_copy(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, source: Value
) -> Any:
    return _slices(c, sizes, dtype, dim, index, source, "set", False)


def index_fill(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, value: Any
) -> Any:
    return _slices(c, sizes, dtype, dim, index, value, "set", True)


def index_put(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    indices: Any,
    values: Value,
    accumulate: bool = False,
) -> Any:
    key = tuple(slice(None) if each is None else each for each in indices)
    if values.dtype != dtype:
        raise NotLowered("a value of another dtype")
    meaning = subscript(c, sizes, key)
    gone = [dim for dim, item in enumerate(key) if isinstance(item, Value)]
    if not gone:
        raise NotLowered("no positions")
    kept = [size for dim, size in enumerate(sizes) if dim not in gone]
    shown = (*kept[: meaning.first], *meaning.places, *kept[meaning.first :])
    own = values.sizes[-len(shown) :] if shown else ()
    for size, wanted in zip(reversed(own), reversed(shown), strict=False):
        if size != 1 and not c.same(size, wanted):
            c.assume(eq(size, wanted), "as many values as positions")
    value = filled(c, values, shown, dtype)
    meaning = meaning.checked(c, sizes, shown)
    mode = "add" if accumulate else "set"
    return value, meaning.index, meaning.lookups, mode


for _name, _plan in {
    "scatter": scatter,
    "scatter_add": scatter_add,
    "index_add": index_add,
    "index_copy": index_copy,
    "index_fill": index_fill,
    "index_put": index_put,
}.items():
    scatter_row(_name, _plan)
