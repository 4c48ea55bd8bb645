"""Computing element by element: broadcast, promote, compute, round.

16-bit floats are computed in f32 and rounded by a cast, as eager does operator by operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOAT8, HALVES, Dtype, Scalar
from anyshape.loops.reshape_indexing import merged, reshaped
from anyshape.ops.lowering.scalar_range_check import must_fit
from anyshape.ops.lowering.scalars import (
    TORCH_DTYPES,
    Compute,
    cast,
    is_nonzero,
    short,
    where,
    wide,
)
from anyshape.ops.lowering.values import (
    Factors,
    HostScalar,
    Index,
    IndexMap,
    Lowering,
    NumberRef,
    Value,
)
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.promotion import result_type
from anyshape.symbolic import Expr, Size, eq

Operand = Value | int | float | bool | Expr | NumberRef

_CPU: Final = torch.device("cpu")


def common_dtype(operands: Sequence[Operand]) -> Dtype:
    """The dtype that torch computes in, as `torch.result_type`."""
    return short(
        result_type(
            [
                Meta(each.sizes, TORCH_DTYPES[each.dtype], contiguous(len(each.sizes)), _CPU)
                if isinstance(each, Value)
                else 0.5
                if isinstance(each, NumberRef)
                else each
                for each in operands
            ]
        )
    )


def scalar_of(operand: Operand, index: Index, sizes: Sequence[Size], dtype: Dtype) -> Scalar:
    """An operand at an index of the broadcast result, as `dtype`."""
    if isinstance(operand, Value):
        return cast(operand.at(broadcast_index(operand.sizes, sizes, index)), dtype)
    if isinstance(operand, NumberRef):
        return cast(expr.number(operand.name), dtype)
    if isinstance(operand, Expr):
        return cast(expr.index(operand), dtype)
    if dtype in FLOAT8:
        return cast(expr.constant(operand, "f32"), dtype)
    return expr.constant(operand, dtype)


def broadcast_index(own: Sequence[Size], sizes: Sequence[Size], index: Index) -> Index:
    """The index into a tensor of `own` sizes for an index of the broadcast one."""
    skip = len(sizes) - len(own)
    return tuple(0 if size == 1 else index[skip + dim] for dim, size in enumerate(own))


def broadcast_sizes(lowering: Lowering, operands: Sequence[Operand]) -> tuple[Size, ...]:
    """The sizes of the result of computing on these."""
    shapes = [each.sizes for each in operands if isinstance(each, Value)]
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for dim, size in enumerate(shape, rank - len(shape)):
            if size == 1 or result[dim] is size:
                continue
            if result[dim] == 1:
                result[dim] = size
            elif not lowering.same(result[dim], size):
                lowering.assume(eq(result[dim], size), f"sizes {result[dim]} and {size} may differ")
    return tuple(result)


def elementwise(
    lowering: Lowering,
    compute: Compute,
    *operands: Operand,
    takes: Dtype | None = None,
    gives: Dtype | None = None,
    cost: int = 1,
    wraps: bool = False,
    exact: Sequence[int] = (),
) -> Value:
    """`compute` of the operands, all cast to `takes` (their common dtype by default), as a value of
    dtype `gives` (the same by default). `wraps`: numbers that `takes` does not have are cut to
    it, as torch does in arithmetic, and are no error. `exact`: operands that torch does not round
    to two bytes first, if they are a 0-d tensor."""
    takes = common_dtype(operands) if takes is None else takes
    gives = takes if gives is None else gives
    inner, sizes = wide(takes), broadcast_sizes(lowering, operands)
    if not wraps:
        for each in operands:
            must_fit(lowering, each, takes)

    rounded = [
        _is_rounded(each, takes) and not (place in exact and _is_number(lowering, each))
        for place, each in enumerate(operands)
    ]

    def operand_at(index: Index, place: int) -> Scalar:
        found = scalar_of(operands[place], index, sizes, inner)
        return cast(cast(found, takes), inner) if rounded[place] else found

    def at(index: Index) -> Scalar:
        return cast(compute(*(operand_at(index, place) for place in range(len(operands)))), gives)

    parents = [each for each in operands if isinstance(each, Value)]
    factors = _factors(lowering, parents, sizes)
    return lowering.values.new(sizes, gives, at, parents, cost=cost, factors=factors)


def in_full_on_gpus(c: Lowering) -> Sequence[int]:
    """For `exact`: there, torch rounds no number that is the operand of an operator of two."""
    return (0, 1) if c.on_gpu else ()


def _is_number(lowering: Lowering, operand: Operand) -> bool:
    """A tensor of one element is one on the processor, and an operand like all others on a GPU."""
    if not isinstance(operand, Value) or isinstance(operand, HostScalar):
        return True
    return not operand.sizes and not lowering.on_gpu


def _is_rounded(operand: Operand, dtype: Dtype) -> bool:
    """Whether an operand loses bits as one of 16-bit floats, which torch casts it to at first."""
    if dtype not in HALVES or (isinstance(operand, Value) and operand.dtype in (dtype, "b1")):
        return False
    if isinstance(operand, int | float) and abs(operand) < 256:
        return operand != operand // 1
    return True


def _factors(
    lowering: Lowering, parents: Sequence[Value], sizes: tuple[Size, ...]
) -> Factors | None:
    """How the dimensions came about, if an operand knows."""
    for parent in parents:
        if parent.factors is None or parent.memory is not None:
            continue
        if len(parent.sizes) == len(sizes) and lowering.same_sizes(parent.sizes, sizes):
            return parent.factors
    return None


def mapped(
    c: Lowering,
    input: Value,
    sizes: Sequence[Size],
    index_map: IndexMap,
    *,
    factors: Factors | None = None,
    cost: int = 0,
) -> Value:
    """A value of these sizes whose elements are at other places of `input`."""

    def at(index: Index) -> Scalar:
        return input.at(index_map(index))

    return c.values.new(sizes, input.dtype, at, (input,), cost=cost, factors=factors)


def in_shape(c: Lowering, input: Value, sizes: Sequence[Size]) -> Value:
    """The same elements in the same order. Loops run over the dimensions that were merged; where
    these would be divided, the elements are stored in their order first."""
    factors = merged(input.split_sizes(), sizes)
    if factors is None:
        return c.in_order(input, sizes)
    own, extents, facts = input.sizes, c.values.extents, c.facts
    return mapped(
        c,
        input,
        sizes,
        lambda index: reshaped(index, sizes, own, extents, facts),
        factors=factors,
    )


def chosen(c: Lowering, condition: Value, then: Operand, other: Operand, dtype: Dtype) -> Value:
    """`then` where the condition holds, else `other`."""
    sizes = broadcast_sizes(c, (condition, then, other))
    for each in (then, other):
        must_fit(c, each, dtype)

    def at(index: Any) -> Scalar:
        test_now = is_nonzero(scalar_of(condition, index, sizes, condition.dtype))
        inner = wide(dtype)
        a, b = (scalar_of(each, index, sizes, inner) for each in (then, other))
        return cast(where(test_now, a, b), dtype)

    parents = [each for each in (condition, then, other) if isinstance(each, Value)]
    return c.values.new(sizes, dtype, at, parents, cost=1)


def as_dtype(c: Lowering, input: Value, dtype: Dtype) -> Value:
    if input.dtype == dtype:
        return input
    return elementwise(c, lambda x: x, input, takes=dtype)


def shifted(dim: int, start: Size, step: int = 1) -> IndexMap:
    """A part of a dimension."""

    def index_map(index: Index) -> Index:
        return (*index[:dim], index[dim] * step + start, *index[dim + 1 :])

    return index_map
