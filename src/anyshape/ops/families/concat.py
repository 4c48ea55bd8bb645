"""Tensors side by side in one: cat, stack and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Dtype, Scalar
from anyshape.ops.families.views import lower_ones, unsqueezed
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, zeros_like
from anyshape.ops.lowering.index_cases import is_of_indices
from anyshape.ops.lowering.masked_load import guarded, is_guardable
from anyshape.ops.lowering.pointwise_builder import common_dtype, mapped
from anyshape.ops.lowering.scalars import all_of, cast, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.memory_format import is_channels_last
from anyshape.ops.meta import Dense, Meta, channels_last, contiguous
from anyshape.ops.onnx import Node, Writer, known
from anyshape.ops.op import Op, OpKind, Rule, gradient, lower, lower_view, made_of, moving, onnx
from anyshape.ops.promotion import result_type
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


# -- native code ----------------------------------------------------------------------------------


#: Of what is not stored but read where it is: parts, and operations to compute an element of each.
_MOST_PARTS: Final = 3
_MOST_COST: Final = 8


def as_dtype(c: Lowering, value: Value, dtype: Dtype) -> Value:
    if value.dtype == dtype:
        return value

    def at(index: Index) -> Scalar:
        return cast(value.at(index), dtype)

    return c.values.new(value.sizes, dtype, at, (value,), cost=1, factors=value.factors)


def joined(c: Lowering, tensors: Sequence[Value], dim: int, *, within: bool = False) -> Value:
    """Tensors of equal sizes but for one dimension, along it. `within`: it is not the result of the
    operator at hand, whose sizes are others."""
    dtype = common_dtype(tensors)
    first = tensors[0].sizes
    for other in tensors[1:]:
        rest, own = list(other.sizes), list(first)
        if len(rest) != len(own):
            raise NotLowered("tensors of other numbers of dimensions")
        rest[dim] = own[dim] = 1
        if not c.same_sizes(rest, own):
            raise NotLowered("sizes that may differ")
    parts = [as_dtype(c, tensor, dtype) for tensor in tensors]
    size = total([part.sizes[dim] for part in parts])
    sizes = (*first[:dim], size, *first[dim + 1 :])
    if all(map(is_of_indices, parts)) or (not within and _is_read_in_place(c, parts)):
        cost = 2 * (len(parts) - 1)
        made = c.values.new(sizes, dtype, lambda index: _at(parts, dim, index), parts, cost=cost)
        if not within:
            c.stored_in_parts(made, parts, dim)
        return made
    return c.joined(parts, dim, sizes, c.result.like(sizes) if within else c.stored_as(c.result))


def _is_read_in_place(c: Lowering, parts: Sequence[Value]) -> bool:
    """Whether the user of the result is a loop over its elements, which finds out at each of them
    where to read. (Loops are run in pieces: there are few seams, so there must be few parts.)"""
    if len(parts) > _MOST_PARTS or sum(part.cost for part in parts) > _MOST_COST:
        return False
    return c.is_read_by_a_loop() and all(is_guardable(c, part) for part in parts)


def _at(parts: Sequence[Value], dim: int, index: Index) -> Scalar:
    """Nothing is read of the parts that the index is not in."""
    start: Size = 0
    ends: list[Size] = []
    found: list[Scalar] = []
    for number, part in enumerate(parts):
        here, end = expr.index(index[dim]), start + part.sizes[dim]
        inside: list[Scalar] = []
        if number > 0:
            inside.append(test("ge", here, expr.index(start)))
        if number < len(parts) - 1:
            inside.append(test("lt", here, expr.index(end)))
        there = (*index[:dim], index[dim] - start, *index[dim + 1 :])
        if inside:
            found.append(guarded(part, there, all_of(inside)))
        else:
            found.append(part.at(there))
        ends.append(end)
        start = end
    result = found[-1]
    for scalar, end in zip(reversed(found[:-1]), reversed(ends[:-1]), strict=True):
        result = where(test("lt", expr.index(index[dim]), expr.index(end)), scalar, result)
    return result


def several(tensors: Any) -> list[Value]:
    if not isinstance(tensors, tuple | list) or not tensors:
        raise NotLowered("no tensors")
    if not all(isinstance(each, Value) for each in tensors):
        raise NotLowered("what is no tensor among tensors")
    return list(tensors)


def with_ones(c: Lowering, value: Value, places: Sequence[int]) -> Value:
    """The value with dimensions of size 1 at these places of the result."""
    rank = len(value.sizes) + len(places)
    own = iter(value.sizes)
    sizes = [1 if dim in places else next(own) for dim in range(rank)]
    kept = [dim for dim in range(rank) if dim not in places]
    return mapped(c, value, sizes, lambda index: tuple(index[dim] for dim in kept))


@lower(*moving("cat"))
def lower_cat(c: Lowering, tensors: Any, dim: Any) -> Value:
    parts = _without_nothing(c, several(tensors))
    return joined(c, parts, place(dim, len(parts[0].sizes)))


def _without_nothing(c: Lowering, tensors: list[Value]) -> list[Value]:
    """A vector of no elements goes with tensors of any number of dimensions: only its dtype
    counts."""
    kept = [each for each in tensors if each.sizes != (0,)]
    dtype = common_dtype(tensors)
    return [as_dtype(c, each, dtype) for each in kept] if kept else tensors


@lower(*moving("stack"))
def lower_stack(c: Lowering, tensors: Any, dim: Any) -> Value:
    parts = several(tensors)
    along = place(dim, len(parts[0].sizes) + 1)
    return joined(c, [with_ones(c, part, (along,)) for part in parts], along)


def with_rank(c: Lowering, value: Value, rank: int) -> Value:
    """As many dimensions: a vector becomes a row, a matrix a stack of columns of depth 1."""
    own = len(value.sizes)
    if own == 0:
        return with_ones(c, value, range(rank))
    if rank >= 2 and own == 1:
        value = with_ones(c, value, (0,))
    return with_ones(c, value, (2,)) if rank == 3 and len(value.sizes) == 2 else value


@lower(*moving("hstack"))
def lower_hstack(c: Lowering, tensors: Any) -> Value:
    parts = [with_rank(c, each, 1) for each in several(tensors)]
    return joined(c, parts, 0 if len(parts[0].sizes) == 1 else 1)


@lower(*moving("vstack"))
def lower_vstack(c: Lowering, tensors: Any) -> Value:
    return joined(c, [with_rank(c, each, 2) for each in several(tensors)], 0)


@lower(*moving("dstack"))
def lower_dstack(c: Lowering, tensors: Any) -> Value:
    return joined(c, [with_rank(c, each, 3) for each in several(tensors)], 2)


@lower(*moving("column_stack"))
def lower_column_stack(c: Lowering, tensors: Any) -> Value:
    columns = [
        with_ones(c, each, range(len(each.sizes), 2)) if len(each.sizes) < 2 else each
        for each in several(tensors)
    ]
    return joined(c, columns, 1)


lower_view("atleast_1d", "atleast_2d", "atleast_3d")(lower_ones)


# -- gradients ------------------------------------------------------------------------------------


@gradient("cat")
def gradient_cat(grad: Term, tensors: Any, dim: Any) -> Gradients:
    parts: list[Term] = []
    start: Size = 0
    for each in tensors:
        if each.rank != grad.rank:  # an empty vector, which may stand for a tensor of any rank
            parts.append(zeros_like(each))
            continue
        parts.append(grad.narrow(dim, start, each.shape[dim]))
        start = start + each.shape[dim]
    return {"tensors": parts}


def _raised(tensor: Term, rank: int) -> Term:
    """As `atleast_1d` and its kin do it."""
    if tensor.rank >= rank:
        return tensor
    fits = {1: torch.atleast_1d, 2: torch.atleast_2d, 3: torch.atleast_3d}
    return tensor.call(fits[rank])


@made_of("hstack", "vstack", "dstack")
def parts_of_hstack(records: Records, tensors: Any, function: str) -> Term:
    rank = {"hstack": 1, "vstack": 2, "dstack": 3}[function]
    raised = [_raised(each, rank) for each in tensors]
    along = {1: 0 if raised[0].rank == 1 else 1, 2: 0, 3: 2}[rank]
    return records.record(torch.cat, raised, along)


@made_of("column_stack")
def parts_of_column_stack(records: Records, tensors: Any) -> Term:
    columns = [each if each.rank > 1 else _raised(each, 1).unsqueeze(1) for each in tensors]
    return records.record(torch.cat, columns, 1)


@gradient("atleast_1d", "atleast_2d", "atleast_3d")
def gradient_at_least(grad: Any, tensors: Any) -> Gradients:
    if isinstance(grad, dict) or len(tensors) != 1:
        raise NoGradient("several tensors")
    return {"tensors": [grad.reshape(tensors[0].shape)]}


@gradient("stack")
def gradient_stack(grad: Term, tensors: Any, dim: Any) -> Gradients:
    return {"tensors": [grad.select(dim, place) for place in range(len(tensors))]}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("cat")
def onnx_cat(w: Writer, node: Node, tensors: Any, dim: int) -> str:
    dtype, rank = w.dtype(node), w.rank(node)
    # torch passes over empty tensors of one dimension, whatever the others are.
    joined = [each for each in tensors if w.rank(each) == rank]
    return w.add("Concat", [w.name(each, dtype) for each in joined], axis=dim)


@onnx("stack")
def onnx_stack(w: Writer, node: Node, tensors: Any, dim: int) -> str:
    at, dtype = known(dim) % w.rank(node), w.dtype(node)
    parts = [w.add("Unsqueeze", [w.name(each, dtype), w.constant([at])]) for each in tensors]
    return w.add("Concat", parts, axis=at)
