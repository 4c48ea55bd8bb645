"""Batch norm by the statistics of the batch, and these: its gradient and running statistics need
them."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.ops.families.normalization import by_channel, inverse_deviation, must_be_float, scaled
from anyshape.ops.families.reductions import count, deviations, divided_by
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.pointwise_builder import as_dtype
from anyshape.ops.lowering.scalars import wide
from anyshape.ops.lowering.values import Lowering, Value, must_be_known
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, gradient, lower
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, product


def batch_norm_with_statistics(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The result, and the mean and variance of each channel; other dimensions are of size 1."""
    dims = dims_of_batch(input.dim())
    source = input.to(dtype_of_statistics(input.dtype))
    mean = source.mean(dims, True)
    variance = (source - mean).square().mean(dims, True)  # `var` warns of nothing
    result = (source - mean) * (variance + eps).rsqrt()
    shape = [1, -1, *(1 for _ in dims[1:])]
    if weight is not None:
        result = result * weight.view(shape)
    if bias is not None:
        result = result + bias.view(shape)
    return result.to(input.dtype), mean, variance


def dims_of_batch(rank: int) -> list[int]:
    """All dimensions but that of the channels."""
    return [0, *range(2, rank)]


def dtype_of_statistics(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype is torch.float64 else torch.float32


def values_of_channel(input: Meta) -> Size:
    """How many values a channel has."""
    return product([input.shape[dim] for dim in dims_of_batch(input.rank)])


def _batch_norm_with_statistics(
    q: ShapeQuery, input: Meta, weight: Meta | None, bias: Meta | None, eps: float
) -> tuple[Meta, Meta, Meta]:
    shape = (1, input.shape[1], *(1 for _ in input.shape[2:]))
    statistics = input.like(shape, dtype_of_statistics(input.dtype))
    return input.like(layout=kept_format(q, input)), statistics, statistics


ROWS: tuple[Op, ...] = (
    Op(
        "batch_norm_with_statistics",
        (f"{__name__}.batch_norm_with_statistics",),
        _batch_norm_with_statistics,
        OpKind.REDUCTION,
    ),
)


@lower("batch_norm_with_statistics")
def lower_batch_norm_with_statistics(
    c: Lowering, input: Value, weight: Value | None, bias: Value | None, eps: Any
) -> tuple[Value, Value, Value]:
    must_be_float(input)
    source = as_dtype(c, input, wide(input.dtype))
    rank = len(input.sizes)
    dims = dims_of_batch(rank)
    mean, squares = deviations(c, source, dims)
    variance = divided_by(c, squares, count(input.sizes, dims))
    inverse = inverse_deviation(c, variance, must_be_known(eps))
    scales = (by_channel(c, each, rank) for each in (weight, bias))
    made = scaled(c, source, mean, inverse, *scales)
    return as_dtype(c, made, input.dtype), mean, variance


@gradient("batch_norm_with_statistics")
def gradient_batch_norm(
    grad: dict[int, Term],
    parts: dict[int, Term],
    input: Term,
    weight: Term | None,
    bias: Term | None,
    eps: float,
) -> Gradients:
    mean, inverse = parts[1], (parts[2] + eps).rsqrt()
    dims = dims_of_batch(input.rank)
    own = grad[0].to(mean.dtype) if grad[0].dtype is not mean.dtype else grad[0]
    normal = (input - mean) * inverse
    of_bias = own.sum(dims, True)
    of_weight = (own * normal).sum(dims, True)
    scale = inverse
    if weight is not None:
        scale = inverse * weight.reshape(mean.shape)
    share = (of_bias + normal * of_weight) / values_of_channel(input.meta)
    given: Gradients = {"input": (own - share) * scale}
    channels = (input.shape[1],)
    if weight is not None:
        given["weight"] = of_weight.reshape(channels)
    if bias is not None:
        given["bias"] = of_bias.reshape(channels)
    return given
