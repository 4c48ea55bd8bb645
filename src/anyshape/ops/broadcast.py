"""Broadcasting of shapes, and the layout of what a pointwise operator returns."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.ops.meta import Dense, Layout, Meta, contiguous
from anyshape.ops.questions import Questions
from anyshape.symbolic import Size, eq, ge, le


def broadcast(q: Questions, shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The common shape. Sizes that are not known to be equal are decided by this run: equal, or 1 and stretched."""
    if len(shapes) == 1:
        return shapes[0]
    first = shapes[0]
    if all(shape == first for shape in shapes[1:]):
        return first
    rank = max(map(len, shapes))
    result: list[Size] = []
    for position in range(-rank, 0):
        size: Size = 1
        for shape in shapes:
            if len(shape) >= -position:
                size = _stretched(q, size, shape[position])
        result.append(size)
    return tuple(result)


def _stretched(q: Questions, a: Size, b: Size) -> Size:
    if a is b or a == b or b == 1:
        return a
    if a == 1 or q.same(a, b):
        return b
    now_a, now_b = q.facts.hint(a), q.facts.hint(b)
    if now_a is None or now_b is None or now_a == now_b:
        # Equal in this run. Another run may stretch one of them, which is another program.
        q.decide_or(eq(a, b), True, "operands of the same size here; a size of 1 would be stretched")
        return a if isinstance(a, int) else b
    if now_a == 1 and q.decide(eq(a, 1), "a dimension of size 1 is stretched"):
        return b
    if now_b == 1 and q.decide(eq(b, 1), "a dimension of size 1 is stretched"):
        return a
    raise q.fail(f"sizes {a} and {b} neither are equal nor is one of them 1")


def pointwise_layout(q: Questions, shape: tuple[Size, ...], operands: Sequence[Meta]) -> Layout:
    """The layout of a fresh result: dense, its dimensions in the order of the operands' strides, earlier operands first.

    Where operands are dense in one order, so is the result. The order of two dimensions matters only where both are above 1, hence
    sizes of 0 and 1 need no decision.
    """
    rank = len(shape)
    usual = contiguous(rank)
    full = [operand for operand in operands if operand.shape == shape]
    if len(full) == len(operands) and full:
        layout = full[0].layout
        if isinstance(layout, Dense) and all(operand.layout == layout for operand in full):
            return layout
    if rank < 2 or all(operand.is_contiguous for operand in operands):
        return usual
    order: list[int] = []  # innermost first
    for dim in range(rank - 1, -1, -1):
        place = len(order)
        while place and _is_inside(q, dim, order[place - 1], shape, operands):
            place -= 1
        order.insert(place, dim)
    return Dense(tuple(reversed(order)))


def _is_inside(
    q: Questions, dim: int, other: int, shape: tuple[Size, ...], operands: Sequence[Meta]
) -> bool:
    """Whether `dim` is to lie further inside than `other`: its stride is smaller in the first operand that can tell."""
    for operand in operands:
        missing = len(shape) - operand.rank
        a, b = dim - missing, other - missing
        if a < 0 or b < 0 or operand.shape[a] == 1 or operand.shape[b] == 1:
            continue
        if isinstance(operand.layout, Dense):
            return operand.layout.order.index(a) > operand.layout.order.index(b)
        stride_a, stride_b = operand.strides[a], operand.strides[b]
        if stride_a == 0 or stride_b == 0:
            continue
        if q.same(stride_a, stride_b):
            if q.known(ge(operand.shape[a], operand.shape[b])):
                continue
            return q.known(le(operand.shape[a], operand.shape[b]))
        return not q.decide(ge(stride_a, stride_b), "the order of strides decides the result's layout")
    return False
