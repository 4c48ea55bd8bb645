"""Operators that take index tensors or masks: `index_select`, `take`, `index_put`, `index_fill`,
`index_copy`, `put`, `masked_scatter`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Dtype, Scalar
from anyshape.loops.reshape_indexing import reshaped
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.families.indexing import (
    Positions,
    added_at,
    along_dim,
    first_round,
    from_front,
    shape_found,
    subscript,
)
from anyshape.ops.families.scattering import filled, scatter_row, slices_along
from anyshape.ops.families.setitem import require_written
from anyshape.ops.gradient import Gradients, NoGradient, Term, zeros_like
from anyshape.ops.lowering.scalars import cast
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import Op, OpKind, gradient, lower, moving, onnx, row_of
from anyshape.ops.promotion import Number
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, ne, or_, product
from anyshape.symbolic.extrema import maximum


def cloned(q: ShapeQuery, input: Meta) -> Meta:
    """A fresh tensor in the layout of another: what an operator returns that writes into a copy."""
    return input.like(layout=pointwise_layout(q, input.shape, (input,)))


def _require_long(q: ShapeQuery, *indices: Meta) -> None:
    for index in indices:
        if index.dtype is not torch.int64:
            raise q.fail(f"indices must be of int64, not {index.dtype}")


def _require_same_dtype(q: ShapeQuery, input: Meta, source: Meta) -> None:
    if input.dtype != source.dtype:
        raise q.fail(f"{source.dtype} does not go into a tensor of {input.dtype}")


def _count(q: ShapeQuery, index: Meta) -> Size:
    """How many indices a vector has; a tensor without dimensions is one."""
    if index.rank > 1:
        raise q.fail(f"the indices must be a vector, not of {index.rank} dimensions")
    return index.numel


def index_select(q: ShapeQuery, input: Meta, dim: int, index: Meta) -> Meta:
    dim = q.dim(dim, input.rank)
    if index.dtype not in (torch.int64, torch.int32):
        raise q.fail(f"indices must be of int64 or int32, not {index.dtype}")
    count = _count(q, index)
    if not input.shape:
        q.require(eq(count, 1), "a tensor without dimensions has one element")
        return input.like()
    q.require(
        or_(ne(input.shape[dim], 0), eq(count, 0)), "there is nothing to select in a size of 0"
    )
    return input.like((*input.shape[:dim], count, *input.shape[dim + 1 :]))


def take(q: ShapeQuery, input: Meta, index: Meta) -> Meta:
    _require_long(q, index)
    q.require(
        or_(ne(input.numel, 0), eq(index.numel, 0)), "there is nothing to take from no elements"
    )
    return input.like(index.shape)


def take_along_dim(q: ShapeQuery, input: Meta, indices: Meta, dim: int | None = None) -> Meta:
    _require_long(q, indices)
    if dim is None:
        return take(q, input, indices.like((indices.numel,)))
    if indices.rank != input.rank:
        raise q.fail(
            f"as many dimensions are needed as the tensor's {input.rank}, not {indices.rank}"
        )
    dim = q.dim(dim, input.rank)
    if not input.shape:
        return input.like()
    pairs = [(input.shape[d], indices.shape[d]) for d in range(input.rank) if d != dim]
    found = list(broadcast(q, [tuple(a for a, _ in pairs), tuple(b for _, b in pairs)]))
    found.insert(dim, indices.shape[dim])
    # The lookup itself: nothing is found in a dimension of size 0.
    empty = [eq(size, 0) for size in found]
    q.require(or_(ne(input.shape[dim], 0), *empty), "there is nothing to take in a size of 0")
    return input.like(tuple(found))


def index_put(
    q: ShapeQuery,
    input: Meta,
    indices: Sequence[Meta | None],
    values: Meta,
    accumulate: bool = False,
) -> Meta:
    # As a subscript, except that None leaves a dimension as it is and an index without dimensions
    # is one like others.
    if len(indices) > input.rank:
        raise q.fail(f"{len(indices)} indices are too many for {input.rank} dimensions")
    items = [slice(None) if index is None else _at_least_vector(index) for index in indices]
    base, lookups = first_round(q, input, tuple(items))
    target = shape_found(q, base, lookups)
    if values.dtype != input.dtype and not q.decide(
        eq(values.numel, 1), "one number may be of any dtype"
    ):
        raise q.fail(f"{values.dtype} does not go into a tensor of {input.dtype}")
    require_written(q, values.shape, target)
    return cloned(q, input)


def _at_least_vector(index: Meta) -> Meta:
    return index if index.shape else index.viewed((1,), (1,))


def _require_place(q: ShapeQuery, input: Meta, dim: int, count: Size) -> None:
    """Nothing can be written into a dimension of size 0, unless it is nothing anyway."""
    sizes = [count, *(size for d, size in enumerate(input.shape) if d != dim)]
    if input.shape:
        q.require(
            or_(ne(input.shape[dim], 0), *(eq(size, 0) for size in sizes)),
            "there is no position in a size of 0",
        )


def index_fill(q: ShapeQuery, input: Meta, dim: int, index: Meta, value: Meta | Number) -> Meta:
    _require_long(q, index)
    _require_place(q, input, q.dim(dim, input.rank), _count(q, index))
    if isinstance(value, Meta):
        if value.shape:
            raise q.fail("the value must be a number or a tensor without dimensions")
        if value.dtype.is_complex and not input.dtype.is_complex:
            raise q.fail(f"a complex value does not go into a tensor of {input.dtype}")
    elif isinstance(value, complex) and not input.dtype.is_complex:
        raise q.fail(f"a complex value does not go into a tensor of {input.dtype}")
    return cloned(q, input)


def index_copy(q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta) -> Meta:
    dim = q.dim(dim, input.rank)
    _require_long(q, index)
    _require_same_dtype(q, input, source)
    count = _count(q, index)
    if not source.shape:
        q.require(eq(count, 1), "a source without dimensions is for one index")
        return input.like()
    if input.shape and input.rank != source.rank:
        raise q.fail(f"the source has {source.rank} dimensions, the tensor {input.rank}")
    q.require(eq(source.shape[dim], count), "the source has one position an index")
    for d in range(input.rank):
        if d != dim:
            q.require(
                eq(input.shape[d], source.shape[d]), f"size {d} of the source is the tensor's"
            )
    _require_place(q, input, dim, count)
    return input.like()


def put(q: ShapeQuery, input: Meta, index: Meta, source: Meta, accumulate: bool = False) -> Meta:
    _require_long(q, index)
    _require_same_dtype(q, input, source)
    q.require(eq(index.numel, source.numel), "the source has one element an index")
    q.require(
        or_(ne(input.numel, 0), eq(index.numel, 0)), "there is nothing to put into no elements"
    )
    return cloned(q, input)


def masked_scatter(q: ShapeQuery, input: Meta, mask: Meta, source: Meta) -> Meta:
    if mask.dtype is not torch.bool:
        raise q.fail(f"a mask is of bool, not {mask.dtype}")
    _require_same_dtype(q, input, source)
    # Torch itself sees to it that the source has an element for each place of the mask: how many
    # these are is no size of the result.
    return input.like(broadcast(q, [mask.shape, input.shape]))


_row = partial(row_of, OpKind.INDEX_MAP)

ROWS: tuple[Op, ...] = (
    _row("index_select", index_select),
    _row("take", take),
    _row("take_along_dim", take_along_dim),
    _row("index_put", index_put, in_place=True),
    _row("index_fill", index_fill, in_place=True),
    _row("index_copy", index_copy, in_place=True),
    _row("put", put, in_place=True),
    _row("masked_scatter", masked_scatter, in_place=True),
)


# -- native code ----------------------------------------------------------------------------------


@lower(*moving("index_select"))
def lower_index_select(c: Lowering, input: Value, dim: Any, index: Value) -> Value:
    if not input.sizes or len(index.sizes) > 1:
        raise NotLowered("a tensor without dimensions")
    along = place(dim, len(input.sizes))
    positions = Positions(c, index, input.sizes[along], wraps=False)

    def at(here: Index) -> Scalar:
        found = positions.at((here[along],) if index.sizes else ())
        return input.at((*here[:along], found, *here[along + 1 :]))

    return c.values.new(c.result.shape, input.dtype, at, (input, index), cost=1)


@lower("take_along_dim")
def lower_take_along_dim(c: Lowering, input: Value, indices: Value, dim: Any) -> Value:
    if dim is None:
        raise NotLowered("positions in the flattened tensor")
    if input.sizes and _count_around():
        size = expr.index(maximum(input.sizes[place(dim, len(input.sizes))], 1))

        def at(here: Index) -> Scalar:
            return expr.operation("floormod", cast(given.at(here), "i64"), size, dtype="i64")

        given = indices
        indices = c.values.new(given.sizes, "i64", at, (given,))
    return along_dim(c, input, dim, indices, c.result.shape, wraps=False)


@cache
def _count_around() -> bool:
    """Whether any position is one to this torch: those beyond the end begin anew, and negative ones
    count from there."""
    with torch._C.DisableTorchFunction():
        try:
            return torch.take_along_dim(torch.arange(3), torch.tensor([-5]), 0).item() == 1
        except (IndexError, RuntimeError):
            return False


@lower("take")
def lower_take(c: Lowering, input: Value, index: Value) -> Value:
    whole = (product(input.sizes),)
    positions = Positions(c, index, whole[0], wraps=True)

    def at(here: Index) -> Scalar:
        there = reshaped((positions.at(here),), whole, input.sizes, c.values.extents, c.facts)
        return input.at(there)

    return c.values.new(index.sizes, input.dtype, at, (input, index), cost=4)


def plan_index_copy(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, source: Value
) -> Any:
    return slices_along(c, sizes, dtype, dim, index, source, "set", False)


def plan_index_fill(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, value: Any
) -> Any:
    return slices_along(c, sizes, dtype, dim, index, value, "set", True)


def plan_index_put(
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


scatter_row("index_copy", plan_index_copy)
scatter_row("index_fill", plan_index_fill)
scatter_row("index_put", plan_index_put)


# -- gradients ------------------------------------------------------------------------------------


@gradient("index_select")
def gradient_index_select(grad: Term, input: Term, dim: Any, index: Term) -> Gradients:
    if input.rank == 0 or index.rank != 1:
        raise NoGradient("a 0-d tensor")
    return {"input": zeros_like(input).index_add(dim, index, grad)}


@gradient("take")
def gradient_take(grad: Term, input: Term, index: Term) -> Gradients:
    flat = zeros_like(input).reshape([product(list(input.shape))])
    found = added_at(flat, 0, from_front(index, flat.shape[0]), grad)
    return {"input": found.reshape(input.shape)}


@gradient("take_along_dim")
def gradient_take_along_dim(grad: Term, input: Term, indices: Term, dim: Any) -> Gradients:
    if dim is None:
        return gradient_take(grad, input, indices)
    if input.rank == 0:
        raise NoGradient("a 0-d tensor")
    dim %= input.rank
    shape = [*input.shape]
    shape[dim] = indices.shape[dim]
    if not all(map(grad.records.is_same, shape, indices.shape)):
        raise NoGradient("places that are broadcast")
    if _count_around():
        indices = indices.call(torch.remainder, maximum(input.shape[dim], 1))
    return {"input": zeros_like(input).scatter_add(dim, indices, grad)}


@gradient("index_put")
def gradient_index_put(grad: Term, indices: Any, values: Term, accumulate: Any) -> Gradients:
    if not all(isinstance(each, Term) for each in indices):
        raise NoGradient("dimensions that stay as they are")
    if any(each.dtype in (torch.bool, torch.uint8) or not each.rank for each in indices):
        raise NoGradient("places that depend on data")
    own = grad
    if accumulate is not True:
        zero = zeros_like(values.sum())
        own = grad.index_put(tuple(indices), zero)
    return {"input": own, "values": grad.call(torch.Tensor.__getitem__, tuple(indices))}


@gradient("index_fill")
def gradient_index_fill(grad: Term, dim: Any, index: Term, value: Any) -> Gradients:
    if grad.rank == 0 or index.rank != 1:
        raise NoGradient("a 0-d tensor")
    found: Gradients = {"input": grad.index_fill(dim, index, 0.0)}
    if isinstance(value, Term):
        found["value"] = grad.index_select(dim, index).sum()
    return found


@gradient("index_copy")
def gradient_index_copy(grad: Term, dim: Any, index: Term, source: Term) -> Gradients:
    if grad.rank != source.rank or grad.rank == 0 or index.rank != 1:
        raise NoGradient("a 0-d tensor")
    return {
        "input": grad.index_fill(dim, index, 0.0),
        "source": grad.index_select(dim, index),
    }


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("index_select")
def onnx_index_select(w: Writer, node: Node, input: Any, dim: int, index: Any) -> str:
    return w.add("Gather", [w.name(input), w.name(index)], axis=dim)
