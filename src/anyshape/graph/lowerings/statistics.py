"""Sums and means that pass over what is no number; the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import constant_like, test, where
from anyshape.graph.lowerings.reductions import as_dtype, dims_of, folded, sum_
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import cast, elementwise, operation, short
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops.expr import FLOATS, Scalar
from anyshape.symbolic import minimum

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def numbers_only(c: Lowering, input: Value) -> Value:
    """0 in place of NaN."""
    if input.dtype not in FLOATS:
        return input

    def compute(x: Scalar) -> Scalar:
        return where(test("isnan", x), constant_like(0, x), x)

    return elementwise(c, compute, input)


@row("nansum")
def nansum(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    source = input if dtype is None else as_dtype(c, input, short(dtype))
    return sum_(c, numbers_only(c, source), dim, keepdim, dtype=dtype)


@row("nanmean")
def nanmean(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    if input.dtype not in FLOATS or dtype is not None:
        raise NotLowered("the mean of integers, or of another dtype")
    total = sum_(c, numbers_only(c, input), dim, keepdim, dtype=None)
    there = elementwise(
        c,
        lambda x: test("not", test("isnan", x)),
        input,
        takes=input.dtype,
        gives="b1",
    )
    number = folded(c, "sum", there, dims_of(input, dim), keepdim, "i64")
    dtype_ = input.dtype
    return elementwise(c, operation("div"), total, number, takes=dtype_, gives=dtype_)


@row("trace")
def trace(c: Lowering, input: Value) -> Value:
    rows, columns = input.sizes
    length = minimum(rows, columns)
    gives = input.dtype if input.dtype in FLOATS else "i64"

    def at(index: Index) -> Scalar:
        return cast(input.at((index[0], index[0])), gives)

    return sum_(c, c.values.new((length,), gives, at, (input,)), 0, False, dtype=None)
