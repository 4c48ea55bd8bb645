"""How torch goes over operands that it computes element by element, where sizes are 1.

The stride of a dimension of size 1 is no element's business, and `broadcast.pointwise_layout` says
the layout of a result for all sizes. But torch reads such strides when it looks for channels-last
tensors, and hands the answer on to larger results: a batch of 1 behind attention. In a run that
has sizes of 1, what torch does is done with numbers, and if it makes that difference, the sizes
are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.meta import (
    Dense,
    Meta,
    channels_last,
    contiguous,
    dense_strides,
    suggests_channels_last,
)
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq

Numbers = tuple[int, ...]


def iterated_layout(
    q: ShapeQuery, shape: tuple[Size, ...], operands: Sequence[Meta], *, numbers: bool = False
) -> Dense:
    """The layout of a fresh result; `numbers`: there are numbers among the operands, too."""
    usual = pointwise_layout(q, shape, operands)
    if len(shape) not in (4, 5) or all(operand.is_contiguous for operand in operands):
        return usual
    sizes = _now(q, shape)
    if sizes is None or 1 not in sizes or 0 in sizes:
        return usual
    given = [(_now(q, operand.shape), _now(q, operand.strides)) for operand in operands]
    known = [(a, b) for a, b in given if a is not None and b is not None]
    if len(known) < len(given):
        return usual
    found = _order(sizes, known, numbers, usual)
    if _suggests(sizes, found) == _suggests(sizes, usual.order):
        return usual
    for size, now in zip(shape, sizes, strict=True):
        if now == 1:
            q.decide(eq(size, 1), "strides of sizes of 1 tell channels-last tensors")
    return Dense(found)


def _now(q: ShapeQuery, sizes: Sequence[Size]) -> Numbers | None:
    """The numbers that they are in this run, if all are known."""
    found = [q.facts.hint(size) for size in sizes]
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(found) else None


def _suggests(sizes: Numbers, order: Numbers) -> bool:
    return suggests_channels_last(sizes, dense_strides(sizes, order))


def _order(
    sizes: Numbers, operands: Sequence[tuple[Numbers, Numbers]], numbers: bool, usual: Dense
) -> Numbers:
    """The dimensions of the result from the outermost in."""
    rank = len(sizes)
    if not numbers and all(shape == sizes for shape, _ in operands):
        # Short cuts for operands of one shape.
        for layout in (contiguous(rank), *((channels_last(4),) if rank == 4 else ())):
            wanted = dense_strides(sizes, layout.order)
            if all(_is_dense(sizes, strides, wanted) for _, strides in operands):
                return layout.order
        if len({strides for _, strides in operands}) == 1:
            return usual.order
    order = list(range(rank - 1, -1, -1))  # innermost first
    for start in range(1, rank):
        moving = start
        for place in range(start - 1, -1, -1):
            relation = _compare(sizes, operands, order[place], order[moving])
            if relation < 0:
                break
            if relation > 0:
                order[place], order[moving] = order[moving], order[place]
                moving = place
    return tuple(reversed(order))


def _is_dense(sizes: Numbers, strides: Numbers, wanted: Sequence[Size]) -> bool:
    return all(
        size == 1 or stride == other
        for size, stride, other in zip(sizes, strides, wanted, strict=True)
    )


def _compare(sizes: Numbers, operands: Sequence[tuple[Numbers, Numbers]], a: int, b: int) -> int:
    """Positive if dimension `a` goes outside of `b`, negative if it stays inside, else 0."""
    for shape, strides in operands:
        missing = len(sizes) - len(shape)
        steps = [
            0 if dim < missing or shape[dim - missing] != sizes[dim] else strides[dim - missing]
            for dim in (a, b)
        ]
        if 0 in steps:
            continue
        if steps[0] != steps[1]:
            return 1 if steps[0] > steps[1] else -1
        if sizes[a] > sizes[b]:
            return 1
    return 0
