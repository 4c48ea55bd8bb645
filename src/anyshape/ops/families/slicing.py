"""Views of parts of a tensor: of one dimension, by strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.loops.reshape_indexing import divided
from anyshape.ops.families.backward_kernels import gradient_by_sizes
from anyshape.ops.families.slice_gradient import widened
from anyshape.ops.families.views import without
from anyshape.ops.gradient import Gradients, NoGradient, Term, place_of
from anyshape.ops.lowering.pointwise_builder import shifted
from anyshape.ops.lowering.values import IndexMap, Lowering, NotLowered, place
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import Effects, Op, OpKind, gradient, lower_view, onnx, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, eq, ge, le, maximum, minimum, or_, total
from anyshape.symbolic.expr import terms_of

# ---- parts of a dimension ------------------------------------------------------------------------


def selected(q: ShapeQuery, input: Meta, dim: int, index: Size) -> Meta:
    """One position of a dimension, which is gone."""
    index = q.index(index, input.shape[dim])
    moved = replace(input, offset=input.offset + index * input.strides[dim])
    return without(moved, (dim,))


def select(q: ShapeQuery, input: Meta, dim: int, index: Size) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions has nothing to select")
    return selected(q, input, q.dim(dim, input.rank), index)


def sliced(
    q: ShapeQuery, input: Meta, dim: int, start: Size | None, stop: Size | None, step: Size
) -> Meta:
    """`input[start:stop:step]` in one dimension, as Python has it: from the end where negative, and
    never out of range.
    """
    size = input.shape[dim]
    if step != 1:
        q.require(ge(step, 1), f"the step of a slice must be at least 1, not {step}")
    first, length = _extent(q, size, 0 if start is None else start, stop)
    if type(step) is Expr or step != 1:
        length = (length + step - 1) // step
    if length is size and first == 0:
        return input
    stride = input.strides[dim]
    shape = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    strides = (*input.strides[:dim], stride * step, *input.strides[dim + 1 :])
    return input.viewed(shape, strides, input.offset + first * stride)


def _extent(q: ShapeQuery, size: Size, start: Size, stop: Size | None) -> tuple[Size, Size]:
    """The first position of a slice (right where the slice has elements) and the number of
    positions from there to its end.
    """
    stop = size if stop is None else _stop(q, size, stop)
    if not q.decide(ge(start, 0), "a negative start of a slice counts from the end"):
        # From max(size + start, 0): the length is the smaller of the two.
        return _most(q, size + start, 0), _most(q, _least(q, stop - size - start, stop), 0)
    return start, _most(q, stop - start, 0)


def _stop(q: ShapeQuery, size: Size, stop: Size) -> Size:
    """The end of a slice; below its start where it is out of range at the front."""
    if type(stop) is int and stop >= 2**62:  # what torch itself writes for "to the end"
        return size
    if q.decide(ge(stop, 0), "a negative end of a slice counts from the end"):
        return _least(q, stop, size)
    return size + stop


def _least(q: ShapeQuery, a: Size, b: Size) -> Size:
    found = minimum(a, b)
    if found is a or found is b or type(found) is int:
        return found
    return a if q.known(le(a, b)) else b if q.known(le(b, a)) else found


def _most(q: ShapeQuery, a: Size, b: Size) -> Size:
    found = maximum(a, b)
    if found is a or found is b or type(found) is int:
        return found
    return a if q.known(ge(a, b)) else b if q.known(ge(b, a)) else found


def slice_(
    q: ShapeQuery,
    input: Meta,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions has nothing to slice")
    return sliced(q, input, q.dim(dim, input.rank), start, end, step)


def narrow(q: ShapeQuery, input: Meta, dim: int, start: Size | Meta, length: Size) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions cannot be narrowed")
    dim = q.dim(dim, input.rank)
    size = input.shape[dim]
    q.require(ge(length, 0), f"the length {length} must not be negative")
    if isinstance(start, Meta):
        if (
            start.shape
            or start.dtype.is_floating_point
            or start.dtype in (torch.bool, torch.complex64)
        ):
            raise q.fail("a start that is a tensor must be an integer without dimensions")
        start = q.new_size()
        q.require(le(length, size), f"{length} positions do not fit into size {size}")
        q.given(le(start + length, size))
    elif not q.decide(ge(start, 0), "a negative start counts from the end"):
        q.require(ge(start, -size), f"start {start} is out of range for size {size}")
        start = start + size
    q.require(
        le(start + length, size), f"{length} positions from {start} on do not fit into size {size}"
    )
    return part(input, dim, start, length)


def part(input: Meta, dim: int, start: Size, length: Size) -> Meta:
    """`length` positions from `start` on, which are known to exist."""
    shape = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    return input.viewed(shape, input.strides, input.offset + start * input.strides[dim])


def unbind(q: ShapeQuery, input: Meta, dim: int = 0) -> tuple[Meta, ...]:
    if not input.shape:
        raise q.fail("a tensor without dimensions cannot be unbound")
    dim = q.dim(dim, input.rank)
    count = q.count(input.shape[dim], "one result a position of the dimension")
    stride = input.strides[dim]
    one = without(input, (dim,))
    return tuple(replace(one, offset=input.offset + index * stride) for index in range(count))


def unfold(q: ShapeQuery, input: Meta, dimension: int, size: Size, step: Size) -> Meta:
    dim = q.dim(dimension, input.rank)
    q.require(ge(size, 0), f"the size {size} of a window must not be negative")
    q.require(ge(step, 1), f"the step {step} must be at least 1")
    whole = input.shape[dim] if input.shape else 1
    q.require(le(size, whole), f"a window of {size} must fit into {whole}")
    if not input.shape:
        return input.viewed((size,), (1,))
    stride = input.strides[dim]
    shape = (*input.shape[:dim], (whole - size) // step + 1, *input.shape[dim + 1 :], size)
    return input.viewed(
        shape, (*input.strides[:dim], stride * step, *input.strides[dim + 1 :], stride)
    )


def diagonal_view(
    q: ShapeQuery, input: Meta, offset: Size = 0, dim1: int = 0, dim2: int = 1
) -> Meta:
    a, b = q.dim(dim1, input.rank), q.dim(dim2, input.rank)
    if a == b:
        raise q.fail(f"a diagonal needs two dimensions, not {dim1} twice")
    rows, columns = input.shape[a], input.shape[b]
    stride_a, stride_b = input.strides[a], input.strides[b]
    if q.decide(ge(offset, 0), "a diagonal above or below the main one"):
        length, first = _least(q, rows, columns - offset), offset * stride_b
    else:
        length, first = _least(q, rows + offset, columns), -offset * stride_a
    kept = without(replace(input, offset=input.offset + first), (a, b))
    return kept.viewed((*kept.shape, _most(q, length, 0)), (*kept.strides, stride_a + stride_b))


def linalg_diagonal(
    q: ShapeQuery, A: Meta, *, offset: Size = 0, dim1: int = -2, dim2: int = -1
) -> Meta:
    return diagonal_view(q, A, offset, dim1, dim2)


def as_strided(
    q: ShapeQuery,
    input: Meta,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Meta:
    shape, strides = tuple(size), tuple(stride)
    if len(shape) != len(strides):
        raise q.fail(f"as many sizes as strides are needed, not {shape} and {strides}")
    offset = input.offset if storage_offset is None else storage_offset
    for number in (*shape, *strides, offset):
        q.require(ge(number, 0), f"sizes, strides and offset must not be negative: {number}")
    _require_room(q, input, shape, strides, offset)
    return input.viewed(shape, strides, offset)


def _require_room(
    q: ShapeQuery, input: Meta, shape: tuple[Size, ...], strides: tuple[Size, ...], offset: Size
) -> None:
    """Make sure that such a view lies in the storage, of which only the part is known that the
    tensor reaches.
    """
    room = or_(
        *(eq(size, 0) for size in shape),
        le(offset + reach(shape, strides), input.offset + extent(input)),
    )
    if q.facts.holds_now(room) is not False:
        q.require(room, "the view lies where the tensor does")
        return
    for number in (*shape, *strides, offset):
        q.specialize(
            number, "the view goes beyond the tensor, and the size of its storage is not known"
        )


def reach(shape: Sequence[Size], strides: Sequence[Size]) -> Size:
    """How far the last element lies from the first, and one."""
    return 1 + total([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)])


def extent(input: Meta) -> Size:
    """How many elements of the storage the tensor spans where it has elements."""
    return input.numel if isinstance(input.layout, Dense) else reach(input.shape, input.strides)


_row = partial(row_of, OpKind.VIEW)

ROWS: tuple[Op, ...] = (
    _row("select", select),
    _row("narrow", narrow, effects=Effects(indexes=True, waits=0)),
    _row("unbind", unbind),
    _row("unfold", unfold),
    _row("diagonal", diagonal_view),
    _row("linalg_diagonal", linalg_diagonal, "torch.linalg.diagonal"),
    _row("as_strided", as_strided, in_place=True, restrides=True),
)


# -- native code ----------------------------------------------------------------------------------


def selecting(dim: int, at: Size) -> IndexMap:
    return lambda index: (*index[:dim], at, *index[dim:])


def start_of(base: Meta, shown: Meta, dim: int) -> Size:
    """Where a part of a dimension begins, by the offset of the view."""
    offset, stride = shown.offset - base.offset, base.strides[dim]
    if isinstance(offset, int) and isinstance(stride, int) and stride:
        return offset // stride
    terms = terms_of(stride)
    if offset == 0:
        return 0
    if len(terms) == 1:
        found = divided(offset, stride)
        if found is not None and found[1] == 0:
            return found[0]
    raise NotLowered("where the part begins does not follow from the offset")


@lower_view("select")
def lower_select(c: Lowering, base: Meta, dim: Any, index: Any) -> IndexMap:
    at = place(dim, base.rank)
    return selecting(at, start_of(base, c.result, at))


@lower_view("narrow")
def lower_narrow(c: Lowering, base: Meta, dim: Any, start: Any, length: Any) -> IndexMap:
    at = place(dim, base.rank)
    return shifted(at, start_of(base, c.result, at))


@lower_view("diagonal", "unfold", "linalg_diagonal")
def lower_by_strides(c: Lowering, base: Meta, **_: Any) -> None:
    """Only the strides tell."""


@lower_view("unbind")
def lower_unbind(c: Lowering, base: Meta, dim: Any) -> list[IndexMap]:
    at = place(dim, base.rank)
    return [selecting(at, number) for number in range(len(c.result))]


# -- gradients ------------------------------------------------------------------------------------


@gradient("select")
def gradient_select(grad: Term, input: Term, dim: Any, index: Any) -> Gradients:
    dim %= input.rank
    start = place_of(grad.records, index, input.shape[dim])
    return {"input": widened(grad.unsqueeze(dim), dim, start, input.shape[dim])}


@gradient("narrow")
def gradient_narrow(grad: Term, input: Term, dim: Any, start: Any) -> Gradients:
    dim %= input.rank
    start = place_of(grad.records, start, input.shape[dim])
    return {"input": widened(grad, dim, start, input.shape[dim])}


@gradient("diagonal")
def gradient_diagonal(grad: Term, input: Term, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    if type(offset) is not int:
        raise NoGradient("a diagonal that is not known")
    dim1, dim2 = dim1 % input.rank, dim2 % input.rank
    found = grad.diag_embed(offset, dim1, dim2)
    for dim in (dim1, dim2):
        found = widened(found, dim, 0, input.shape[dim])
    return {"input": found}


@gradient("linalg_diagonal")
def gradient_linalg_diagonal(grad: Term, A: Term, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    return {"A": gradient_diagonal(grad, A, offset, dim1, dim2)["input"]}


@gradient("unfold", "unfold_copy")
def gradient_unfold(grad: Term, input: Term, dimension: Any, size: Any, step: Any) -> Gradients:
    given = ("unfold_backward", list(input.shape), dimension, size, step)
    return {"input": grad.call(gradient_by_sizes, *given)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("select")
def onnx_select(w: Writer, node: Node, input: Any, dim: int, index: Any) -> str:
    return w.add("Gather", [w.name(input), w.name(index, torch.int64)], axis=dim)


@onnx("narrow")
def onnx_narrow(w: Writer, node: Node, input: Any, dim: int, start: Any, length: Any) -> str:
    first = w.shape([start])
    last = w.add("Add", [first, w.shape([length])])
    return w.add("Slice", [w.name(input), first, last, w.constant([dim])])


@onnx("unbind")
def onnx_unbind(w: Writer, node: Node, input: Any, dim: int) -> list[str]:
    parts = len(w.example(node))
    return [w.add("Gather", [w.name(input), w.constant(at)], axis=dim) for at in range(parts)]
