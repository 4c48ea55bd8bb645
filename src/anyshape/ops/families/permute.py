"""The elements of a tensor at other places, or several times: flip, roll, rotate, repeat, and
channels moved into space and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.loops.reshape_indexing import split
from anyshape.ops.families.index_operators import cloned
from anyshape.ops.families.reshaping import sizes_of
from anyshape.ops.families.views import transposed
from anyshape.ops.gradient import Gradients, Term, rearranged
from anyshape.ops.lowering.pointwise_builder import in_shape, mapped, shifted
from anyshape.ops.lowering.scalars import constant_like, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.memory_format import is_channels_last, kept_format
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import END, Node, Writer
from anyshape.ops.op import FUNCTIONAL, Op, OpKind, gradient, lower, moving, onnx, onnx_rows, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import (
    Expr,
    Size,
    and_,
    eq,
    floordiv,
    ge,
    gt,
    maximum,
    modulo,
    ne,
    or_,
    product,
)


def flip(q: ShapeQuery, input: Meta, *dims: int | Sequence[int], **named: Sequence[int]) -> Meta:
    q.dims(sizes_of(dims or tuple(named.values())), input.rank)  # pyright: ignore[reportArgumentType]
    return cloned(q, input)


def fliplr(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank < 2:
        raise q.fail("left and right need two dimensions")
    return cloned(q, input)


def flipud(q: ShapeQuery, input: Meta) -> Meta:
    if not input.shape:
        raise q.fail("up and down need a dimension")
    return cloned(q, input)


def backwards(q: ShapeQuery, input: Meta) -> Meta:
    return cloned(q, input) if input.shape else input


def rot90(q: ShapeQuery, input: Meta, k: int = 1, dims: Sequence[int] = (0, 1)) -> Meta:
    if len(dims) != 2 or input.rank < 2:
        raise q.fail("a rotation needs two dimensions")
    a, b = q.dims(tuple(dims), input.rank)
    turns = q.specialize(k, "the number of quarter turns") % 4
    if turns == 0:
        return input.like()
    flipped = cloned(q, input)
    return flipped if turns == 2 else transposed(flipped, a, b)


def roll(
    q: ShapeQuery, input: Meta, shifts: Size | Sequence[Size], dims: int | Sequence[int] = ()
) -> Meta:
    moves = sizes_of((shifts,))
    along = [q.dim(dim, input.rank) for dim in ((dims,) if isinstance(dims, int | Expr) else dims)]
    if not along and len(moves) == 1:
        return input.like()
    if not moves or len(along) != len(moves):
        raise q.fail(f"{len(moves)} shifts do not go with {len(along)} dimensions")
    # One dimension after the other is cut in two and joined again; a part without elements is not
    # channels-last.
    if not is_channels_last(q, input):
        return input.like()
    cut = all(
        q.decide(
            ne(shift % maximum(input.shape[dim], 1), 0), "a roll by whole turns loses channels-last"
        )
        for dim, shift in zip(along, moves, strict=True)
    )
    return input.like(layout=kept_format(q, input) if cut else None)


def repeat(
    q: ShapeQuery, input: Meta, *repeats: Size | Sequence[Size], **named: Sequence[Size]
) -> Meta:
    times = sizes_of(repeats or tuple(named.values()))
    if len(times) < input.rank:
        raise q.fail(f"{len(times)} repeats are too few for {input.rank} dimensions")
    return _repeated(q, input, times)


def tile(q: ShapeQuery, input: Meta, *dims: Size | Sequence[Size], **named: Sequence[Size]) -> Meta:
    times = sizes_of(dims or tuple(named.values()))
    return _repeated(q, input, (*(1,) * (input.rank - len(times)), *times))


def _repeated(q: ShapeQuery, input: Meta, times: tuple[Size, ...]) -> Meta:
    shape = (*(1,) * (len(times) - input.rank), *input.shape)
    for size, count in zip(shape, times, strict=True):
        # A negative size is refused; nothing repeated a negative number of times is still nothing.
        q.require(or_(ge(count, 0), eq(size, 0)), f"{count} repeats")
    return input.like(tuple(size * count for size, count in zip(shape, times, strict=True)))


def triangle(q: ShapeQuery, input: Meta, diagonal: Size = 0) -> Meta:
    if input.rank < 2:
        raise q.fail(f"a triangle needs two dimensions, not {input.rank}")
    return input.like()


# ---- channels and space --------------------------------------------------------------------------


def pixel_shuffle(q: ShapeQuery, input: Meta, upscale_factor: Size) -> Meta:
    *batch, channels, height, width = _spatial(q, input)
    factor = upscale_factor
    q.require(gt(factor, 0), f"the factor must be above 0, not {factor}")
    q.require(
        eq(channels % (factor * factor), 0),
        f"{channels} channels are no multiple of the factor squared",
    )
    shape = (*batch, channels // (factor * factor), height * factor, width * factor)
    return input.like(shape, layout=kept_format(q, input))


def pixel_unshuffle(q: ShapeQuery, input: Meta, downscale_factor: Size) -> Meta:
    *batch, channels, height, width = _spatial(q, input)
    factor = downscale_factor
    q.require(gt(factor, 0), f"the factor must be above 0, not {factor}")
    q.require(
        and_(eq(height % factor, 0), eq(width % factor, 0)),
        "height and width must be multiples of the factor",
    )
    if q.decide(eq(input.numel, 0), "torch returns a tensor without elements as it is"):
        return input.like()
    shape = (*batch, channels * factor * factor, height // factor, width // factor)
    return input.like(shape, layout=kept_format(q, input))


def _spatial(q: ShapeQuery, input: Meta) -> tuple[Size, ...]:
    if input.rank < 3:
        raise q.fail(f"channels, height and width are needed, not {input.rank} dimensions")
    return input.shape


def channel_shuffle(q: ShapeQuery, input: Meta, groups: Size) -> Meta:
    if input.rank < 3:
        raise q.fail(f"at least 3 dimensions are needed, not {input.rank}")
    q.require(gt(groups, 0), f"the number of groups must be above 0, not {groups}")
    q.require(
        eq(input.shape[1] % groups, 0),
        f"{input.shape[1]} channels are no multiple of {groups} groups",
    )
    return input.like(layout=kept_format(q, input))


_row = partial(row_of, OpKind.INDEX_MAP)

ROWS: tuple[Op, ...] = (
    _row("flip", flip),
    _row("fliplr", fliplr),
    _row("flipud", flipud),
    Op("reversed", ("torch.Tensor.__reversed__",), backwards, OpKind.INDEX_MAP),
    _row("rot90", rot90),
    _row("roll", roll),
    _row("repeat", repeat),
    _row("tile", tile),
    _row("tril", triangle, in_place=True),
    _row("triu", triangle, in_place=True),
    _row("pixel_shuffle", pixel_shuffle, FUNCTIONAL + "pixel_shuffle"),
    _row("pixel_unshuffle", pixel_unshuffle, FUNCTIONAL + "pixel_unshuffle"),
    _row(
        "channel_shuffle",
        channel_shuffle,
        "torch.native_channel_shuffle",
        FUNCTIONAL + "channel_shuffle",
        FUNCTIONAL + "native_channel_shuffle",
    ),
)


# -- native code ----------------------------------------------------------------------------------


def flipped(c: Lowering, input: Value, dims: Sequence[int]) -> Value:
    sizes = input.sizes

    def index_map(index: Index) -> Index:
        return tuple(
            sizes[dim] - 1 - here if dim in dims else here for dim, here in enumerate(index)
        )

    return mapped(c, input, sizes, index_map)


@lower("flip")
def lower_flip(c: Lowering, input: Value, dims: tuple[Any, ...]) -> Value:
    return flipped(c, input, [place(dim, len(input.sizes)) for dim in integers_of(dims)])


@lower("fliplr")
def lower_fliplr(c: Lowering, input: Value) -> Value:
    return flipped(c, input, [1])


@lower("flipud")
def lower_flipud(c: Lowering, input: Value) -> Value:
    return flipped(c, input, [0])


@lower("rot90")
def lower_rot90(c: Lowering, input: Value, k: Any, dims: Any) -> Value:
    if type(k) is not int:
        raise NotLowered("a number of turns that is not known")
    first, second = (place(dim, len(input.sizes)) for dim in dims)
    turns = k % 4
    if turns in (0, 2):
        return flipped(c, input, [first, second] if turns else [])
    sizes = list(input.sizes)
    sizes[first], sizes[second] = sizes[second], sizes[first]

    def index_map(index: Index) -> Index:
        there = list(index)
        row_, column = index[first], index[second]
        there[first], there[second] = column, row_
        if turns == 1:
            there[second] = input.sizes[second] - 1 - row_
        else:
            there[first] = input.sizes[first] - 1 - column
        return tuple(there)

    return mapped(c, input, sizes, index_map)


@lower(*moving("roll"))
def lower_roll(c: Lowering, input: Value, shifts: Any, dims: Any) -> Value:
    moves = integers_of((shifts,))
    along = [place(dim, len(input.sizes)) for dim in integers_of((dims,))]
    if not along:
        if len(moves) != 1 or not input.sizes:
            raise NotLowered("shifts without dimensions")
        flat = in_shape(c, input, (product(input.sizes),))
        return in_shape(c, lower_roll(c, flat, moves, 0), input.sizes)
    if len(along) != len(moves):
        raise NotLowered("other numbers of shifts and dimensions")
    for dim, by in zip(along, moves, strict=True):
        input = shifted_around(c, input, dim, by)
    return input


def shifted_around(c: Lowering, input: Value, dim: int, by: Size) -> Value:
    """What goes out at the end of a dimension comes in at its front: two parts change places, so
    that no position is divided."""
    size = input.sizes[dim]
    front = modulo(by, maximum(size, 1))

    def part(start: Size, count: Size) -> Value:
        sizes = (*input.sizes[:dim], count, *input.sizes[dim + 1 :])
        return mapped(c, input, sizes, shifted(dim, start))

    parts = [part(size - front, front), part(0, size - front)]
    return c.joined(parts, dim, input.sizes, None)


# -- several times ---------------------------------------------------------------------------------


def repeated(c: Lowering, input: Value, times: Sequence[Size]) -> Value:
    """The tensor so many times in each dimension."""
    new = len(times) - len(input.sizes)
    own = (*(1,) * new, *input.sizes)
    sizes = [size * count for size, count in zip(own, times, strict=True)]

    def index_map(index: Index) -> Index:
        return tuple(
            inner(c, here, size) for here, size in zip(index[new:], own[new:], strict=True)
        )

    factors = tuple((count, size) for count, size in zip(times, own, strict=True))
    return mapped(c, input, sizes, index_map, factors=factors)


def inner(c: Lowering, position: Size, size: Size) -> Size:
    """What is left of a position in repeated dimensions of this size."""
    return 0 if size == 1 else split(position, size, c.values.extents, c.facts)[1]


@lower(*moving("repeat"))
def lower_repeat(c: Lowering, input: Value, repeats: tuple[Any, ...]) -> Value:
    return repeated(c, input, integers_of(repeats))


@lower(*moving("tile"))
def lower_tile(c: Lowering, input: Value, dims: tuple[Any, ...]) -> Value:
    times = integers_of(dims)
    return repeated(c, input, (*(1,) * (len(input.sizes) - len(times)), *times))


# -- channels and space ----------------------------------------------------------------------------


@lower("pixel_shuffle")
def lower_pixel_shuffle(c: Lowering, input: Value, upscale_factor: Any) -> Value:
    by = known(upscale_factor)
    *batch, channels, height, width = input.sizes
    few = floordiv(channels, by * by)

    def index_map(index: Index) -> Index:
        *outer, channel, y, x = index
        (down, a), (right, b) = (split(at, by, c.values.extents, c.facts) for at in (y, x))
        return (*outer, channel * (by * by) + a * by + b, down, right)

    sizes = (*batch, few, height * by, width * by)
    factors = (*((size,) for size in batch), (few,), (height, by), (width, by))
    return mapped(c, input, sizes, index_map, factors=factors)


@lower("pixel_unshuffle")
def lower_pixel_unshuffle(c: Lowering, input: Value, downscale_factor: Any) -> Value:
    by = known(downscale_factor)
    *batch, channels, height, width = input.sizes
    low, narrow = floordiv(height, by), floordiv(width, by)

    def index_map(index: Index) -> Index:
        *outer, channel, y, x = index
        whole, rest = split(channel, by * by, c.values.extents, c.facts)
        a, b = split(rest, by, c.values.extents, c.facts)
        return (*outer, whole, y * by + a, x * by + b)

    sizes = (*batch, channels * (by * by), low, narrow)
    factors = (*((size,) for size in batch), (channels, by, by), (low,), (narrow,))
    return mapped(c, input, sizes, index_map, factors=factors)


@lower("channel_shuffle")
def lower_channel_shuffle(c: Lowering, input: Value, groups: Any) -> Value:
    count = known(groups)
    each = floordiv(input.sizes[1], count)

    def index_map(index: Index) -> Index:
        at, group = split(index[1], count, c.values.extents, c.facts)
        return (index[0], group * each + at, *index[2:])

    factors = [*input.split_sizes()]
    factors[1] = (each, count)
    return mapped(c, input, input.sizes, index_map, factors=tuple(factors))


# -- arguments -------------------------------------------------------------------------------------


def integers_of(given: Any) -> tuple[Any, ...]:
    """Integers one by one or as one sequence."""
    if len(given) == 1 and isinstance(given[0], tuple | list):
        given = given[0]
    if not all(type(each) is int or isinstance(each, Expr) for each in given):
        raise NotLowered("what is no integer")
    return tuple(given)


def known(number: Any) -> int:
    if type(number) is not int:
        raise NotLowered("a number that is not known")
    return number


# -- triangles and diagonals -----------------------------------------------------------------------


def lower_triangle(comparison: str, c: Lowering, input: Value, diagonal: Any) -> Value:
    """Of each matrix, the elements whose column compares to their row so."""
    if not (type(diagonal) is int or isinstance(diagonal, Expr)):
        raise NotLowered("a diagonal that is no integer")

    def at(index: Index) -> Scalar:
        column, limit = expr.index(index[-1]), expr.index(index[-2] + diagonal)
        found = input.at(index)
        return where(test(comparison, column, limit), found, constant_like(0, found))

    return c.values.new(input.sizes, input.dtype, at, (input,), cost=2, factors=input.factors)


lower("tril")(partial(lower_triangle, "le"))
lower("triu")(partial(lower_triangle, "ge"))


# -- gradients ------------------------------------------------------------------------------------


@gradient("flip")
def gradient_flip(grad: Term, dims: Any) -> Gradients:
    return {"input": grad.flip(list(dims))}


@gradient("fliplr", "flipud")
def gradient_fliplr(grad: Term, function: str) -> Gradients:
    return {"input": grad.call(getattr(torch, function))}


@gradient("rot90")
def gradient_rot90(grad: Term, k: Any, dims: Any) -> Gradients:
    return {"input": grad.rot90(-k, dims)}


@gradient("roll")
def gradient_roll(grad: Term, shifts: Any, dims: Any) -> Gradients:
    several = isinstance(shifts, tuple | list)
    back = [-each for each in shifts] if several else -shifts
    return {"input": grad.roll(back) if dims is None or dims in ((), []) else grad.roll(back, dims)}


@gradient("repeat")
def gradient_repeat(grad: Term, input: Term, repeats: Any) -> Gradients:
    """The sum over copies."""
    sizes = [1] * (len(repeats) - input.rank) + list(input.shape)
    pairs = [each for pair in zip(repeats, sizes, strict=True) for each in pair]
    if not pairs:
        return {"input": grad}
    return {"input": grad.reshape(pairs).sum(list(range(0, len(pairs), 2))).reshape(input.shape)}


@gradient("tile")
def gradient_tile(grad: Term, input: Term, dims: Any) -> Gradients:
    return gradient_repeat(grad, input, [*[1] * (input.rank - len(dims)), *dims])


@gradient("tril", "triu")
def gradient_tril(grad: Term, diagonal: Any, function: str) -> Gradients:
    return {"input": grad.call(getattr(torch, function), diagonal)}


@gradient("pixel_shuffle")
def gradient_pixel_shuffle(grad: Term, input: Term, upscale_factor: Any) -> Gradients:
    *batch, _, high, wide = input.shape
    factor, first = upscale_factor, len(batch)
    outer = [*batch, grad.shape[-3], high, factor, wide, factor]
    order = [*range(first + 1), first + 2, first + 4, first + 1, first + 3]
    return {"input": rearranged(grad.reshape(outer).permute(order), input.shape)}


@gradient("pixel_unshuffle")
def gradient_pixel_unshuffle(grad: Term, input: Term, downscale_factor: Any) -> Gradients:
    *batch, channels, _, _ = input.shape
    factor, first = downscale_factor, len(batch)
    outer = [*batch, channels, factor, factor, *grad.shape[-2:]]
    order = [*range(first + 1), first + 3, first + 1, first + 4, first + 2]
    return {"input": rearranged(grad.reshape(outer).permute(order), input.shape)}


@gradient("channel_shuffle")
def gradient_channel_shuffle(grad: Term, input: Term, groups: Any) -> Gradients:
    return {"input": grad.call(torch.nn.functional.channel_shuffle, input.shape[1] // groups)}


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_triangle(upper: bool, w: Writer, node: Node, input: Any, diagonal: Any) -> str:
    return w.add("Trilu", [w.name(input), w.name(diagonal, torch.int64)], upper=int(upper))


@onnx("repeat")
def onnx_repeat(w: Writer, node: Node, input: Any, repeats: Any) -> str:
    found, more = w.name(input), len(repeats) - w.rank(input)
    if more:
        found = w.add("Unsqueeze", [found, w.constant(list(range(more)))])
    return w.add("Tile", [found, w.shape(repeats)])


@onnx("flip")
def onnx_flip(w: Writer, node: Node, input: Any, dims: Any) -> str:
    axes = list(dims)
    ends = [w.constant([number] * len(axes)) for number in (-1, -END, -1)]
    return w.add("Slice", [w.name(input), *ends[:2], w.constant(axes), ends[2]])


onnx_rows(
    {
        "tril": partial(onnx_triangle, False),
        "triu": partial(onnx_triangle, True),
    }
)
