"""Convolutions: one call of the tensor library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.matmul import materialized
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import elementwise
from anyshape.graph.values import NotLowered, Value
from anyshape.loops.expr import FLOATS
from anyshape.loops.program import Area, Extern
from anyshape.ops.meta import channels_last
from anyshape.symbolic import ge

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def _numbers(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each dimension of space."""
    items = list(value) if isinstance(value, tuple | list) else [value] * rank
    items = items * rank if len(items) == 1 else items
    if len(items) != rank or not all(type(item) is int for item in items):
        raise NotLowered("a stride or padding that is not known")
    return tuple(items)


def _area(c: Lowering, value: Value) -> Area:
    memory = materialized(c, value)
    return Area(memory.buffer, value.sizes, memory.strides, memory.offset)


def _by_pixels(c: Lowering, image: Value) -> Value:
    """The image with the channels of a pixel side by side."""
    wanted = c.result.like(image.sizes, layout=channels_last(4))
    known = c.meta_of(image)
    if image.memory is None and known is not None and known.layout == wanted.layout:
        c.materialize(image)
    if image.memory is None or not c.has_layout(image.memory, wanted):
        image = elementwise(c, lambda x: x, image, takes=image.dtype, gives=image.dtype)
        c.materialize(image, wanted)
    return image


def convolution_row(name: str, rank: int) -> None:
    @row(name)
    def lowered(
        c: Lowering,
        input: Value,
        weight: Value,
        bias: Value | None,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: Any,
    ) -> Value:
        tensors = [input, weight, *([] if bias is None else [bias])]
        if {value.dtype for value in tensors} != {input.dtype} or input.dtype not in FLOATS:
            raise NotLowered("a convolution of several dtypes, or of integers")
        if len(input.sizes) != rank + 2 or type(groups) is not int:
            raise NotLowered("no batch of images")
        for size in (*input.sizes, *c.result.shape):
            c.assume(ge(size, 1), "a convolution of nothing")
        steps = [_numbers(each, rank) for each in (stride, padding, dilation)]
        if c.node in c.pixels.convolutions:
            tensors[0] = _by_pixels(c, input)
        made, kept = c.fresh_as(c.result.shape, input.dtype, c.stored_as(c.result))
        areas = [_area(c, value) for value in tensors]
        whole = Area(kept.buffer, c.result.shape, kept.strides)
        arguments = (
            *(whole, areas[0], areas[1], None if bias is None else areas[2]),
            *(*steps, False, (0,) * rank, groups),
        )
        c.extern(Extern("convolution", arguments), [area.buffer for area in areas], [kept.buffer])
        return made


for _name, _rank in (("conv1d", 1), ("conv2d", 2), ("conv3d", 3)):
    convolution_row(_name, _rank)
