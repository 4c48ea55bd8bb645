"""Rows of a table by their numbers, and numbers as rows with a single one in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.indexing import Positions
from anyshape.graph.lowerings.pointwise import op, test
from anyshape.graph.lowerings.reductions import divided_by
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import cast
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import HALVES, Scalar

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def looked_up(c: Lowering, weight: Value, indices: Value) -> Value:
    if len(weight.sizes) != 2:
        raise NotLowered("a table that is no matrix")
    positions = Positions(c, indices, weight.sizes[0], wraps=False)

    def at(index: Index) -> Scalar:
        return weight.at((positions.at(index[:-1]), index[-1]))

    sizes = (*indices.sizes, weight.sizes[1])
    return c.values.new(sizes, weight.dtype, at, (weight, indices), cost=1)


@row("embedding")
def embedding(
    c: Lowering,
    input: Value,
    weight: Value,
    padding_idx: Any,
    max_norm: Any,
    norm_type: Any,
    scale_grad_by_freq: Any,
    sparse: Any,
) -> Value:
    if max_norm is not None:
        raise NotLowered("the table is renormalised")
    return looked_up(c, weight, input)


@row("torch.embedding")
def of_weight(c: Lowering, weight: Value, indices: Value, **_: Any) -> Value:
    return looked_up(c, weight, indices)


@row("embedding_bag")
def embedding_bag(
    c: Lowering,
    input: Value,
    weight: Value,
    offsets: Any,
    max_norm: Any,
    norm_type: Any,
    scale_grad_by_freq: Any,
    mode: Any,
    sparse: Any,
    per_sample_weights: Any,
    include_last_offset: Any,
    padding_idx: Any,
) -> Value:
    """A matrix of positions: a bag in each row."""
    if max_norm is not None or padding_idx is not None:
        raise NotLowered("rows that are renormalised or left out")
    if offsets is not None or len(input.sizes) != 2:
        raise NotLowered("bags of unlike sizes")
    if weight.dtype in HALVES or input.dtype not in ("i32", "i64"):
        raise NotLowered("sums of two bytes")
    found = looked_up(c, weight, input)
    if per_sample_weights is not None:
        if mode != "sum" or per_sample_weights.dtype != weight.dtype:
            raise NotLowered("weights of another kind")
        plain, shares = found, per_sample_weights

        def weighted(index: Index) -> Scalar:
            return op("mul", plain.at(index), shares.at(index[:-1]))

        found = c.values.new(plain.sizes, plain.dtype, weighted, (plain, shares), cost=2)
    fold = {"sum": "sum", "mean": "sum", "max": "max"}.get(mode)
    if fold is None:
        raise NotLowered(f"bags by {mode}")
    total = c.values.reduction(fold, found, [1], weight.dtype, keep=False)
    return divided_by(c, total, input.sizes[1]) if mode == "mean" else total


@row("one_hot")
def one_hot(c: Lowering, input: Value, num_classes: Any) -> Value:
    if type(num_classes) is int and num_classes < 0:
        raise NotLowered("the number of classes depends on the data")
    if input.dtype != "i64":
        raise NotLowered("classes of 64 bits are needed")
    Positions(c, input, num_classes, wraps=False)

    def at(index: Index) -> Scalar:
        return cast(test("eq", input.at(index[:-1]), expr.index(index[-1])), "i64")

    return c.values.new((*input.sizes, num_classes), "i64", at, (input,), cost=2)
