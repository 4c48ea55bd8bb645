"""gather and scatter: one position for each element, along one dimension.

A position out of range is an error of the data, which the kernel finds; but where a dimension is
empty no position is in range, and that is a question of sizes.
"""

from __future__ import annotations

import torch

from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, Rule, in_place_names, names_of
from anyshape.ops.promotion import Number
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Fact, Size, and_, eq, gt, le, or_


def _at_least_one(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """A tensor without dimensions counts as a vector of one element."""
    return shape or (1,)


def _empty(meta: Meta) -> tuple[Fact, ...]:
    return tuple(eq(size, 0) for size in meta.shape)


def _require_positions(
    q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta | None
) -> None:
    """What the shapes must be unless there are no positions."""
    along = q.dim(dim, input.rank)
    if index.dtype not in (torch.int64, torch.int32):
        detail = f"positions must be integers of 64 or 32 bits, not {index.dtype}"
        q.require(or_(*_empty(index)), detail)
        return
    have, wanted = _at_least_one(input.shape), _at_least_one(index.shape)
    given = wanted if source is None else _at_least_one(source.shape)
    if not len(have) == len(wanted) == len(given):
        q.require(or_(*_empty(index)), "all must have as many dimensions")
        return
    facts: list[Fact] = []
    for d, (size, positions, values) in enumerate(zip(have, wanted, given, strict=True)):
        if d == along:
            if size is not positions:
                facts.append(gt(size, 0))
        elif size is not positions:
            facts.append(le(positions, size))
        if values is not positions:
            facts.append(le(positions, values))
    if facts:
        q.require(or_(*_empty(index), and_(*facts)), "positions must fit into the other tensors")


def gather(q: ShapeQuery, input: Meta, dim: int, index: Meta, *, sparse_grad: bool = False) -> Meta:
    _require_positions(q, input, dim, index, None)
    return input.like(index.shape)


def scatter(
    q: ShapeQuery,
    input: Meta,
    dim: int,
    index: Meta,
    src: Meta | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Meta:
    _require_positions(q, input, dim, index, src if isinstance(src, Meta) else None)
    _require_dtype(q, input, src)
    return input.like()


def scatter_add(q: ShapeQuery, input: Meta, dim: int, index: Meta, src: Meta) -> Meta:
    return scatter(q, input, dim, index, src)


def scatter_reduce(
    q: ShapeQuery,
    input: Meta,
    dim: int,
    index: Meta,
    src: Meta,
    reduce: str,
    *,
    include_self: bool = True,
) -> Meta:
    return scatter(q, input, dim, index, src)


def _require_dtype(q: ShapeQuery, input: Meta, source: object) -> None:
    if isinstance(source, Meta) and source.dtype != input.dtype:
        raise q.fail(f"values of {source.dtype} do not go into a tensor of {input.dtype}")


def index_add(
    q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta, *, alpha: Number = 1
) -> Meta:
    _require_slices(q, input, dim, index, source)
    return input.like()


def index_reduce(
    q: ShapeQuery,
    input: Meta,
    dim: int,
    index: Meta,
    source: Meta,
    reduce: str,
    *,
    include_self: bool = True,
) -> Meta:
    _require_slices(q, input, dim, index, source)
    return input.like()


def _require_slices(q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta) -> None:
    """A slice of the source for each position, of the size of the input's slices."""
    _require_dtype(q, input, source)
    along = q.dim(dim, input.rank)
    if index.rank > 1 or index.dtype not in (torch.int64, torch.int32):
        raise q.fail("positions must be a vector of integers")
    have, given = _at_least_one(input.shape), _at_least_one(source.shape)
    if len(have) != len(given):
        raise q.fail(f"a source of {source.rank} dimensions for an input of {input.rank}")
    positions = _at_least_one(index.shape)[0]
    for d, (size, other) in enumerate(zip(have, given, strict=True)):
        wanted = positions if d == along else size
        if other is not wanted:
            q.require(eq(other, wanted), "the source has a slice for each position")
    if have[along] is not positions:
        q.require(or_(eq(positions, 0), gt(have[along], 0)), "an empty dimension has no position")


def _row(name: str, rule: Rule, in_place: bool = True) -> Op:
    places = in_place_names(name) if in_place else ()
    return Op(name, names_of(name), rule, OpKind.CALL_OUT, in_place=places)


ROWS: tuple[Op, ...] = (
    _row("gather", gather, in_place=False),
    _row("scatter", scatter),
    _row("scatter_add", scatter_add),
    _row("scatter_reduce", scatter_reduce),
    _row("index_add", index_add),
    _row("index_reduce", index_reduce),
)
