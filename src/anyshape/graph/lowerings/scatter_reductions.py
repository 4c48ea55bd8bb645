"""Scatters that combine: sums, products, extremes and means of what goes to one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import constant_like, op, test, where
from anyshape.graph.lowerings.scattering import adds_exactly, per_element, scatter_row
from anyshape.graph.pointwise_builder import elementwise
from anyshape.graph.values import NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Dtype, Scalar
from anyshape.loops.kernels import Mode
from anyshape.symbolic import Size

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

#: by name: how to combine, and what counts for nothing
_REDUCTIONS: dict[str, tuple[Mode, float]] = {
    "sum": ("add", 0),
    "mean": ("add", 0),
    "prod": ("mul", 1),
    "amax": ("maximum", -math.inf),
    "amin": ("minimum", math.inf),
}


def scatter_reduce(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    src: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """What one pass does."""
    if reduce == "mean" or reduce not in _REDUCTIONS or not include_self or dtype == "b1":
        raise NotLowered(f"a scatter by `{reduce}`")
    return per_element(c, sizes, dtype, dim, index, src, _REDUCTIONS[reduce][0])


def scatter_reduce_in_passes(
    c: Lowering,
    input: Value,
    dim: Any,
    index: Value,
    src: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """Places are emptied first if what was there does not count; a mean counts what it adds."""
    dtype = input.dtype
    if reduce not in _REDUCTIONS or dtype not in FLOATS:
        raise NotLowered(f"a scatter of {dtype} by `{reduce}`")
    mode, nothing = _REDUCTIONS[reduce]
    value, index_map, _, _ = per_element(c, input.sizes, dtype, dim, index, src, mode)
    adds_exactly(mode, dtype)

    def filled_with(number: float, shape: Sequence[Size]) -> Value:
        return c.values.new(shape, dtype, lambda _: expr.constant(number, dtype))

    base = input
    if not include_self:
        empty = filled_with(nothing, value.sizes)
        base = c.scattered(base, empty, index_map, "set", c.result)
    made = c.scattered(base, value, index_map, mode, c.result)
    if reduce != "mean":
        return made
    ones, before = filled_with(1, value.sizes), filled_with(float(include_self), input.sizes)
    counts = c.scattered(before, ones, index_map, "add", c.result)

    def mean(total: Scalar, count: Scalar) -> Scalar:
        one = expr.constant(1, count.dtype)
        return op("div", total, where(test("eq", count, constant_like(0, count)), one, count))

    return elementwise(c, mean, made, counts)


scatter_row("scatter_reduce", scatter_reduce, scatter_reduce_in_passes)
