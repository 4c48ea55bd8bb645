"""Order statistics, histograms and covariance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.families.reductions import (
    along,
    reduced,
    require_elements,
    require_float,
    shared,
    to_place,
)
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.op import Op, OpKind, Rule, gradient, names_of
from anyshape.ops.promotion import floating, join
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, ge, gt, le, ne


def median(
    q: ShapeQuery, input: Meta, dim: int | None = None, keepdim: bool = False
) -> Meta | tuple[Meta, Meta]:
    # Of all elements it is defined for nothing too (a nan), along a dimension it is not.
    return input.like(()) if dim is None else along(q, input, dim, keepdim)


def mode(q: ShapeQuery, input: Meta, dim: int = -1, keepdim: bool = False) -> tuple[Meta, Meta]:
    return along(q, input, dim, keepdim)


def kthvalue(
    q: ShapeQuery, input: Meta, k: Size, dim: int = -1, keepdim: bool = False
) -> tuple[Meta, Meta]:
    result = along(q, input, dim, keepdim)
    size = input.shape[q.dim(dim, input.rank)] if input.shape else 1
    q.require(and_(ge(k, 1), le(k, size)), "k counts from 1 to the size of the dimension")
    return result


# The first parameter is not called `q` here, because torch has a parameter of that name.
def quantile(
    questions: ShapeQuery,
    input: Meta,
    q: Meta | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Meta:
    require_float(questions, input.dtype)
    if isinstance(q, Meta) and (q.rank > 1 or q.dtype != input.dtype):
        raise questions.fail("the quantiles must be a number or a vector of the input's dtype")
    dims = questions.dims(dim, input.rank)
    require_elements(questions, input, range(input.rank))
    rest = reduced(input.shape, dims, keepdim)
    if not isinstance(q, Meta) or not q.shape:
        return input.like(rest)
    # The quantiles are computed innermost and then moved to the front.
    shape = (q.shape[0], *rest)
    return input.like(shape, layout=Dense((*range(1, len(shape)), 0)))


def histc(q: ShapeQuery, input: Meta, bins: Size = 100, min: Any = 0, max: Any = 0) -> Meta:
    require_float(q, input.dtype)
    q.require(gt(bins, 0), "there must be at least one bin")
    return input.like((bins,))


def histogram(
    q: ShapeQuery,
    input: Meta,
    bins: Size | Meta,
    *,
    range: Any = None,
    weight: Meta | None = None,
    density: bool = False,
) -> tuple[Meta, Meta]:
    require_float(q, input.dtype)
    _require_weights(q, input.shape, weight)
    count, edges = _bins(q, input, bins)
    return input.like((count,)), edges


def histogramdd(
    q: ShapeQuery,
    input: Meta,
    bins: Size | Sequence[Size | Meta],
    range: Any = None,
    weight: Meta | None = None,
    density: bool = False,
) -> tuple[Meta, tuple[Meta, ...]]:
    require_float(q, input.dtype)
    if input.rank < 2:
        raise q.fail("the last of two or more dimensions holds the coordinates of a point")
    coordinates = q.count(input.shape[-1], "there is a dimension of bins for each coordinate")
    each = tuple(bins) if isinstance(bins, tuple | list) else (bins,) * coordinates
    if len(each) != coordinates:
        raise q.fail(f"{len(each)} dimensions of bins for points of {coordinates} coordinates")
    _require_weights(q, input.shape[:-1], weight)
    found = [_bins(q, input, one) for one in each]  # pyright: ignore[reportArgumentType] one of the sequence
    # Edges that are given come back themselves.
    edges = (
        one if isinstance(one, Meta) else made for one, (_, made) in zip(each, found, strict=True)
    )
    return input.like(tuple(count for count, _ in found)), tuple(edges)


def _bins(q: ShapeQuery, input: Meta, bins: Size | Meta) -> tuple[Size, Meta]:
    """The number of bins and their edges."""
    count = bins.shape[0] - 1 if isinstance(bins, Meta) else bins
    q.require(gt(count, 0), "there must be at least one bin")
    return count, input.like((count + 1,))


def _require_weights(q: ShapeQuery, shape: tuple[Size, ...], weight: Meta | None) -> None:
    if weight is None:
        return
    if weight.rank != len(shape):
        raise q.fail("there must be one weight for each value")
    for size, wanted in zip(weight.shape, shape, strict=True):
        q.require(eq(size, wanted), "there must be one weight for each value")


def covariance(
    q: ShapeQuery,
    input: Meta,
    *,
    correction: int = 1,
    fweights: Meta | None = None,
    aweights: Meta | None = None,
) -> Meta:
    """cov, corrcoef: variables are rows, observations columns."""
    if input.rank > 2 or input.dtype is torch.bool:
        raise q.fail("a matrix or a vector of numbers is needed")
    observations = input.shape[-1] if input.shape else 1
    for weights in (fweights, aweights):
        if weights is not None:
            if weights.rank > 1:
                raise q.fail("weights must be a vector")
            have = weights.shape[0] if weights.shape else 1
            q.require(eq(have, observations), "there must be one weight for each observation")
            q.require(ne(observations, 0), "weights may not sum to 0")
    shape: tuple[Size, ...] = ()
    if input.rank == 2 and not q.decide(
        eq(input.shape[0], 1), "one variable has a variance, not a matrix"
    ):
        shape = (input.shape[0], input.shape[0])
    dtype = floating(input.dtype)
    if aweights is not None and join(dtype, aweights.dtype) != dtype:
        if fweights is None:
            q.require(ne(observations, 1), "wider weights need more than one observation")
        dtype = join(dtype, aweights.dtype)
    return input.like(shape, dtype)


def _row(name: str, rule: Rule, lowering: OpKind = OpKind.CALL_OUT) -> Op:
    return Op(name, names_of(name), rule, lowering)


ROWS: tuple[Op, ...] = (
    _row("median", median),
    _row("nanmedian", median),
    _row("mode", mode),
    _row("kthvalue", kthvalue),
    _row("quantile", quantile),
    _row("nanquantile", quantile),
    Op("histc", names_of("histc"), histc, OpKind.CALL_OUT, differentiable=False),
    _row("histogram", histogram),
    Op("histogramdd", ("torch.histogramdd",), histogramdd, OpKind.CALL_OUT),
    _row("cov", covariance),
    _row("corrcoef", covariance),
)


# -- gradients ------------------------------------------------------------------------------------


@gradient("median", "nanmedian", "mode", "kthvalue")
def gradient_median(
    grad: Any, result: Any, parts: dict[int, Term], input: Term, dim: Any, keepdim: bool
) -> Gradients:
    if dim is None:
        return {"input": shared(grad, input, result)}
    return {"input": to_place(grad[0], parts[1], input, dim, keepdim)}
