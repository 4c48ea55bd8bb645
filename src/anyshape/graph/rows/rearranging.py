"""The elements of a tensor at other places, or several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.handles import IndexMap
from anyshape.graph.rows.table import row
from anyshape.graph.values import Factors, Index, Value
from anyshape.loops.indices import merged, reshaped
from anyshape.loops.scalars import Scalar
from anyshape.symbolic import Size

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


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


@row("reshape", "reshape_as", "flatten", "ravel", "view_copy")
def reshape(c: Lowering, input: Value, *_: Any, **__: Any) -> Value:
    return in_shape(c, input, c.result.shape)
