"""Batch norm and group norm in training, in two parts: the statistics, and what is computed of them
element by element. The gradient and what runs along need the former, and the latter need not be
kept."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.ops.families.normalization import by_channel, must_be_float, scaled
from anyshape.ops.families.reductions import count, deviations, divided_by
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.pointwise_builder import as_dtype
from anyshape.ops.lowering.scalars import wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, gradient, lower
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, product


def batch_statistics(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and variance of each channel; other dimensions are of size 1."""
    dims = dims_of_batch(input.dim())
    source = input.to(dtype_of_statistics(input.dtype))
    mean = source.mean(dims, True)
    return mean, (source - mean).square().mean(dims, True)  # `var` warns of nothing


def sum_of_groups(input: torch.Tensor, groups: int) -> torch.Tensor:
    """The sum over each group of channels, of an input with one number a channel. It is repeated
    for every channel of the group, so that a kernel over an image reads it by channel, with unit
    stride."""
    batch, channels = input.shape[:2]
    apart = input.reshape(batch, groups, channels // groups)
    return apart.sum(2, keepdim=True).expand_as(apart).reshape(input.shape)


def precomputed(input: torch.Tensor) -> torch.Tensor:
    """A copy that is materialized: native code would otherwise fuse what gives the input into the
    kernel that reads it, and compute it for every pixel."""
    return input.clone()


def normalized(
    input: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    groups: int,
) -> torch.Tensor:
    """The input normalized by the given mean and inverse deviation, scaled and shifted. `groups`:
    how many groups of channels of an image had statistics (group norm); 0: each channel of the
    batch had (batch norm)."""
    result = (input.to(mean.dtype) - mean) * inverse
    shape = [1, -1, *(1 for _ in input.shape[2:])]
    if weight is not None:
        result = result * weight.view(shape)
    if bias is not None:
        result = result + bias.view(shape)
    return result.to(input.dtype)


def dims_of_batch(rank: int) -> list[int]:
    """All dimensions but that of the channels."""
    return [0, *range(2, rank)]


def dtype_of_statistics(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype is torch.float64 else torch.float32


def values_of_channel(input: Meta) -> Size:
    """How many values a channel has."""
    return product([input.shape[dim] for dim in dims_of_batch(input.rank)])


def values_of_group(input: Meta, groups: int) -> Size:
    """How many values a group of channels of one image has."""
    return product([input.shape[1] // groups, *input.shape[2:]])


def _batch_statistics(q: ShapeQuery, input: Meta) -> tuple[Meta, Meta]:
    shape = (1, input.shape[1], *(1 for _ in input.shape[2:]))
    statistics = input.like(shape, dtype_of_statistics(input.dtype))
    return statistics, statistics


def _sum_of_groups(q: ShapeQuery, input: Meta, groups: int) -> Meta:
    return input.like()


def _precomputed(q: ShapeQuery, input: Meta) -> Meta:
    return input.like()


def _normalized(
    q: ShapeQuery,
    input: Meta,
    mean: Meta,
    inverse: Meta,
    weight: Meta | None,
    bias: Meta | None,
    groups: int,
) -> Meta:
    return input.like(layout=kept_format(q, input))


ROWS: tuple[Op, ...] = (
    *(
        Op(name, (f"{__name__}.{name}",), rule, OpKind.REDUCTION)
        for name, rule in (
            ("batch_statistics", _batch_statistics),
            ("sum_of_groups", _sum_of_groups),
            ("precomputed", _precomputed),
        )
    ),
    Op("normalized", (f"{__name__}.normalized",), _normalized, OpKind.POINTWISE),
)


# -- native code ----------------------------------------------------------------------------------


@lower("batch_statistics")
def lower_batch_statistics(c: Lowering, input: Value) -> tuple[Value, Value]:
    must_be_float(input)
    dims = dims_of_batch(len(input.sizes))
    mean, squares = deviations(c, input, dims)
    return mean, divided_by(c, squares, count(input.sizes, dims))


@lower("sum_of_groups")
def lower_sum_of_groups(c: Lowering, input: Value, groups: Any) -> Value:
    batch, channels, *rest = input.sizes
    if type(groups) is not int or any(size != 1 for size in rest):
        raise NotLowered("more than a number for each channel")
    many = channels // groups
    ones = (0,) * len(rest)

    def apart(index: Index) -> Any:
        n, group, k = index
        return input.at((n, group * many + k, *ones))

    grouped = c.values.new((batch, groups, many), input.dtype, apart, (input,))
    sums = c.values.reduction("sum", grouped, [2], input.dtype, keep=False)
    c.materialize(sums)

    def spread(index: Index) -> Any:
        n, group, _ = index
        return sums.at((n, group))

    return c.in_order(
        c.values.new((batch, groups, many), input.dtype, spread, (sums,)), input.sizes
    )


@lower("precomputed")
def lower_precomputed(c: Lowering, input: Value) -> Value:
    made = c.values.new(input.sizes, input.dtype, input.at, (input,))
    c.materialize(made, c.result)
    return made


@lower("normalized")
def lower_normalized(
    c: Lowering,
    input: Value,
    mean: Value,
    inverse: Value,
    weight: Value | None,
    bias: Value | None,
    groups: Any,
) -> Value:
    must_be_float(input)
    rank = len(input.sizes)
    source = as_dtype(c, input, wide(input.dtype))
    scales = (by_channel(c, each, rank) for each in (weight, bias))
    return as_dtype(c, scaled(c, source, mean, inverse, *scales), input.dtype)


# -- gradients ------------------------------------------------------------------------------------


@gradient("normalized")
def gradient_normalized(
    grad: Term,
    input: Term,
    mean: Term,
    inverse: Term,
    weight: Term | None,
    bias: Term | None,
    groups: int,
) -> Gradients:
    """The mean and the inverse deviation are functions of the input: their gradients are part of
    the gradient of the input, and not given apart."""
    own = grad.to(mean.dtype) if grad.dtype is not mean.dtype else grad
    away = input - mean
    dims = list(range(2, input.rank)) if groups else dims_of_batch(input.rank)
    of_bias = own.sum(dims, True)
    # Of nothing the deviation is no number, and the sum is 0.
    of_weight = (own * (away * inverse)).sum(dims, True)
    channels = (input.shape[1],)
    found: Gradients = {}
    if weight is not None:
        found["weight"] = _of_channels(of_weight, channels)
    if bias is not None:
        found["bias"] = _of_channels(of_bias, channels)
    # How much of it all of those together take back that share statistics.
    if groups:
        if weight is not None:
            scale = weight.reshape([1, input.shape[1], *[1] * (input.rank - 2)])
            own, of_bias, of_weight = own * scale, of_bias * scale, of_weight * scale
        of_bias, of_weight = (each.call(sum_of_groups, groups) for each in (of_bias, of_weight))
        number = values_of_group(input.meta, groups)
    else:
        number = values_of_channel(input.meta)
    start, slope = (
        each.call(precomputed) for each in (of_bias / number, of_weight * inverse / number)
    )
    if weight is not None and not groups:
        inverse = (inverse * weight.reshape(mean.shape)).call(precomputed)
    found["input"] = (own - start - away * slope) * inverse
    return found


def _of_channels(of: Term, channels: tuple[Size, ...]) -> Term:
    return of.sum([0]).reshape(channels) if of.shape[0] != 1 else of.reshape(channels)
