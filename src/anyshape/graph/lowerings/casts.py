"""Copies, as another dtype or the same.

An operator that hands its tensor on is no node of the graph; what comes here makes a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import (
    TORCH_DTYPES,
    Operand,
    broadcast_index,
    cast,
    scalar_of,
    short,
)
from anyshape.graph.scalar_range_check import must_fit
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import Scalar

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def copied(c: Lowering, input: Value, dtype: torch.dtype | None = None) -> Value:
    """The same elements in memory of their own, as the dtype that the result has."""
    gives = input.dtype if dtype is None else short(dtype)
    return c.values.new(
        input.sizes,
        gives,
        lambda index: cast(input.at(index), gives),
        (input,),
        factors=input.factors,
    )


@row(
    *("to", "float", "double", "half", "bfloat16", "byte", "char", "short", "int", "long", "bool"),
    *("type", "type_as", "cpu"),
)
def cast_row(c: Lowering, input: Value, **_: Any) -> Value:
    return copied(c, input, c.result.dtype)


@row("clone", "alias_copy")
def clone(c: Lowering, input: Value, **_: Any) -> Value:
    return copied(c, input)


@row("contiguous")
def contiguous(c: Lowering, input: Value, **_: Any) -> Value:
    return copied(c, input)


# -- into a tensor --------------------------------------------------------------------------------


@row("copy_")
def copy_(c: Lowering, input: Value, src: Value, non_blocking: bool) -> Value:
    for own, wanted in zip(reversed(src.sizes), reversed(input.sizes), strict=False):
        if own != 1 and not c.same(own, wanted):
            raise NotLowered(f"sizes {own} and {wanted} may differ")
    if len(src.sizes) > len(input.sizes):
        raise NotLowered("a copy into fewer dimensions")

    def at(index: Index) -> Scalar:
        return cast(src.at(broadcast_index(src.sizes, input.sizes, index)), input.dtype)

    return c.values.new(input.sizes, input.dtype, at, (src,))


def filled(c: Lowering, sizes: Any, dtype: torch.dtype, value: Operand) -> Value:
    """The same number everywhere."""
    gives = short(dtype)
    if isinstance(value, Value) and value.sizes:
        raise NotLowered("a tensor of several elements for a number")
    if isinstance(value, complex):
        raise NotLowered("a complex number")
    if isinstance(value, float) and gives not in expr.FLOATS:
        value = _as_integer(value, gives)
    must_fit(c, value, gives)

    def at(index: Index) -> Scalar:
        return scalar_of(value, index, tuple(sizes), gives)

    return c.values.new(sizes, gives, at, (value,) if isinstance(value, Value) else ())


def _as_integer(value: float, dtype: str) -> int | bool:
    if value != value or value in (float("inf"), float("-inf")):
        raise NotLowered("a number that no integer is")
    return bool(value) if dtype == "b1" else int(value)


@row("fill")
def fill(c: Lowering, input: Value, value: Operand) -> Value:
    return filled(c, input.sizes, TORCH_DTYPES[input.dtype], value)


@row("zero_")
def zero_(c: Lowering, input: Value) -> Value:
    return fill(c, input, 0)
