"""Copies of a tensor in which a view has been written: `slice_scatter` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.families.index_operators import cloned
from anyshape.ops.families.slice_gradient import among_zeros, lower_placed, slice_start
from anyshape.ops.families.slicing import as_strided, diagonal_view, select, slice_
from anyshape.ops.gradient import Gradients, Term, place_of, zeros_like
from anyshape.ops.lowering.masked_load import guardable, guarded
from anyshape.ops.lowering.pointwise_builder import as_dtype, mapped
from anyshape.ops.lowering.scalars import test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.meta import Dense, Meta, Strided
from anyshape.ops.op import Op, OpKind, gradient, lower, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Answer, Expr, Size, eq, ge, le, lt, maximum


def _with_written(q: ShapeQuery, input: Meta, seen: Meta, src: Meta) -> Meta:
    """A copy of `input` in which the part that is `seen` has been replaced by `src`, of exactly its
    shape.
    """
    if seen.rank != src.rank:
        raise q.fail(f"the source must have the {seen.rank} dimensions of the part, not {src.rank}")
    for size, wanted in zip(src.shape, seen.shape, strict=True):
        if size is not wanted:
            q.require(eq(size, wanted), "the source has the sizes of the part that it replaces")
    if isinstance(input.layout, Strided) and any(
        stride == 0 and not q.decide(le(size, 1), "an expanded tensor is copied element by element")
        for size, stride in zip(input.shape, input.strides, strict=True)
    ):
        return cloned(q, input)
    # The whole storage is copied, so that strides and offset stay.
    return replace(input, requires_grad=False, shares_if=None)


def select_scatter(q: ShapeQuery, input: Meta, src: Meta, dim: int, index: Size) -> Meta:
    return _with_written(q, input, select(q, input, dim, index), src)


def slice_scatter(
    q: ShapeQuery,
    input: Meta,
    src: Meta,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Meta:
    return _with_written(q, input, slice_(q, input, dim, start, end, step), src)


def diagonal_scatter(
    q: ShapeQuery, input: Meta, src: Meta, offset: Size = 0, dim1: int = 0, dim2: int = 1
) -> Meta:
    return _with_written(q, input, diagonal_view(q, input, offset, dim1, dim2), src)


def as_strided_scatter(
    q: ShapeQuery,
    input: Meta,
    src: Meta,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Meta:
    seen = as_strided(q, input, size, stride, storage_offset)
    return _with_written(q, input, seen, src)


ROWS: tuple[Op, ...] = (
    row_of(OpKind.INDEX_MAP, "select_scatter", select_scatter),
    row_of(OpKind.INDEX_MAP, "slice_scatter", slice_scatter),
    row_of(OpKind.INDEX_MAP, "diagonal_scatter", diagonal_scatter),
    row_of(OpKind.INDEX_MAP, "as_strided_scatter", as_strided_scatter),
)


# -- native code ----------------------------------------------------------------------------------


def _source(c: Lowering, input: Value, src: Value) -> Value:
    """What is written, in the dtype that it is written to. Eager copies the whole storage of the
    input, gaps and all: of those that have some, torch makes the copy."""
    if not isinstance(c.result.layout, Dense) or c.result.offset != 0:
        raise NotLowered("a copy of a storage with gaps")
    return guardable(c, as_dtype(c, src, input.dtype))


def _from_front(c: Lowering, position: Any, size: Size) -> Size:
    """A position of a dimension, counted from its beginning."""
    if not isinstance(position, int | Expr):
        raise NotLowered("a position that is a tensor")
    if c.facts.prove(ge(position, 0)) is Answer.YES:
        return position
    if c.facts.prove(lt(position, 0)) is Answer.YES:
        return position + size
    raise NotLowered("from which end a position is counted is not known")


@lower("select_scatter")
def lower_select_scatter(c: Lowering, input: Value, src: Value, dim: Any, index: Any) -> Value:
    axis = place(dim, len(input.sizes))
    start = _from_front(c, index, input.sizes[axis])
    src = _source(c, input, src)
    # It is computed for each element, and taken for those of one position.
    c.materialize_if_expensive(src, 2)
    sizes = (*src.sizes[:axis], 1, *src.sizes[axis:])
    row = mapped(c, src, sizes, lambda index: (*index[:axis], *index[axis + 1 :]))
    return lower_placed(c, row, axis, start, 1, input.sizes[axis], input)


@lower("slice_scatter")
def lower_slice_scatter(
    c: Lowering, input: Value, src: Value, dim: Any, start: Any, end: Any, step: Any
) -> Value:
    axis = place(dim, len(input.sizes))
    if type(step) is not int:
        raise NotLowered("a step that is not known")
    if start is None:
        start = 0
    first = maximum(_from_front(c, start, input.sizes[axis]), 0)
    src = _source(c, input, src)
    return lower_placed(c, src, axis, first, step, input.sizes[axis], input)


@lower("diagonal_scatter")
def lower_diagonal_scatter(
    c: Lowering, input: Value, src: Value, offset: Any, dim1: Any, dim2: Any
) -> Value:
    if type(offset) is not int:
        raise NotLowered("a diagonal that is not known")
    rank = len(input.sizes)
    first, second = place(dim1, rank), place(dim2, rank)
    src = _source(c, input, src)

    def at(index: Index) -> Scalar:
        row_, column = index[first], index[second]
        on = test("eq", expr.index(row_ + offset), expr.index(column))
        others = [here for dim, here in enumerate(index) if dim not in (first, second)]
        written = guarded(src, (*others, row_ if offset >= 0 else column), on)
        return where(on, written, input.at(index))

    return c.values.new(input.sizes, input.dtype, at, (input, src), cost=2)


# -- gradients ------------------------------------------------------------------------------------


def _writable(grad: Term) -> Term:
    """The gradient without dimensions that are expanded, whose copy would depend on sizes."""
    return grad if grad.meta.is_contiguous else grad.contiguous()


@gradient("select_scatter")
def gradient_select_scatter(grad: Term, input: Term, dim: Any, index: Any) -> Gradients:
    grad = _writable(grad)
    index = place_of(grad.records, index, input.shape[dim])
    own = grad.select(dim, index)
    return {"input": grad.select_scatter(zeros_like(own), dim, index), "src": own}


@gradient("slice_scatter")
def gradient_slice_scatter(
    grad: Term, input: Term, src: Term, dim: Any, start: Any, step: Any
) -> Gradients:
    dim %= input.rank
    count, size = src.shape[dim], input.shape[dim]
    first = slice_start(grad.records, start, size)
    end = maximum(first + (count - 1) * step + 1, 0)
    if step == 1:
        own = grad.narrow(dim, first, count)
    else:
        key = (*[slice(None)] * dim, slice(first, end, step))
        own = grad.call(torch.Tensor.__getitem__, key)
    # Where it is, by a tensor: another formula would ask how the slice is clamped.
    written = src.call(torch.ones_like, dtype=torch.bool).call(among_zeros, dim, first, step, size)
    return {"input": grad.masked_fill(written, 0.0), "src": own}


@gradient("diagonal_scatter")
def gradient_diagonal_scatter(grad: Term, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    grad = _writable(grad)
    own = grad.diagonal(offset, dim1, dim2)
    return {
        "input": grad.diagonal_scatter(zeros_like(own), offset, dim1, dim2),
        "src": own,
    }
