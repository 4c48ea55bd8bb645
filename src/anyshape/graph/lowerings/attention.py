"""Attention: one call of the tensor library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import chosen
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import elementwise
from anyshape.graph.values import Memory, NotLowered, Value
from anyshape.loops.expr import FLOATS
from anyshape.loops.program import Area, Extern
from anyshape.symbolic import Size, eq, ge

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


@row("scaled_dot_product_attention")
def attention(
    c: Lowering,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: Any,
    is_causal: Any,
    *,
    scale: Any,
    enable_gqa: Any,
) -> Value:
    if dropout_p != 0 or enable_gqa or not isinstance(is_causal, bool):
        raise NotLowered("dropout, or heads in groups")
    if not (scale is None or type(scale) is float):
        raise NotLowered("a scale that is computed")
    tensors = (query, key, value)
    if any(len(each.sizes) != 4 or each.dtype != query.dtype for each in tensors):
        raise NotLowered("not a batch of heads")
    if query.dtype not in FLOATS:
        raise NotLowered("attention of integers")
    batch, heads, rows, width = query.sizes
    columns = key.sizes[2]
    wanted = (batch, heads, columns, width)
    for other in (key, value):
        for own, size in zip(other.sizes, wanted, strict=True):
            c.assume(eq(own, size), "heads or widths that differ")
    for size in (batch, heads, rows, columns, width):
        # Over no keys it is 0, which the library's function does not say.
        c.assume(ge(size, 1), "attention over nothing")
    mask = None if attn_mask is None else _mask(c, attn_mask, query, (batch, heads, rows, columns))
    if mask is not None and is_causal:
        raise NotLowered("a mask beside the causal one")
    made, kept = c.fresh_as(query.sizes, query.dtype, c.result)
    areas = [_area(c, each) for each in tensors]
    whole = Area(kept.buffer, query.sizes, kept.strides)
    arguments = (whole, None, *areas, 0.0, is_causal, mask, scale)
    reads = [area.buffer for area in areas] + ([] if mask is None else [mask.buffer])
    c.extern(Extern("_scaled_dot_product_flash_attention_for_cpu", arguments), reads, [kept.buffer])
    return made


def _area(c: Lowering, value: Value) -> Area:
    """Where a tensor is, with its last dimension contiguous as the library wants it."""
    memory = value.memory
    if memory is None or memory.strides[-1] != 1:
        copy = elementwise(c, lambda x: x, value, takes=value.dtype, gives=value.dtype)
        memory = c.materialize(copy)
    return Area(memory.buffer, value.sizes, memory.strides, memory.offset)


def _mask(c: Lowering, mask: Value, query: Value, sizes: tuple[Size, ...]) -> Area:
    """What is added to the scores: a mask of booleans becomes 0 and minus infinity."""
    if len(mask.sizes) not in (2, 4):
        raise NotLowered("a mask of other dimensions")
    for own, wanted in zip(mask.sizes, sizes[-len(mask.sizes) :], strict=True):
        if own != 1:
            c.assume(eq(own, wanted), "a mask of other sizes")
    if mask.dtype == "b1":
        mask = chosen(c, mask, 0.0, float("-inf"), query.dtype)
    elif mask.dtype != query.dtype:
        raise NotLowered("a mask of another dtype")
    memory: Memory = c.materialize(mask) if mask.memory is None else mask.memory
    return Area(memory.buffer, mask.sizes, memory.strides, memory.offset)
