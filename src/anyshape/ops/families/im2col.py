"""Windows of images as columns of a matrix, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product as points
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.loops.reshape_indexing import split
from anyshape.ops.families.pooling import each_dim
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.masked_load import guardable, guarded
from anyshape.ops.lowering.scalars import all_of, constant_like, op, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, gradient, lower, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, floordiv, ge, gt, modulo, ne

# ---- windows laid out as columns -----------------------------------------------------------------

Pair = Size | Sequence[Size]


def _pair(q: ShapeQuery, value: Pair) -> tuple[Size, Size]:
    if not isinstance(value, tuple | list):
        return value, value  # pyright: ignore[reportReturnType] a size, then
    if len(value) not in (1, 2):
        raise q.fail(f"{value} is no pair")
    return value[0], value[-1]


def _windows(
    q: ShapeQuery,
    sizes: tuple[Size, Size],
    kernel: Pair,
    dilation: Pair,
    padding: Pair,
    stride: Pair,
) -> Size:
    """The number of places at which a window lies in an image."""
    found: Size = 1
    parts = zip(
        sizes, *(_pair(q, pair) for pair in (kernel, dilation, padding, stride)), strict=True
    )
    for size, width, spread, pad, step in parts:
        q.require(
            and_(gt(width, 0), gt(spread, 0), gt(step, 0)),
            "kernel, dilation and stride are above 0",
        )
        q.require(ge(pad, 0), f"padding must not be negative: {pad}")
        room = size + 2 * pad - spread * (width - 1) - 1
        q.require(ge(room, 0), f"a window of {width} must fit into the padded size")
        found = found * (room // step + 1)
    return found


def im2col(
    q: ShapeQuery,
    input: Meta,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Meta:
    if input.rank not in (3, 4):
        raise q.fail(f"an image has 3 dimensions, a batch of them 4, not {input.rank}")
    *batch, channels, height, width = input.shape
    for size in (channels, height, width):
        q.require(ne(size, 0), "only the batch may be empty")
    count = _windows(q, (height, width), kernel_size, dilation, padding, stride)
    tall, wide = _pair(q, kernel_size)
    return input.like((*batch, channels * tall * wide, count))


def col2im(
    q: ShapeQuery,
    input: Meta,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Meta:
    if input.rank not in (2, 3):
        raise q.fail(f"columns have 2 dimensions, a batch of them 3, not {input.rank}")
    *batch, rows, columns = input.shape
    height, width = _pair(q, output_size)
    tall, wide = _pair(q, kernel_size)
    q.require(and_(ne(rows, 0), ne(columns, 0)), "only the batch may be empty")
    q.require(and_(gt(height, 0), gt(width, 0)), "an image has a height and a width")
    count = _windows(q, (height, width), kernel_size, dilation, padding, stride)
    q.require(eq(rows % (tall * wide), 0), f"{rows} rows are no multiple of the window")
    q.require(eq(columns, count), f"{columns} columns are not the {count} places of the window")
    return input.like((*batch, rows // (tall * wide), height, width))


_row = partial(row_of, OpKind.INDEX_MAP)

ROWS: tuple[Op, ...] = (
    _row("im2col", im2col, "torch.nn.functional.unfold", "torch._C._nn.im2col"),
    _row("col2im", col2im, "torch.nn.functional.fold", "torch._C._nn.col2im"),
)


# -- native code ----------------------------------------------------------------------------------


#: Elements of a window that are added up one by one.
_MOST: Final = 25


class Grid:
    """The places of a window in an image, by rows and columns."""

    def __init__(
        self, image: tuple[Size, Size], kernel: Any, dilation: Any, padding: Any, stride: Any
    ) -> None:
        self.image = image
        self.kernel = each_dim(kernel, 2, "a window")
        self.dilation = each_dim(dilation, 2, "a dilation")
        self.padding = each_dim(padding, 2, "a padding")
        self.stride = each_dim(stride, 2, "a stride")
        self.counts = tuple(
            floordiv(size + (2 * pad - spread * (width - 1) - 1), step) + 1
            for size, pad, spread, width, step in zip(
                image, self.padding, self.dilation, self.kernel, self.stride, strict=True
            )
        )


def _inside(at: Size, size: Size) -> list[Scalar]:
    here = expr.index(at)
    return [
        test("ge", here, expr.constant(0, "i64")),
        test("lt", here, expr.index(size)),
    ]


@lower("im2col")
def lower_im2col(
    c: Lowering,
    input: Value,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Value:
    *batch, channels, height, width = input.sizes
    grid = Grid((height, width), kernel_size, dilation, padding, stride)
    tall, wide = grid.kernel
    guardable(c, input)

    def at(index: Index) -> Scalar:
        *outer, part, place = index
        channel, within = split(part, tall * wide, c.values.extents, c.facts)
        offsets = split(within, wide, c.values.extents, c.facts)
        corner = split(place, grid.counts[1], c.values.extents, c.facts)
        there = [
            corner[dim] * grid.stride[dim] - grid.padding[dim] + offsets[dim] * grid.dilation[dim]
            for dim in range(2)
        ]
        index = (*outer, channel, *there)
        if grid.padding == (0, 0):
            return input.at(index)
        condition = all_of(
            [each for dim in range(2) for each in _inside(there[dim], grid.image[dim])]
        )
        found = guarded(input, index, condition)
        return where(condition, found, constant_like(0, found))

    sizes = (*batch, channels * (tall * wide), grid.counts[0] * grid.counts[1])
    factors = (*((size,) for size in batch), (channels, tall, wide), grid.counts)
    return c.values.new(sizes, input.dtype, at, (input,), cost=2, factors=factors)


def _window(grid: Grid, dim: int, here: Size, number: int) -> tuple[Size, Size]:
    """Of those windows over a place that come by steps, where it is within one, and which."""
    behind, step = here + grid.padding[dim], grid.stride[dim]
    if step == 1:
        return number, behind - number * grid.dilation[dim]
    return modulo(behind, step) + number * step, floordiv(behind, step) - number


@lower("col2im")
def lower_col2im(
    c: Lowering,
    input: Value,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Value:
    """Every element of the image adds up what windows say of it, in torch's order."""
    height, width = c.result.shape[-2:]
    grid = Grid((height, width), kernel_size, dilation, padding, stride)
    if input.dtype not in FLOATS or input.dtype in HALVES:
        raise NotLowered("sums of integers, or of 16-bit floats")
    if grid.kernel[0] * grid.kernel[1] > _MOST:
        raise NotLowered("large windows")
    if grid.stride != (1, 1) and grid.dilation != (1, 1):
        raise NotLowered("windows with gaps, by steps")
    if input.memory is None and input.cost > 1:
        c.materialize(input)
    guardable(c, input)
    counts = [-(-size // step) for size, step in zip(grid.kernel, grid.stride, strict=True)]
    tall, wide = grid.kernel

    def at(index: Index) -> Scalar:
        *outer, channel, y, x = index
        total = expr.constant(0, input.dtype)
        for number in points(*map(range, counts)):
            (row_, top), (column, left) = (
                _window(grid, dim, here, number[dim]) for dim, here in enumerate((y, x))
            )
            inside = [*_inside(top, grid.counts[0]), *_inside(left, grid.counts[1])]
            inside += [
                test("lt", expr.index(within), expr.constant(size, "i64"))
                for within, size, step in (
                    (row_, tall, grid.stride[0]),
                    (column, wide, grid.stride[1]),
                )
                if size % step
            ]
            condition = all_of(inside)
            part = channel * (tall * wide) + row_ * wide + column
            there = (*outer, part, top * grid.counts[1] + left)
            found = guarded(input, there, condition)
            total = op("add", total, where(condition, found, constant_like(0, found)))
        return total

    cost = 4 * counts[0] * counts[1]
    return c.values.new(c.result.shape, input.dtype, at, (input,), cost=cost)


# -- gradients ------------------------------------------------------------------------------------


@gradient("im2col")
def gradient_im2col(
    grad: Term,
    input: Term,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Gradients:
    given = (kernel_size, dilation, padding, stride)
    return {"input": grad.call(torch.nn.functional.fold, list(input.shape[-2:]), *given)}


@gradient("col2im")
def gradient_col2im(
    grad: Term, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Gradients:
    given = (kernel_size, dilation, padding, stride)
    return {"input": grad.call(torch.nn.functional.unfold, *given)}
