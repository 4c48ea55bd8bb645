"""The windows of an image as columns of a matrix, and an image from such columns."""

from __future__ import annotations

from itertools import product as points
from typing import TYPE_CHECKING, Any, Final

from anyshape.graph.lowerings.padding import all_of
from anyshape.graph.lowerings.pointwise import constant_like, op, test, where
from anyshape.graph.lowerings.pooling import each_dim
from anyshape.graph.lowerings.table import row
from anyshape.graph.masked_load import guardable, guarded
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.loops.reshape_indexing import split
from anyshape.symbolic import Size, floordiv, modulo

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

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


@row("im2col")
def im2col(
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


@row("col2im")
def col2im(
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
        raise NotLowered("sums of integers, or of two bytes")
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
