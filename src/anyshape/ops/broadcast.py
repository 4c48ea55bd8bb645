"""Broadcasting of shapes, and the layout of what a pointwise operator returns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from anyshape.errors import Contradiction
from anyshape.ops.meta import Dense, Meta, Strided, contiguous
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Facts, Size, and_, eq, ge, gt, le, lt, or_


def broadcast(q: ShapeQuery, shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The common shape. Sizes not known to be equal are equal in this run, or one is stretched."""
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


def _stretched(q: ShapeQuery, a: Size, b: Size) -> Size:
    if a is b or a == b or b == 1:
        return a
    if a == 1 or q.same(a, b):
        return b
    now_a, now_b = q.facts.hint(a), q.facts.hint(b)
    if now_a is None or now_b is None or now_a == now_b:
        # Equal in this run. Another run may stretch one of them, which is another program.
        q.decide_or(
            eq(a, b), True, "operands of the same size here; a size of 1 would be broadcast"
        )
        return a if isinstance(a, int) else b
    if now_a == 1 and q.decide(eq(a, 1), "a dimension of size 1 is broadcast"):
        return b
    if now_b == 1 and q.decide(eq(b, 1), "a dimension of size 1 is broadcast"):
        return a
    raise q.fail(f"sizes {a} and {b} neither are equal nor is one of them 1")


def pointwise_layout(q: ShapeQuery, shape: tuple[Size, ...], operands: Sequence[Meta]) -> Dense:
    """The layout of a fresh result: dense, its dimensions in the order of the operands' strides,
    earlier operands first.

    The order of two dimensions matters only where both are above 1, hence sizes of 0 and 1 need no
    decision.
    """
    rank = len(shape)
    if rank < 2 or all(operand.is_contiguous for operand in operands):
        return contiguous(rank)
    first = operands[0]
    # Its strides differ in all dimensions above 1, so nobody else is asked.
    if isinstance(first.layout, Dense) and q.same_all(first.shape, shape):
        return first.layout
    # Torch's own insertion sort: where no operand can tell two dimensions apart, it goes on without
    # moving anything.
    order = list(range(rank - 1, -1, -1))  # innermost first
    for start in range(1, rank):
        moving = start
        for place in range(start - 1, -1, -1):
            relation = _compare_strides(q, order[place], order[moving], shape, operands)
            apart = relation > 0 and moving - place > 1
            if apart and _finds_one(q, (order[place], order[moving]), shape, operands):
                # What lies between would change places, too: from the beginning, with what is known
                # now.
                return pointwise_layout(q, shape, operands)
            if relation < 0:
                break
            if relation > 0:
                order[place], order[moving] = order[moving], order[place]
                moving = place
    return Dense(tuple(reversed(order)))


def _compare_strides(
    q: ShapeQuery, a: int, b: int, shape: tuple[Size, ...], operands: Sequence[Meta]
) -> int:
    """Negative if dimension `a` has the smaller stride in the first operand that can tell, positive
    if `b`, else 0.
    """
    for operand in operands:
        missing = len(shape) - operand.rank
        x, y = a - missing, b - missing
        if x < 0 or y < 0:
            continue
        if not (q.same(operand.shape[x], shape[a]) and q.same(operand.shape[y], shape[b])):
            continue  # stretched: its stride is 0
        if isinstance(operand.layout, Dense):
            return operand.layout.order.index(y) - operand.layout.order.index(x)
        relation = _compare_two(q, operand, x, y)
        if relation:
            return relation
    return 0


def _finds_one(
    q: ShapeQuery, dims: tuple[int, int], shape: tuple[Size, ...], operands: Sequence[Meta]
) -> bool:
    """Whether a size turns out to be 1, so that an operand of size 1 is not stretched: its stride
    counts.
    """
    reason = "a dimension of size 1 takes another place in the result's layout"
    for dim in dims:
        stretched = any(
            operand.rank >= len(shape) - dim and operand.shape[dim - len(shape)] == 1
            for operand in operands
        )
        if stretched and not q.same(shape[dim], 1) and q.decide(eq(shape[dim], 1), reason):
            return True
    return False


def _compare_two(q: ShapeQuery, operand: Meta, x: int, y: int) -> int:
    sizes, (a, b) = operand.shape, (operand.strides[x], operand.strides[y])
    if a == 0 or b == 0:
        return 0
    relation = _relation_for_all(sizes, a, b, x, y)
    if relation is None:
        relation = _relation(q.facts, sizes, a, b, x, y)
    if relation is not None:
        return relation
    reason = "the order of strides decides the result's layout"
    if q.decide(gt(a, b), reason):
        return 1
    if q.decide(lt(a, b), reason):
        return -1
    return int(q.decide(gt(sizes[x], sizes[y]), reason))  # of equal strides


@lru_cache(maxsize=4096)
def _relation_for_all(sizes: tuple[Size, ...], a: Size, b: Size, x: int, y: int) -> int | None:
    if isinstance(a, int) and isinstance(b, int) and a != b:
        return 1 if a > b else -1
    return _relation(Facts(), sizes, a, b, x, y)


def _relation(
    facts: Facts, sizes: tuple[Size, ...], a: Size, b: Size, x: int, y: int
) -> int | None:
    """How two strides compare where it matters: there are elements, and both sizes are above 1."""
    try:
        for size in sizes:
            facts = facts.assume(ge(size, 1), "")
    except Contradiction:
        return 0
    try:
        above_one = facts.assume(and_(ge(sizes[x], 2), ge(sizes[y], 2)), "")
    except Contradiction:
        return _relation_of_one(facts, sizes, a, b, x, y)
    return 1 if above_one.holds(gt(a, b)) else -1 if above_one.holds(lt(a, b)) else None


def _relation_of_one(
    facts: Facts, sizes: tuple[Size, ...], a: Size, b: Size, x: int, y: int
) -> int | None:
    """The same where a dimension is of size 1: its stride is compared all the same, and may move
    what lies between the two.
    """
    if facts.equal(a, b):
        return int(facts.equal(sizes[y], 1) and not facts.equal(sizes[x], 1))
    above, below = facts.holds(ge(a, b)), facts.holds(le(a, b))
    return above - below if above or below else None


def expanded(q: ShapeQuery, meta: Meta, shape: tuple[Size, ...]) -> Meta:
    """A view stretched to a shape that `broadcast` found."""
    missing = len(shape) - meta.rank
    strides = (
        *(0,) * missing,
        *(
            stride if q.same(size, wanted) else 0
            for size, wanted, stride in zip(meta.shape, shape[missing:], meta.strides, strict=True)
        ),
    )
    return meta.viewed(shape, strides)


def require_writable(q: ShapeQuery, target: Meta) -> None:
    """An in-place operator writes each element once: a stretched dimension has to be trivial.

    Operators that only fill take any target. Hence a run in which the sizes are larger says that
    this one does not mind.
    """
    if isinstance(target.layout, Strided):
        for size, stride in zip(target.shape, target.strides, strict=True):
            trivial = le(size, 1)
            if stride == 0 and q.facts.holds_now(trivial) is not False:
                q.require(trivial, "an expanded tensor is written in place")


def require_expands(q: ShapeQuery, shape: tuple[Size, ...], target: tuple[Size, ...]) -> None:
    """Require that a tensor of this shape stretches to `target`; which sizes are 1 does not matter
    to the result.
    """
    if len(shape) > len(target):
        raise q.fail(f"shape {shape} has more dimensions than {target}, to which it is expanded")
    for size, wanted in zip(reversed(shape), reversed(target), strict=False):
        if size is not wanted and size != 1:
            q.require(
                or_(eq(size, wanted), eq(size, 1)),
                f"size {size} is expanded to {wanted}: they must be equal, or the size 1",
            )
