"""Computing element by element: broadcast, promote, compute, round.

Values of two bytes are computed in f32 and rounded by a cast, as eager does operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import torch

from anyshape.graph.plan import NumberRef
from anyshape.graph.scalar_range_check import must_fit
from anyshape.graph.values import DTYPES, Factors, Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import HALVES, Dtype, Scalar
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.promotion import floating, result_type
from anyshape.symbolic import Expr, Size, eq

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

Operand = Value | int | float | bool | Expr | NumberRef
Compute = Callable[..., Scalar]

TORCH_DTYPES: Final[dict[str, torch.dtype]] = {short: dtype for dtype, short in DTYPES.items()}
_CPU: Final = torch.device("cpu")


def short(dtype: torch.dtype) -> Dtype:
    """The name of a dtype in kernels."""
    found = DTYPES.get(dtype)
    if found is None:
        raise NotLowered(f"no native code for {dtype}")
    return found


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


def float_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which an operator of floats takes this one: integers become the default."""
    return short(floating(TORCH_DTYPES[dtype]))


def wide(dtype: Dtype) -> Dtype:
    """The dtype to compute in for results of this one."""
    return "f32" if dtype in HALVES else dtype


def cast(scalar: Scalar, dtype: Dtype) -> Scalar:
    if scalar.dtype == dtype:
        return scalar
    plain = scalar.op == "constant" and dtype not in HALVES and scalar.dtype not in HALVES
    if plain and (not isinstance(scalar.data, float) or dtype in ("f32", "f64")):
        return expr.constant(scalar.data, dtype)
    return expr.operation("cast", scalar, dtype=dtype)


def scalar_of(operand: Operand, index: Index, sizes: Sequence[Size], dtype: Dtype) -> Scalar:
    """An operand at an index of the broadcast result, as `dtype`."""
    if isinstance(operand, Value):
        return cast(operand.at(broadcast_index(operand.sizes, sizes, index)), dtype)
    if isinstance(operand, NumberRef):
        return cast(expr.number(operand.name), dtype)
    if isinstance(operand, Expr):
        return cast(expr.index(operand), dtype)
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
    dtype `gives` (the common dtype as well). `wraps`: numbers that `takes` does not have are cut to
    it, as torch does in arithmetic, and are no error. `exact`: operands that torch does not round
    to two bytes first, if they are a single number."""
    common = common_dtype(operands) if takes is None or gives is None else takes
    takes = common if takes is None else takes
    gives = takes if gives is None else gives
    inner, sizes = wide(takes), broadcast_sizes(lowering, operands)
    if not wraps:
        for each in operands:
            must_fit(lowering, each, takes)

    rounded = [
        _is_rounded(each, takes) and not (place in exact and _is_number(each))
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


def _is_number(operand: Operand) -> bool:
    return not isinstance(operand, Value) or not operand.sizes


def _is_rounded(operand: Operand, dtype: Dtype) -> bool:
    """Whether an operand loses bits as one of two bytes, which torch casts it to at first."""
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


def operation(name: str, *, gives: Dtype | None = None) -> Compute:
    """An operation as a function of scalars."""

    def compute(*args: Scalar) -> Scalar:
        return expr.operation(name, *args, dtype=gives or args[-1].dtype)

    return compute
