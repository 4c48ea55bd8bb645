"""Tensors side by side in one. Each is stored into its part of the result; or the one operator
that uses it reads them where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from anyshape.graph.lowerings.padding import all_of
from anyshape.graph.lowerings.permute import mapped
from anyshape.graph.lowerings.pointwise import test, where
from anyshape.graph.lowerings.table import row
from anyshape.graph.lowerings.views import place
from anyshape.graph.masked_load import guarded, is_guardable
from anyshape.graph.pointwise_builder import cast, common_dtype
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import Dtype, Scalar
from anyshape.ops.node_meta import CALL
from anyshape.ops.op import OpKind as Kind
from anyshape.ops.table import lookup
from anyshape.symbolic import Size, total

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

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
    if not within and _is_read_in_place(c, parts):
        cost = 2 * (len(parts) - 1)
        made = c.values.new(sizes, dtype, lambda index: _at(parts, dim, index), parts, cost=cost)
        c.stored_in_parts(made, parts, dim)
        return made
    return c.joined(parts, dim, sizes, c.result.like(sizes) if within else c.stored_as(c.result))


def _is_read_in_place(c: Lowering, parts: Sequence[Value]) -> bool:
    """Whether the user of the result is a loop over its elements, which finds out at each of them
    where to read. (Loops are run in pieces: there are few seams, so there must be few parts.)"""
    if len(parts) > _MOST_PARTS or sum(part.cost for part in parts) > _MOST_COST:
        return False
    users = [lookup(user.meta[CALL].function) for user in c.node.users if CALL in user.meta]
    if len(users) != 1 or len(c.node.users) != 1:
        return False
    (user,) = users
    pointwise = user is not None and user.op.lowering is Kind.POINTWISE
    return pointwise and all(is_guardable(c, part) for part in parts)


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


@row("cat")
def cat(c: Lowering, tensors: Any, dim: Any) -> Value:
    parts = _without_nothing(c, several(tensors))
    return joined(c, parts, place(dim, len(parts[0].sizes)))


def _without_nothing(c: Lowering, tensors: list[Value]) -> list[Value]:
    """A vector of no elements goes with tensors of any number of dimensions: only its dtype
    counts."""
    kept = [each for each in tensors if each.sizes != (0,)]
    dtype = common_dtype(tensors)
    return [as_dtype(c, each, dtype) for each in kept] if kept else tensors


@row("stack")
def stack(c: Lowering, tensors: Any, dim: Any) -> Value:
    parts = several(tensors)
    along = place(dim, len(parts[0].sizes) + 1)
    return joined(c, [with_ones(c, part, (along,)) for part in parts], along)


def at_least(c: Lowering, value: Value, rank: int) -> Value:
    """As many dimensions: a vector becomes a row, a matrix a stack of columns of depth 1."""
    own = len(value.sizes)
    if own == 0:
        return with_ones(c, value, range(rank))
    if rank >= 2 and own == 1:
        value = with_ones(c, value, (0,))
    return with_ones(c, value, (2,)) if rank == 3 and len(value.sizes) == 2 else value


@row("hstack")
def hstack(c: Lowering, tensors: Any) -> Value:
    parts = [at_least(c, each, 1) for each in several(tensors)]
    return joined(c, parts, 0 if len(parts[0].sizes) == 1 else 1)


@row("vstack")
def vstack(c: Lowering, tensors: Any) -> Value:
    return joined(c, [at_least(c, each, 2) for each in several(tensors)], 0)


@row("dstack")
def dstack(c: Lowering, tensors: Any) -> Value:
    return joined(c, [at_least(c, each, 3) for each in several(tensors)], 2)


@row("column_stack")
def column_stack(c: Lowering, tensors: Any) -> Value:
    columns = [
        with_ones(c, each, range(len(each.sizes), 2)) if len(each.sizes) < 2 else each
        for each in several(tensors)
    ]
    return joined(c, columns, 1)
