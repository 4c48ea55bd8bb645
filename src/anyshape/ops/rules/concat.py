"""Tensors side by side in one: cat, stack and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.ops.memory_format import is_channels_last
from anyshape.ops.meta import Dense, Meta, channels_last, contiguous
from anyshape.ops.op import Op, OpKind, Rule
from anyshape.ops.promotion import result_type
from anyshape.ops.rules.views import unsqueezed
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, eq, ne, total


def tensors_of(tensors: Sequence[Any]) -> list[Meta]:
    """Tensors given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        return list(tensors[0])
    return list(tensors)


def cat(q: ShapeQuery, tensors: Sequence[Meta], dim: int = 0) -> Meta:
    if not tensors:
        raise q.fail("there are no tensors to join")
    if any(not tensor.shape for tensor in tensors):
        raise q.fail("a tensor without dimensions cannot be joined to others")
    counted = _without_empty_vectors(q, tensors)
    first = counted[0]
    dim = q.dim(dim, first.rank)
    for other in counted[1:]:
        if other.rank != first.rank:
            raise q.fail(f"tensors of {first.rank} and {other.rank} dimensions cannot be joined")
        for d, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
            if d != dim and a is not b:
                q.require(eq(a, b), f"size {d} must be the same in all tensors, not {a} and {b}")
    shape = list(first.shape)
    shape[dim] = total([tensor.shape[dim] for tensor in counted])
    layout = _layout(q, tensors, dim)
    return first.like(tuple(shape), dtype=result_type(tensors), layout=layout)


def _without_empty_vectors(q: ShapeQuery, tensors: Sequence[Meta]) -> Sequence[Meta]:
    """A vector without elements may stand beside tensors of any rank, and does not count."""
    if all(tensor.rank == tensors[0].rank for tensor in tensors):
        return tensors
    for tensor in tensors:
        if tensor.rank == 1:
            q.require(
                eq(tensor.shape[0], 0), "a vector can only be joined to vectors, unless it is empty"
            )
    return [tensor for tensor in tensors if tensor.rank != 1]


def _layout(q: ShapeQuery, tensors: Sequence[Meta], dim: int) -> Dense:
    """Channels-last if all tensors are; one without elements is not."""
    rank = tensors[0].rank
    if not all(tensor.rank == rank and is_channels_last(q, tensor) for tensor in tensors):
        return contiguous(max(tensor.rank for tensor in tensors))
    whole = all(
        q.decide(ne(tensor.shape[dim], 0), "a tensor without elements is not channels-last")
        for tensor in tensors
    )
    return channels_last(rank) if whole else contiguous(rank)


def stack(q: ShapeQuery, tensors: Sequence[Meta], dim: int = 0) -> Meta:
    if not tensors:
        raise q.fail("there are no tensors to stack")
    first = tensors[0]
    for other in tensors[1:]:
        if other.rank != first.rank:
            raise q.fail(f"tensors of {first.rank} and {other.rank} dimensions cannot be stacked")
        for a, b in zip(first.shape, other.shape, strict=True):
            if a is not b:
                q.require(eq(a, b), f"stacked tensors have the same sizes, not {a} and {b}")
    dim = q.dim(dim, first.rank + 1)
    if dim == first.rank:
        # Torch joins columns, which are channels-last only where that is contiguous, too.
        return first.like((*first.shape, len(tensors)), dtype=result_type(tensors))
    joined = cat(q, tensors, dim)
    # The joined dimension is taken apart again: outside the number of tensors, inside the size that
    # it had.
    assert isinstance(joined.layout, Dense), "a fresh tensor is dense"
    order = [
        d
        for old in joined.layout.order
        for d in ((dim, dim + 1) if old == dim else (old + (old > dim),))
    ]
    shape = (*first.shape[:dim], len(tensors), *first.shape[dim:])
    return replace(joined, shape=shape, layout=Dense(tuple(order)))


# ---- with dimensions added first -----------------------------------------------------------------


def at_least(tensor: Meta, rank: int) -> Meta:
    """As many dimensions: a vector becomes a row, a matrix a stack of columns of depth 1."""
    if not tensor.shape:
        return tensor.viewed((1,) * rank, (1,) * rank)
    if rank >= 2 and tensor.rank == 1:
        tensor = unsqueezed(tensor, 0)
    return unsqueezed(tensor, 2) if rank == 3 and tensor.rank == 2 else tensor


def _atleast(rank: int) -> Rule:
    def rule(q: ShapeQuery, *tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Meta):
            return at_least(tensors[0], rank)
        return tuple(at_least(tensor, rank) for tensor in tensors_of(tensors))

    return rule


def _one_or_more(q: ShapeQuery, tensors: Sequence[Meta]) -> None:
    if not tensors:
        raise q.fail("there are no tensors to stack")


def hstack(q: ShapeQuery, tensors: Sequence[Meta]) -> Meta:
    _one_or_more(q, tensors)
    raised = [at_least(tensor, 1) for tensor in tensors]
    return cat(q, raised, 0 if raised[0].rank == 1 else 1)


def vstack(q: ShapeQuery, tensors: Sequence[Meta]) -> Meta:
    _one_or_more(q, tensors)
    return cat(q, [at_least(tensor, 2) for tensor in tensors], 0)


def dstack(q: ShapeQuery, tensors: Sequence[Meta]) -> Meta:
    _one_or_more(q, tensors)
    return cat(q, [at_least(tensor, 3) for tensor in tensors], 2)


def column_stack(q: ShapeQuery, tensors: Sequence[Meta]) -> Meta:
    _one_or_more(q, tensors)
    columns = [
        t if t.rank > 1 else t.viewed((t.numel, 1), (*t.strides, 1)[-2:] if t.shape else (1, 1))
        for t in tensors
    ]
    return hstack(q, columns)


def block_diag(q: ShapeQuery, *tensors: Any) -> Meta:
    blocks = [at_least(tensor, 2) for tensor in tensors_of(tensors)]
    if any(block.rank > 2 for block in blocks):
        raise q.fail("blocks have at most 2 dimensions")
    if not blocks:
        raise q.fail("there are no blocks")
    rows: Size = total([block.shape[0] for block in blocks])
    columns: Size = total([block.shape[1] for block in blocks])
    return blocks[0].like((rows, columns), dtype=result_type(tensors_of(tensors)))


def _row(name: str, rule: Rule, *also: str) -> Op:
    return Op(name, (f"torch.{name}", *also), rule, OpKind.INDEX_MAP)


ROWS: tuple[Op, ...] = (
    _row("cat", cat, "torch.concat", "torch.concatenate"),
    _row("stack", stack),
    _row("hstack", hstack),
    _row("vstack", vstack, "torch.row_stack"),
    _row("dstack", dstack),
    _row("column_stack", column_stack),
    _row("block_diag", block_diag),
    *(
        Op(f"atleast_{rank}d", (f"torch.atleast_{rank}d",), _atleast(rank), OpKind.VIEW)
        for rank in (1, 2, 3)
    ),
)
