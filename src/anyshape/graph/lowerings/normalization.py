"""Norms of layers: statistics of a row, and the row in their terms. One kernel each.

Statistics are in f32 for floats of two bytes, and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from anyshape.graph.lowerings.pointwise import constant_like, op
from anyshape.graph.lowerings.reductions import as_dtype, deviations, divided_by, from_zero, rounded
from anyshape.graph.lowerings.reductions import count as count_of
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import TORCH_DTYPES, elementwise, short, wide
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.loops.reshape_indexing import split
from anyshape.symbolic import Size

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def require_float(input: Value) -> None:
    if input.dtype not in FLOATS:
        raise NotLowered("the norm of integers")


def number(eps: Any) -> float:
    if not isinstance(eps, int | float):
        raise NotLowered("a number that is computed")
    return eps


def moments(c: Lowering, input: Value, dims: list[int], eps: float) -> tuple[Value, Value]:
    """The mean, and 1 over the root of the variance and `eps`; dimensions are kept."""
    middle, squares = deviations(c, input, dims)
    dtype = squares.dtype
    variance = divided_by(c, squares, count_of(input.sizes, dims))

    def inverse(x: Scalar) -> Scalar:
        root = op("sqrt", op("add", x, constant_like(eps, x)))
        return op("div", constant_like(1, x), root)

    return middle, elementwise(c, inverse, variance, takes=dtype, gives=dtype, cost=4)


def scaled(
    c: Lowering, input: Value, middle: Value, inverse: Value, weight: Any, bias: Any
) -> Value:
    """`(input - middle) * inverse * weight + bias`; the last two may be None."""
    given = [each for each in (weight, bias) if each is not None]
    dtype = middle.dtype

    def compute(x: Scalar, m: Scalar, r: Scalar, *scales: Scalar) -> Scalar:
        left = list(scales)
        x = op("mul", op("sub", x, m), r)
        if weight is not None:
            x = op("mul", x, left.pop(0))
        return x if bias is None else op("add", x, left.pop(0))

    return elementwise(c, compute, input, middle, inverse, *given, takes=dtype, gives=dtype, cost=4)


# -- over the last dimensions ---------------------------------------------------------------------


def _layer_norm(
    c: Lowering, input: Value, normalized_shape: Sequence[Size], weight: Any, bias: Any, eps: Any
) -> tuple[Value, Value, Value]:
    require_float(input)
    rank = len(input.sizes)
    dims = list(range(rank - len(normalized_shape), rank))
    source = as_dtype(c, input, wide(input.dtype))
    middle, inverse = moments(c, source, dims, number(eps))
    made = scaled(c, source, middle, inverse, weight, bias)
    if bias is None:
        made = from_zero(c, made)  # as torch adds a bias of 0
    return rounded(c, made, input.dtype), middle, inverse


@row("layer_norm")
def layer_norm(
    c: Lowering,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: Any,
    cudnn_enable: bool,
) -> Value:
    return _layer_norm(c, input, normalized_shape, weight, bias, eps)[0]


@row("native_layer_norm")
def native_layer_norm(
    c: Lowering,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: Any,
) -> Any:
    made, middle, inverse = _layer_norm(c, input, normalized_shape, weight, bias, eps)
    stats = (as_dtype(c, each, short(c.result[1].dtype)) for each in (middle, inverse))
    return (made, *stats)


@row("rms_norm")
def rms_norm(
    c: Lowering,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    eps: Any,
) -> Value:
    require_float(input)
    rank = len(input.sizes)
    dims = list(range(rank - len(normalized_shape), rank))
    source = as_dtype(c, input, wide(input.dtype))
    dtype = source.dtype
    eps = torch.finfo(TORCH_DTYPES[dtype]).eps if eps is None else number(eps)
    squares = elementwise(c, lambda x: op("mul", x, x), source, takes=dtype, gives=dtype)
    whole = c.values.reduction("sum", squares, dims, dtype, keep=True)
    mean = divided_by(c, whole, count_of(input.sizes, dims))

    def compute(x: Scalar, m: Scalar, *scale: Scalar) -> Scalar:
        x = op("mul", x, op("rsqrt", op("add", m, constant_like(eps, m))))
        return op("mul", x, scale[0]) if scale else x

    given = () if weight is None else (weight,)
    made = elementwise(c, compute, source, mean, *given, takes=dtype, gives=dtype, cost=6)
    return rounded(c, made, input.dtype)


# -- by channels ----------------------------------------------------------------------------------


def by_channel(c: Lowering, scale: Value | None, rank: int) -> Value | None:
    """One value a channel, beside a tensor of this rank."""
    if scale is None:
        return None
    sizes = (1, *scale.sizes, *(1,) * (rank - 2))
    return c.values.new(sizes, scale.dtype, lambda index: scale.at((index[1],)), (scale,))


def _group_norm(
    c: Lowering, input: Value, groups: Size, weight: Value | None, bias: Value | None, eps: Any
) -> tuple[Value, Value, Value]:
    """In groups: (batch, group, channel of the group, position)."""
    require_float(input)
    batch, channels, *inner = input.sizes
    many = channels // groups
    spread = (batch, groups, many, *inner)
    source = as_dtype(c, input, wide(input.dtype))
    extents, facts = c.values.extents, c.facts

    def grouped(index: Index) -> Scalar:
        n, g, k, *rest = index
        return source.at((n, g * many + k, *rest))

    apart = c.values.new(spread, source.dtype, grouped, (source,))
    middle, inverse = moments(c, apart, list(range(2, len(spread))), number(eps))

    def of_channel(scale: Value | None) -> Value | None:
        if scale is None:
            return None
        sizes = (1, groups, many, *(1,) * len(inner))
        return c.values.new(
            sizes, scale.dtype, lambda index: scale.at((index[1] * many + index[2],)), (scale,)
        )

    made = scaled(c, apart, middle, inverse, of_channel(weight), of_channel(bias))

    def together(index: Index) -> Scalar:
        n, channel, *rest = index
        group, k = split(channel, many, extents, facts)
        return made.at((n, group, k, *rest))

    factors = ((batch,), (groups, many), *((size,) for size in inner))
    whole = c.values.new(input.sizes, made.dtype, together, (made,), factors=factors)
    return rounded(c, whole, input.dtype), middle, inverse


@row("group_norm", "functional_group_norm")
def group_norm(
    c: Lowering,
    input: Value,
    num_groups: Size,
    weight: Value | None,
    bias: Value | None,
    eps: Any,
    **_: Any,
) -> Value:
    return _group_norm(c, input, num_groups, weight, bias, eps)[0]


@row("batch_norm")
def batch_norm(
    c: Lowering,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: Any,
    eps: Any,
    **_: Any,
) -> Value:
    """With given statistics: a factor and a summand for each channel, as torch does it."""
    require_float(input)
    if training is not False or running_mean is None or running_var is None:
        raise NotLowered("statistics are updated")
    if len(input.sizes) < 2:
        raise NotLowered("an input without channels")
    rank, dtype, least = len(input.sizes), wide(input.dtype), number(eps)
    mean, var, scale, shift = (
        by_channel(c, each, rank) for each in (running_mean, running_var, weight, bias)
    )
    assert mean is not None
    assert var is not None

    def factor(v: Scalar, *w: Scalar) -> Scalar:
        root = op("sqrt", op("add", v, constant_like(least, v)))
        inverse = op("div", constant_like(1, v), root)
        return op("mul", inverse, w[0]) if w else inverse

    scales = [] if scale is None else [scale]
    times = elementwise(c, factor, var, *scales, takes=dtype, gives=dtype, cost=4)
    shifts = [] if shift is None else [shift]

    def summand(m: Scalar, a: Scalar, *b: Scalar) -> Scalar:
        start = b[0] if b else constant_like(0, m)
        return op("sub", start, op("mul", m, a))

    plus = elementwise(c, summand, mean, times, *shifts, takes=dtype, gives=dtype, cost=2)
    made = elementwise(
        c,
        lambda x, a, b: op("add", op("mul", x, a), b),
        input,
        times,
        plus,
        takes=dtype,
        gives=dtype,
        cost=2,
    )
    return rounded(c, made, input.dtype)


@row("functional_batch_norm")
def functional_batch_norm(
    c: Lowering,
    input: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: Any,
    eps: Any,
) -> Value:
    return batch_norm(c, input, weight, bias, running_mean, running_var, training, momentum, eps)


@row("functional_instance_norm")
def functional_instance_norm(
    c: Lowering,
    input: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None,
    bias: Value | None,
    use_input_stats: bool,
    momentum: Any,
    eps: Any,
) -> Value:
    require_float(input)
    if running_mean is not None or running_var is not None or use_input_stats is not True:
        raise NotLowered("statistics are updated")
    rank = len(input.sizes)
    if rank < 3 or input.dtype in HALVES:
        # Torch rounds the statistics of floats of two bytes.
        raise NotLowered("an input without positions, or of two bytes")
    source = as_dtype(c, input, wide(input.dtype))
    middle, inverse = moments(c, source, list(range(2, rank)), number(eps))
    made = scaled(
        c, source, middle, inverse, by_channel(c, weight, rank), by_channel(c, bias, rank)
    )
    return rounded(c, made, input.dtype)


@row("instance_norm")
def instance_norm(
    c: Lowering,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: Any,
    eps: Any,
    **_: Any,
) -> Value:
    return functional_instance_norm(
        c, input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )
