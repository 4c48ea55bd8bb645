"""Reductions over dimensions: sums, logic, moments, extremes.

Torch allocates the result of a reduction contiguous, whatever the layout of its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, Rule, names_of
from anyshape.ops.promotion import Number, category, floating, real
from anyshape.ops.rules.pointwise import DtypeRule, elementwise, same
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, eq, ne

Dims = int | Sequence[int] | None


def reduced(shape: tuple[Size, ...], dims: Sequence[int], keepdim: bool) -> tuple[Size, ...]:
    """The shape with these dimensions gone, or 1."""
    if not shape:
        return ()
    if keepdim:
        return tuple(1 if dim in dims else size for dim, size in enumerate(shape))
    return tuple(size for dim, size in enumerate(shape) if dim not in dims)


def dims_or_all(q: ShapeQuery, dim: Dims, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce; no dimension at all means every one, as for most reductions."""
    if dim is None or (not isinstance(dim, int) and not dim):
        return tuple(range(rank))
    return q.dims(dim, rank)


def require_elements(q: ShapeQuery, input: Meta, dims: Sequence[int]) -> None:
    """The operator has no value for nothing: none of these dimensions may be empty."""
    for dim in dims:
        if dim < input.rank:
            q.require(ne(input.shape[dim], 0), f"dimension {dim} is reduced, and may not be empty")


def whole(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a sum: integers are summed in 64 bits."""
    return dtype if category(dtype) >= 2 else torch.int64


def truth(dtype: torch.dtype) -> torch.dtype:
    """The dtype of `any` and `all`: bool, except that bytes stay bytes."""
    return torch.uint8 if dtype is torch.uint8 else torch.bool


def counted(dtype: torch.dtype) -> torch.dtype:
    return torch.int64


def require_float(q: ShapeQuery, dtype: torch.dtype) -> None:
    if category(dtype) < 2:
        raise q.fail(f"only floating point and complex tensors are accepted, not {dtype}")


def _fold(result: DtypeRule, floats: bool = False) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
    ) -> Meta:
        found = result(input.dtype) if dtype is None else dtype
        if floats:
            require_float(q, found)
        return input.like(reduced(input.shape, dims_or_all(q, dim, input.rank), keepdim), found)

    return rule


def any_all(q: ShapeQuery, input: Meta, dim: Dims = None, keepdim: bool = False) -> Meta:
    # Unlike the others, an empty tuple reduces nothing here.
    dims = q.dims(dim, input.rank)
    return input.like(reduced(input.shape, dims, keepdim), truth(input.dtype))


def logsumexp(q: ShapeQuery, input: Meta, dim: Dims, keepdim: bool = False) -> Meta:
    if input.rank and not isinstance(dim, int) and not dim:
        raise q.fail("the dimensions to reduce must be given")
    return input.like(reduced(input.shape, q.dims(dim, input.rank), keepdim), floating(input.dtype))


def extreme_values(q: ShapeQuery, input: Meta, dim: Dims = (), keepdim: bool = False) -> Meta:
    """amax, amin."""
    dims = dims_or_all(q, dim, input.rank)
    require_elements(q, input, dims)
    return input.like(reduced(input.shape, dims, keepdim))


def hash_tensor(
    q: ShapeQuery, input: Meta, dim: Dims = (), *, keepdim: bool = False, mode: int = 0
) -> Meta:
    return replace(extreme_values(q, input, dim, keepdim), dtype=torch.uint64)


def extreme_index(
    q: ShapeQuery, input: Meta, dim: int | None = None, keepdim: bool = False
) -> Meta:
    """argmax, argmin."""
    dims = q.dims(dim, input.rank)
    require_elements(q, input, dims)
    return input.like(reduced(input.shape, dims, keepdim), torch.int64)


def aminmax(
    q: ShapeQuery, input: Meta, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Meta, Meta]:
    dims = q.dims(dim, input.rank)
    require_elements(q, input, dims)
    result = input.like(reduced(input.shape, dims, keepdim))
    return result, result


def extremum(
    q: ShapeQuery,
    input: Meta | Number,
    dim: Meta | int | None = None,
    keepdim: bool = False,
    *,
    other: Meta | None = None,
) -> Meta | tuple[Meta, Meta]:
    """max, min: of all, along a dimension with the positions, or of two tensors."""
    other = dim if isinstance(dim, Meta) else other
    if other is not None or not isinstance(input, Meta):
        assert other is not None, "a number is compared with a tensor"
        return elementwise(q, (input, other), same)
    if dim is None:
        require_elements(q, input, range(input.rank))
        return input.like(())
    assert isinstance(dim, int | Expr), "the other meanings are dealt with"
    return along(q, input, q.dim(dim, input.rank), keepdim)


def along(q: ShapeQuery, input: Meta, dim: int, keepdim: bool) -> tuple[Meta, Meta]:
    """Values along a dimension that may not be empty, with their positions."""
    dims = (q.dim(dim, input.rank),)
    require_elements(q, input, dims)
    shape = reduced(input.shape, dims, keepdim)
    return input.like(shape), input.like(shape, torch.int64)


def _moments(with_mean: bool) -> Rule:
    """var, std; with `with_mean` also the mean, which stays complex where the input is."""

    def rule(
        q: ShapeQuery,
        input: Meta,
        dim: Dims | bool = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: Number | None = None,
    ) -> Meta | tuple[Meta, Meta]:
        require_float(q, input.dtype)
        # var(input, True): a single flag is `unbiased`, not a dimension.
        dims = dims_or_all(q, None if isinstance(dim, bool) else dim, input.rank)
        shape = reduced(input.shape, dims, keepdim)
        spread = input.like(shape, real(input.dtype))
        return (spread, input.like(shape)) if with_mean else spread

    return rule


def trace(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank != 2:
        raise q.fail(f"a matrix is needed, not a tensor of {input.rank} dimensions")
    return input.like((), whole(input.dtype))


def sum_to_size(q: ShapeQuery, input: Meta, *size: Any) -> Meta:
    listed = len(size) == 1 and isinstance(size[0], tuple | list)
    wanted: tuple[Size, ...] = tuple(size[0]) if listed else size
    missing = input.rank - len(wanted)
    if missing < 0:
        raise q.fail(f"{len(wanted)} sizes are too many for a tensor of {input.rank} dimensions")
    # Where nothing is summed the tensor itself comes back: in its own layout and its own dtype.
    alike = input.is_contiguous and whole(input.dtype) == input.dtype
    summed = missing > 0 or not wanted
    for have, want in zip(input.shape[missing:], wanted, strict=True):
        if have == want:
            continue
        if _is_one(q, have, want):
            summed = summed or alike or q.decide(ne(have, 1), "a size of 1 needs no sum")
        else:
            q.require(eq(have, want), "a size is summed to 1 or kept")
    return input.like(wanted, whole(input.dtype)) if summed else input


def _is_one(q: ShapeQuery, have: Size, want: Size) -> bool:
    """Whether a size is to become 1; one that is 1 now, where the other is not, must stay 1."""
    if want == 1 or q.facts.hint(want) != 1 or q.facts.hint(have) == 1:
        return want == 1
    return q.decide(eq(want, 1), "a size is summed to 1")


def _row(name: str, rule: Rule, also: tuple[str, ...] = ()) -> Op:
    return Op(name, names_of(name, also), rule, OpKind.REDUCTION)


ROWS: tuple[Op, ...] = (
    _row("sum", _fold(whole)),
    _row("prod", _fold(whole)),
    _row("nansum", _fold(whole)),
    _row("count_nonzero", _fold(counted)),
    _row("hash_tensor", hash_tensor),
    _row("mean", _fold(same, floats=True)),
    _row("nanmean", _fold(same, floats=True)),
    _row("any", any_all),
    _row("all", any_all),
    _row("logsumexp", logsumexp, ("torch.special.logsumexp",)),
    _row("amax", extreme_values),
    _row("amin", extreme_values),
    _row("argmax", extreme_index),
    _row("argmin", extreme_index),
    _row("aminmax", aminmax),
    _row("max", extremum),
    _row("min", extremum),
    _row("var", _moments(with_mean=False)),
    _row("std", _moments(with_mean=False)),
    _row("var_mean", _moments(with_mean=True)),
    _row("std_mean", _moments(with_mean=True)),
    _row("trace", trace),
    Op("sum_to_size", ("torch.Tensor.sum_to_size",), sum_to_size, OpKind.REDUCTION),
)
