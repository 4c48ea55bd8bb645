"""The elements of a tensor at other places, or several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.aliasing import IndexMap, Rearranged
from anyshape.graph.lowerings.table import VIEWS, row
from anyshape.graph.lowerings.views import place, shifted
from anyshape.graph.values import Factors, Index, NotLowered, Value
from anyshape.loops.expr import Scalar
from anyshape.loops.reshape_indexing import merged, reshaped, split
from anyshape.ops.bind import taken_by
from anyshape.ops.meta import Meta
from anyshape.ops.meta import contiguous as contiguous_layout
from anyshape.symbolic import Expr, Size, floordiv, maximum, modulo, product

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def mapped(
    c: Lowering,
    input: Value,
    sizes: Sequence[Size],
    index_map: IndexMap,
    *,
    factors: Factors | None = None,
    cost: int = 0,
) -> Value:
    """A value of these sizes whose elements are at other places of `input`."""

    def at(index: Index) -> Scalar:
        return input.at(index_map(index))

    return c.values.new(sizes, input.dtype, at, (input,), cost=cost, factors=factors)


def in_shape(c: Lowering, input: Value, sizes: Sequence[Size]) -> Value:
    """The same elements in the same order. Loops run over the dimensions that were merged; where
    these would be divided, the elements are stored in their order first."""
    factors = merged(input.split_sizes(), sizes)
    if factors is None:
        return c.in_order(input, sizes)
    own, extents, facts = input.sizes, c.values.extents, c.facts
    return mapped(
        c,
        input,
        sizes,
        lambda index: reshaped(index, sizes, own, extents, facts),
        factors=factors,
    )


@row("reshape", "reshape_as", "flatten", "ravel", "view_copy")
def reshape(c: Lowering, input: Value, **_: Any) -> Value:
    return in_shape(c, input, c.result.shape)


# -- turned and shifted ----------------------------------------------------------------------------


def flipped(c: Lowering, input: Value, dims: Sequence[int]) -> Value:
    sizes = input.sizes

    def index_map(index: Index) -> Index:
        return tuple(
            sizes[dim] - 1 - here if dim in dims else here for dim, here in enumerate(index)
        )

    return mapped(c, input, sizes, index_map)


@row("flip")
def flip(c: Lowering, input: Value, dims: tuple[Any, ...]) -> Value:
    return flipped(c, input, [place(dim, len(input.sizes)) for dim in integers_of(dims)])


@row("fliplr")
def fliplr(c: Lowering, input: Value) -> Value:
    return flipped(c, input, [1])


@row("flipud")
def flipud(c: Lowering, input: Value) -> Value:
    return flipped(c, input, [0])


@row("rot90")
def rot90(c: Lowering, input: Value, k: Any, dims: Any) -> Value:
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


@row("roll")
def roll(c: Lowering, input: Value, shifts: Any, dims: Any) -> Value:
    moves = integers_of((shifts,))
    along = [place(dim, len(input.sizes)) for dim in integers_of((dims,))]
    if not along:
        if len(moves) != 1 or not input.sizes:
            raise NotLowered("shifts without dimensions")
        flat = in_shape(c, input, (product(input.sizes),))
        return in_shape(c, roll(c, flat, moves, 0), input.sizes)
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


def centering_row(name: str, sign: int) -> None:
    """The half of each dimension that is behind comes to the front, or back."""

    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any) -> Value:
        rank = len(input.sizes)
        given = range(rank) if dim is None else integers_of((dim,))
        for along in [place(each, rank) for each in given]:
            half = floordiv(input.sizes[along] + (1 if sign < 0 else 0), 2)
            input = shifted_around(c, input, along, half)
        return input


centering_row("fft.fftshift", 1)
centering_row("fft.ifftshift", -1)


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


@row("repeat")
def repeat(c: Lowering, input: Value, repeats: tuple[Any, ...]) -> Value:
    return repeated(c, input, integers_of(repeats))


@row("tile")
def tile(c: Lowering, input: Value, dims: tuple[Any, ...]) -> Value:
    times = integers_of(dims)
    return repeated(c, input, (*(1,) * (len(input.sizes) - len(times)), *times))


@row("repeat_interleave")
def repeat_interleave(
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


# -- channels and space ----------------------------------------------------------------------------


@row("pixel_shuffle")
def pixel_shuffle(c: Lowering, input: Value, upscale_factor: Any) -> Value:
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


@row("pixel_unshuffle")
def pixel_unshuffle(c: Lowering, input: Value, downscale_factor: Any) -> Value:
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


@row("channel_shuffle")
def channel_shuffle(c: Lowering, input: Value, groups: Any) -> Value:
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


# -- copies of views -------------------------------------------------------------------------------


def copy_row(name: str) -> None:
    """A fresh tensor where the view of that name would do; one that is told by its sizes."""

    @row(f"{name}_copy")
    def lowered(c: Lowering, input: Value, **named: Any) -> Value:
        rank = len(input.sizes)
        base = Meta(input.sizes, c.result.dtype, contiguous_layout(rank), c.result.device)
        index_map = VIEWS[name](c, base, **taken_by(VIEWS[name], named))
        factors = None
        if isinstance(index_map, Rearranged):
            factors = index_map.factors(input.split_sizes())
            if factors is None:
                raise NotLowered("sizes that would have to be divided")
        return mapped(c, input, c.result.shape, index_map, factors=factors)


for _name in ["expand", "permute", "squeeze", "t", "transpose", "unsqueeze"]:
    copy_row(_name)
