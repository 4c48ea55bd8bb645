"""The elements of a tensor at other places, or several times: flip, roll, rotate, repeat, and
channels moved into space and back.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.ops.memory_format import is_channels_last, kept_format
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, Rule, in_place_names, names_of
from anyshape.ops.rules.index_operators import cloned
from anyshape.ops.rules.reshaping import sizes_of
from anyshape.ops.rules.views import transposed
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size, and_, eq, ge, gt, maximum, ne, or_


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


def _row(name: str, rule: Rule, *also: str, in_place: tuple[str, ...] = ()) -> Op:
    return Op(name, names_of(name, also), rule, OpKind.INDEX_MAP, in_place=in_place)


_F, _NN = "torch.nn.functional.", "torch._C._nn."
ROWS: tuple[Op, ...] = (
    _row("flip", flip),
    _row("fliplr", fliplr),
    _row("flipud", flipud),
    Op("reversed", ("torch.Tensor.__reversed__",), backwards, OpKind.INDEX_MAP),
    _row("rot90", rot90),
    _row("roll", roll),
    _row("repeat", repeat),
    _row("tile", tile),
    _row("tril", triangle, in_place=in_place_names("tril")),
    _row("triu", triangle, in_place=in_place_names("triu")),
    _row("pixel_shuffle", pixel_shuffle, _F + "pixel_shuffle"),
    _row("pixel_unshuffle", pixel_unshuffle, _F + "pixel_unshuffle"),
    _row(
        "channel_shuffle", channel_shuffle,
        "torch.native_channel_shuffle", _F + "channel_shuffle", _F + "native_channel_shuffle",
    ),
    _row("im2col", im2col, _F + "unfold", _NN + "im2col"),
    _row("col2im", col2im, _F + "fold", _NN + "col2im"),
)  # fmt: skip
