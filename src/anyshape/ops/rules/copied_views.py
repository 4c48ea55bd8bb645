"""Fresh tensors where a view would do: copies of views, and copies of a tensor with a view of them
written.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from anyshape.ops.meta import Meta, Strided
from anyshape.ops.op import Op, OpKind, Rule, names_of
from anyshape.ops.rules import reshaping, splitting, views
from anyshape.ops.rules.index_operators import cloned
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, absolute, eq, le


def _copied(rule: Rule) -> Rule:
    """The rule of a view, its result fresh and contiguous."""

    @functools.wraps(rule)
    def fresh(q: ShapeQuery, *args: Any, **kwargs: Any) -> Any:
        seen = rule(q, *args, **kwargs)
        return seen.like() if isinstance(seen, Meta) else tuple(part.like() for part in seen)

    return fresh


_COPIES: dict[str, Rule] = {
    "as_strided_copy": views.as_strided,
    "diagonal_copy": views.diagonal,
    "expand_copy": views.expand,
    "narrow_copy": views.narrow,
    "permute_copy": views.permute,
    "select_copy": views.select,
    "slice_copy": views.slice_,
    "split_copy": splitting.split_evenly,
    "split_with_sizes_copy": splitting.split_with_sizes,
    "squeeze_copy": views.squeeze,
    "t_copy": views.t,
    "transpose_copy": views.transpose,
    "unbind_copy": views.unbind,
    "unfold_copy": views.unfold,
    "unsqueeze_copy": views.unsqueeze,
    "view_as_complex_copy": views.view_as_complex,
    "view_as_real_copy": views.view_as_real,
    "view_copy": reshaping.view,
}


# ---- a view written into a copy ------------------------------------------------------------------


def _with_written(q: ShapeQuery, input: Meta, seen: Meta, src: Meta) -> Meta:
    """A copy of `input` in which the part that is `seen` has been replaced by `src`, of exactly its
    shape.
    """
    if seen.rank != src.rank:
        raise q.fail(f"the source must have the {seen.rank} dimensions of the part, not {src.rank}")
    for size, wanted in zip(src.shape, seen.shape, strict=True):
        if size is not wanted:
            q.require(eq(size, wanted), "the source has the sizes of the part that it replaces")
    if isinstance(input.layout, Strided) and any(
        stride == 0 and not q.decide(le(size, 1), "an expanded tensor is copied element by element")
        for size, stride in zip(input.shape, input.strides, strict=True)
    ):
        return cloned(q, input)
    # The whole storage is copied, so that strides and offset stay.
    return replace(input, requires_grad=False, shares_if=None)


def select_scatter(q: ShapeQuery, input: Meta, src: Meta, dim: int, index: Size) -> Meta:
    return _with_written(q, input, views.select(q, input, dim, index), src)


def slice_scatter(
    q: ShapeQuery,
    input: Meta,
    src: Meta,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Meta:
    return _with_written(q, input, views.slice_(q, input, dim, start, end, step), src)


def diagonal_scatter(
    q: ShapeQuery, input: Meta, src: Meta, offset: Size = 0, dim1: int = 0, dim2: int = 1
) -> Meta:
    return _with_written(q, input, views.diagonal(q, input, offset, dim1, dim2), src)


def as_strided_scatter(
    q: ShapeQuery,
    input: Meta,
    src: Meta,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Meta:
    seen = views.as_strided(q, input, size, stride, storage_offset)
    return _with_written(q, input, seen, src)


# ---- diagonals -----------------------------------------------------------------------------------


def diag(q: ShapeQuery, input: Meta, diagonal: Size = 0) -> Meta:
    if input.rank == 1:
        return diag_embed(q, input, diagonal)
    if input.rank != 2:
        raise q.fail(f"diag is for 1 or 2 dimensions, not {input.rank}")
    return views.diagonal(q, input, diagonal).like()


def diag_embed(
    q: ShapeQuery, input: Meta, offset: Size = 0, dim1: int = -2, dim2: int = -1
) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions is no diagonal")
    rank = input.rank + 1
    a, b = sorted((q.dim(dim1, rank), q.dim(dim2, rank)))
    if a == b:
        raise q.fail(f"a diagonal needs two dimensions, not {dim1} twice")
    shape = list(input.shape[:-1])
    side = input.shape[-1] + absolute(offset)
    shape.insert(a, side)
    shape.insert(b, side)
    return input.like(tuple(shape))


def diagflat(q: ShapeQuery, input: Meta, offset: Size = 0) -> Meta:
    return diag_embed(q, input.like((input.numel,)), offset)


_WRITTEN: dict[str, Rule] = {
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "diagonal_scatter": diagonal_scatter,
    "as_strided_scatter": as_strided_scatter,
    "diag": diag,
    "diag_embed": diag_embed,
    "diagflat": diagflat,
}

ROWS: tuple[Op, ...] = (
    *(Op(name, names_of(name), _copied(rule), OpKind.INDEX_MAP) for name, rule in _COPIES.items()),
    *(Op(name, names_of(name), rule, OpKind.INDEX_MAP) for name, rule in _WRITTEN.items()),
)
