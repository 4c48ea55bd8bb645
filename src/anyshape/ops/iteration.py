"""How torch goes over operands that it computes element by element, where sizes are 1.

The stride of a dimension of size 1 is no element's business, and `broadcast.pointwise_layout` says
the layout of a result for all sizes. But torch reads such strides when it looks for channels-last
tensors, and hands the answer on to larger results: a batch of 1 behind attention. In a run that
has sizes of 1, what torch does is done with numbers, and if it makes that difference, the sizes
are told apart. In other runs, sizes are told apart from 1 where it would be so, and where operands
disagree about the order of dimensions: torch's sort stops at the first pair that is in order, and
goes on behind one whose strides are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

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
from anyshape.symbolic import Size, and_, eq, evaluate
from anyshape.symbolic.expr import bare_symbol, of_atom, symbols_of

Numbers = tuple[int, ...]
#: shape, order of dimensions where there are no gaps, strides
Operand = tuple[tuple[Size, ...], tuple[int, ...] | None, tuple[Size, ...]]


def iterated_layout(
    q: ShapeQuery, shape: tuple[Size, ...], operands: Sequence[Meta], *, numbers: bool = False
) -> Dense:
    """The layout of a fresh result; `numbers`: there are numbers among the operands, too."""
    usual = pointwise_layout(q, shape, operands)
    if len(shape) < 2 or all(operand.is_contiguous for operand in operands):
        return usual
    usual = _apart_from_ones(q, shape, operands, numbers, usual)
    if len(shape) not in (4, 5):
        return usual
    sizes = _now(q, shape)
    if sizes is None or 1 not in sizes or 0 in sizes:
        return usual
    found = _with_ones(q, shape, operands, numbers, usual).order
    if _suggests(sizes, found) == _suggests(sizes, usual.order):
        return usual
    for size, now in zip(shape, sizes, strict=True):
        if now == 1:
            q.decide(eq(size, 1), "strides of sizes of 1 tell channels-last tensors")
    return Dense(found)


def _apart_from_ones(
    q: ShapeQuery, shape: tuple[Size, ...], operands: Sequence[Meta], numbers: bool, usual: Dense
) -> Dense:
    """The layout, with guards where sizes of 1 would change it."""
    known, given, values = _described(q, shape, operands)
    for ones in _decisive(values, known, given, numbers, usual):
        are_one = and_(*(eq(size, 1) for size in ones))
        if q.decide(are_one, _WHY):
            now = _with_ones(q, shape, operands, numbers, usual)
            known, given, values = _described(q, shape, operands)
            if _differs(dict(values), known, given, numbers, now):
                # Others that are 1 in this run have a part in it.
                for size in known:
                    q.decide(eq(size, 1), _WHY)
            return _apart_from_ones(q, shape, operands, numbers, now)
    return usual


_WHY: Final = "sizes of 1 take another place in the result's layout"


def _described(
    q: ShapeQuery, shape: Sequence[Size], operands: Sequence[Meta]
) -> tuple[tuple[Size, ...], tuple[Operand, ...], tuple[tuple[Size, int], ...]]:
    """The shape and the operands as they are known by now, and numbers for sizes."""
    known = _known(q, shape)
    given: list[Operand] = []
    for each in operands:
        order = each.layout.order if isinstance(each.layout, Dense) else None
        given.append((_known(q, each.shape), order, _known(q, each.strides)))
    return known, tuple(given), _values(q, known, given)


def _known(q: ShapeQuery, sizes: Sequence[Size]) -> tuple[Size, ...]:
    """One name for equal sizes, and numbers where they are known: what is 1 is stretched."""
    return tuple(size if isinstance(size, int) else q.facts.simplify(size) for size in sizes)


def _values(
    q: ShapeQuery, shape: Sequence[Size], given: Sequence[Operand]
) -> tuple[tuple[Size, int], ...]:
    """Symbols, and sizes that are computed, as they are in this run, in which strides have been
    compared; others for those that are below 2."""
    sizes = [*shape, *(size for own, _, strides in given for size in (*own, *strides))]
    symbols = {symbol for size in sizes for symbol in symbols_of(size)}
    atoms: list[Size] = [of_atom(symbol) for symbol in sorted(symbols, key=str)]
    computed = [size for own in (shape, *(own for own, _, _ in given)) for size in own]
    found = dict.fromkeys([*atoms, *(size for size in computed if not isinstance(size, int))])
    known = [(size, q.facts.hint(size)) for size in found]
    return tuple((s, n if n and n > 1 else 5 + 2 * place) for place, (s, n) in enumerate(known))


@lru_cache(maxsize=4096)
def _decisive(
    values: tuple[tuple[Size, int], ...],
    shape: tuple[Size, ...],
    given: tuple[Operand, ...],
    numbers: bool,
    usual: Dense,
) -> tuple[tuple[Size, ...], ...]:
    """Sizes of which it matters whether they are 1, alone or two at a time."""
    sizes = list(dict.fromkeys(size for size in shape if _may_be_one(size)))
    decisive: list[tuple[Size, ...]] = []
    for ones in (*((size,) for size in sizes), *combinations(sizes, 2)):
        if any((size,) in decisive for size in ones):
            continue
        then = {**dict(values), **dict.fromkeys(ones, 1)}
        if _differs(then, shape, given, numbers, usual):
            decisive.append(ones)
    return tuple(decisive)


def _differs(
    values: Mapping[Size, int],
    shape: Sequence[Size],
    given: Sequence[Operand],
    numbers: bool,
    usual: Dense,
) -> bool:
    """Whether with these numbers the layout is another one."""
    now = _evaluated(values, shape)
    operands = [_with_strides(values, each) for each in given]
    return _differ(now, _order(now, operands, numbers, usual), usual.order)


def _with_strides(values: Mapping[Size, int], operand: Operand) -> tuple[Numbers, Numbers]:
    """Shape and strides in numbers. Sizes that are computed have numbers of their own, of which
    strides without gaps are made."""
    shape, order, strides = operand
    sizes = _evaluated(values, shape)
    return sizes, _evaluated(values, strides if order is None else dense_strides(sizes, order))


def _may_be_one(size: Size) -> bool:
    if isinstance(size, int):
        return False
    symbol = bare_symbol(size)
    lower = None if symbol is None else symbol.declared.lower
    return lower is None or lower <= 1


def _evaluated(values: Mapping[Size, int], sizes: Sequence[Size]) -> Numbers:
    atoms = {symbol: number for size, number in values.items() if (symbol := bare_symbol(size))}
    return tuple(
        size if isinstance(size, int) else values.get(size) or evaluate(size, atoms)
        for size in sizes
    )


def _differ(sizes: Numbers, order: Numbers, usual: Numbers) -> bool:
    """Whether the dimensions above 1 are in another order, or torch would see other formats."""
    one, other = ([dim for dim in each if sizes[dim] != 1] for each in (order, usual))
    if one != other:
        return True
    return len(sizes) in (4, 5) and _suggests(sizes, order) != _suggests(sizes, usual)


def _with_ones(
    q: ShapeQuery, shape: tuple[Size, ...], operands: Sequence[Meta], numbers: bool, usual: Dense
) -> Dense:
    """The layout in this run, which has sizes of 1."""
    sizes = _now(q, shape)
    given = [(_now(q, operand.shape), _now(q, operand.strides)) for operand in operands]
    known = [(a, b) for a, b in given if a is not None and b is not None]
    if sizes is None or len(known) < len(given):
        return usual
    return Dense(_order(sizes, known, numbers, usual))


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
