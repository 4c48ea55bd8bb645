"""Operators whose sizes depend on data: each result size that only the data knows is a new symbol.

What is true of it by construction is told: no more elements are found than there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from anyshape.loops.reshape_indexing import split
from anyshape.ops.broadcast import broadcast
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.pointwise_builder import in_shape, mapped
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.onnx import Node, NotMapped, Writer, known
from anyshape.ops.op import Op, OpKind, gradient, lower, moving, onnx, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import NATURAL, Expr, Range, Size, eq, ge, gt, le, ne, or_, product

_POSITIONS = (torch.int64, torch.int32)


def _found(q: ShapeQuery, among: Size, least: int = 0) -> Expr:
    """How many of so many elements: at least `least`, unless there may be none."""
    least = least if least and q.known(gt(among, 0)) else 0
    count = q.new_size(Range(least, among if isinstance(among, int) else None))
    if not isinstance(among, int):
        q.given(le(count, among))
    return count


def nonzero(q: ShapeQuery, input: Meta, *, as_tuple: bool = False) -> Meta | tuple[Meta, ...]:
    if as_tuple:
        return where_true(q, input)
    # One row of positions for each dimension is written, and seen transposed.
    count = _found(q, input.numel)
    return input.like((count, input.rank), torch.int64, Dense((1, 0)))


def where_true(q: ShapeQuery, condition: Meta) -> tuple[Meta, ...]:
    """A vector of positions for each dimension; a tensor without dimensions counts as a vector."""
    count = _found(q, condition.numel)
    position = condition.like((count,), torch.int64)
    # Rows of one tensor, each as long as there are positions.
    return tuple(replace(position, offset=row * count) for row in range(max(condition.rank, 1)))


def argwhere(q: ShapeQuery, input: Meta) -> Meta:
    return input.like((_found(q, input.numel), input.rank), torch.int64, Dense((1, 0)))


def nonzero_static(q: ShapeQuery, input: Meta, *, size: Size, fill_value: int = -1) -> Meta:
    q.require(ge(size, 0), "a size is not negative")
    return input.like((size, input.rank), torch.int64)


def masked_select(q: ShapeQuery, input: Meta, mask: Meta) -> Meta:
    if mask.dtype is not torch.bool:
        raise q.fail(f"the mask must be boolean, not {mask.dtype}")
    shape = broadcast(q, (input.shape, mask.shape))
    return input.like((_found(q, product(shape)),))


def unique(
    q: ShapeQuery,
    input: Meta,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Meta | tuple[Meta, ...]:
    return _unique(q, input, return_inverse, return_counts, dim)


def unique_consecutive(
    q: ShapeQuery,
    input: Meta,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Meta | tuple[Meta, ...]:
    return _unique(q, input, return_inverse, return_counts, dim)


def _unique(
    q: ShapeQuery, input: Meta, inverse: bool, counts: bool, dim: int | None
) -> Meta | tuple[Meta, ...]:
    if dim is None:
        count = _found(q, input.numel, 1)
        values = input.like((count,))
        places = input.like(dtype=torch.int64)
    else:
        along = q.dim(dim, input.rank)
        if not input.rank:
            raise q.fail("a tensor without dimensions has no slices")
        size = input.shape[along]
        others = (*input.shape[:along], *input.shape[along + 1 :])
        for other in others:
            q.require(ne(other, 0), "slices may not be empty")
        count = _found(q, size, 1)
        # The dimension was moved to the front to compare slices, and is seen back in its place.
        shape = (*input.shape[:along], count, *input.shape[along + 1 :])
        order = (along, *(d for d in range(input.rank) if d != along))
        values = input.like(shape, layout=Dense(order))
        places = input.like((size,), torch.int64)
    if not inverse and not counts:
        return values
    extra = ((places,) if inverse else ()) + (
        (input.like((count,), torch.int64),) if counts else ()
    )
    return (values, *extra)


def bincount(q: ShapeQuery, input: Meta, weights: Meta | None = None, minlength: Size = 0) -> Meta:
    if input.rank != 1 or input.dtype.is_floating_point or input.dtype.is_complex:
        raise q.fail("a vector of integers is needed")
    q.require(ge(minlength, 0), "a length is not negative")
    dtype = torch.int64
    if weights is not None:
        if weights.rank != 1:
            raise q.fail("weights must be a vector")
        q.require(eq(weights.shape[0], input.shape[0]), "there must be one weight for each value")
        if not q.decide(
            eq(input.shape[0], 0), "nothing is counted in integers, whatever its weight"
        ):
            dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    count = q.new_size(Range(minlength, None) if isinstance(minlength, int) else NATURAL)
    if not isinstance(minlength, int):
        q.given(ge(count, minlength))
    return input.like((count,), dtype)


def repeat_interleave(
    q: ShapeQuery,
    input: Meta,
    repeats: Meta | Size | None = None,
    dim: int | None = None,
    *,
    output_size: Size | None = None,
) -> Meta:
    if repeats is None:  # repeat_interleave(repeats): how often each position occurs
        if input.rank != 1 or input.dtype not in _POSITIONS:
            raise q.fail("repeats must be a vector of integers")
        return input.like((q.new_size() if output_size is None else output_size,))
    shape = (input.numel,) if dim is None else input.shape or (1,)
    along = 0 if dim is None else q.dim(dim, input.rank)
    size = shape[along]
    if isinstance(repeats, Meta):
        if repeats.rank > 1 or repeats.dtype not in _POSITIONS:
            raise q.fail("repeats must be a vector of integers")
        count = repeats.shape[0] if repeats.shape else 1
        if count != 1 and count is not size:
            q.require(
                or_(eq(count, size), eq(count, 1)),
                "there must be one repeat for each slice, or one for all",
            )
        total = q.new_size() if output_size is None else output_size
        if output_size is not None and q.decide(
            eq(size, 0), "of nothing there is nothing to repeat"
        ):
            total = 0
    else:
        q.require(ge(repeats, 0), "a number of repeats is not negative")
        total = size * repeats
        if output_size is not None:
            q.require(eq(output_size, total), "the size of the result must be the one given")
    return input.like((*shape[:along], total, *shape[along + 1 :]))


_row = partial(row_of, OpKind.CALL_OUT)

ROWS: tuple[Op, ...] = (
    _row("nonzero", nonzero),
    _row("argwhere", argwhere),
    _row("nonzero_static", nonzero_static),
    _row("masked_select", masked_select),
    _row("unique", unique),
    _row("unique_consecutive", unique_consecutive),
    _row("bincount", bincount, differentiable=False),
    _row("repeat_interleave", repeat_interleave),
)


# -- native code ----------------------------------------------------------------------------------


@lower(*moving("repeat_interleave"))
def lower_repeat_interleave(
    c: Lowering, input: Value, repeats: Any, dim: Any, *, output_size: Any
) -> Value:
    if not (type(repeats) is int or isinstance(repeats, Expr)):
        raise NotLowered("repeats that depend on data")
    if dim is None:
        input, dim = in_shape(c, input, (product(input.sizes),)), 0
    along = place(dim, len(input.sizes))
    sizes = list(input.sizes)
    sizes[along] = sizes[along] * repeats

    def index_map(index: Index) -> Index:
        at = split(index[along], repeats, c.values.extents, c.facts)[0]
        return (*index[:along], at, *index[along + 1 :])

    factors = [*input.split_sizes()]
    factors[along] = (input.sizes[along], repeats)
    return mapped(c, input, sizes, index_map, factors=tuple(factors))


# -- gradients ------------------------------------------------------------------------------------


@gradient("repeat_interleave")
def gradient_repeat_interleave(grad: Term, input: Term, repeats: Any, dim: Any) -> Gradients:
    """The sum over copies, which lie side by side."""
    if not isinstance(repeats, int | Expr):
        raise NoGradient("numbers of copies that depend on data")
    flat = [product(list(input.shape))] if dim is None or not input.rank else list(input.shape)
    along = 0 if dim is None or not input.rank else dim % input.rank
    sizes = [*flat[: along + 1], repeats, *flat[along + 1 :]]
    return {"input": grad.reshape(sizes).sum([along + 1]).reshape(input.shape)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("nonzero")
def onnx_nonzero(w: Writer, node: Node, input: Any, as_tuple: bool) -> str:
    if as_tuple:
        raise NotMapped("nonzero as a tuple")
    return w.add("Transpose", [w.add("NonZero", [w.name(input)])], perm=[1, 0])


@onnx("repeat_interleave")
def onnx_repeat_interleave(
    w: Writer, node: Node, input: Any, repeats: Any, dim: Any, **_: Any
) -> str:
    if isinstance(w.example(repeats), torch.Tensor) or dim is None:
        raise NotMapped("repeat_interleave by a tensor, or of everything")
    at, rank = known(dim) % w.rank(input), w.rank(input)
    apart = w.add("Unsqueeze", [w.name(input), w.constant([at + 1])])
    sizes = [repeats if each == at + 1 else 1 for each in range(rank + 1)]
    copied = w.add("Expand", [apart, w.shape(sizes)])
    shape = w.add("Shape", [w.name(input)])
    head = w.add("Slice", [shape, w.constant([0]), w.constant([at])])
    tail = w.add("Slice", [shape, w.constant([at + 1]), w.constant([rank])])
    # Not -1: that is no size of an empty tensor.
    own = w.add("Slice", [shape, w.constant([at]), w.constant([at + 1])])
    longer = w.add("Mul", [own, w.shape([repeats])])
    wanted = w.add("Concat", [head, longer, tail], axis=0)
    return w.add("Reshape", [copied, wanted], allowzero=1)
