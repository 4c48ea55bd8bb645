"""Positions in reshaped tensors: division by the size of an inner dimension, where it comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.symbolic import Answer, Facts, Size, Symbol, floordiv, ge, modulo, product
from anyshape.symbolic.expr import atom_at, of_atom, polynomial, terms_of

Extents = Mapping[Symbol, Size]


def split(position: Size, inner: Size, extents: Extents, facts: Facts) -> tuple[Size, Size]:
    """`position // inner` and `position % inner` for a position in memory order. Without a division
    where the terms tell: `i*n + j` with `j < n`."""
    if inner == 1:
        return position, 0
    if inner == 0:
        return 0, 0  # A tensor without elements: nobody asks.
    if isinstance(position, int) and isinstance(inner, int):
        return divmod(position, inner)
    parts = divided(position, inner)
    if parts is not None:
        quotient, rest = parts
        if rest == 0 or _is_below(rest, inner, extents, facts):
            return quotient, rest
    return floordiv(position, inner), modulo(position, inner)


def divided(position: Size, inner: Size) -> tuple[Size, Size] | None:
    """The terms that `inner` divides, divided, and the rest."""
    terms = terms_of(inner)
    if len(terms) != 1:
        return None
    ((divisor, factor),) = terms
    quotient: dict[tuple[int, ...], int] = {}
    rest: dict[tuple[int, ...], int] = {}
    for monomial, coefficient in terms_of(position):
        left = _without(monomial, divisor)
        if left is None or coefficient % factor:
            rest[monomial] = coefficient
        else:
            quotient[left] = coefficient // factor
    return polynomial(quotient), polynomial(rest)


def _without(monomial: tuple[int, ...], divisor: tuple[int, ...]) -> tuple[int, ...] | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _is_below(rest: Size, bound: Size, extents: Extents, facts: Facts) -> bool:
    """Whether 0 <= rest < bound wherever the axes are within their extents."""
    largest = _largest(rest, extents)
    if largest is None:
        return False
    room = bound - 1 - largest
    return room >= 0 if isinstance(room, int) else facts.prove(ge(room, 0)) is Answer.YES


def _largest(size: Size, extents: Extents) -> Size | None:
    """The value at the ends of all axes, for a sum of nonnegative terms linear in each axis."""
    if isinstance(size, int):
        return size if size >= 0 else None
    result: Size = 0
    for monomial, coefficient in size.terms:
        if coefficient < 0:
            return None
        factors: list[Size] = []
        for index in monomial:
            atom = atom_at(index)
            if not isinstance(atom, Symbol):
                return None
            extent = extents.get(atom)
            # A size is at least 0: the sign of the term stays.
            factors.append(of_atom(atom) if extent is None else extent - 1)
        result = result + product(factors) * coefficient
    return result


def reshaped(
    index: Sequence[Size],
    sizes: Sequence[Size],
    wanted: Sequence[Size],
    extents: Extents,
    facts: Facts,
) -> tuple[Size, ...]:
    """The index into a tensor of `wanted` sizes of the element that is at `index` of a contiguous
    one of `sizes`, both of as many elements."""
    result: list[Size] = []
    for positions, group, target in groups(index, sizes, wanted):
        position: Size = 0
        for at, size in zip(positions, group, strict=True):
            position = position * size + at
        parts: list[Size] = []
        for place in range(len(target)):
            inner = product(list(target[place + 1 :]))
            if place == len(target) - 1:
                parts.append(position)
                break
            whole, position = split(position, inner, extents, facts)
            parts.append(whole)
        result += parts
    return tuple(result)


def groups(index: Sequence[Size], sizes: Sequence[Size], wanted: Sequence[Size]):
    """Dimensions that together have as many elements as dimensions of the other shape, in order:
    each group is reshaped on its own."""
    start, at = 0, 0
    while start < len(sizes) or at < len(wanted):
        stop, end = start, at
        have: Size = 1
        want: Size = 1
        if start < len(sizes) and at < len(wanted) and sizes[start] == wanted[at]:
            stop, end = start + 1, at + 1
        else:
            while True:
                if have == want and (stop > start or end > at):
                    break
                if stop == len(sizes) and end == len(wanted):
                    break
                if end == len(wanted) or (stop < len(sizes) and not _covers(have, want)):
                    have = have * sizes[stop]
                    stop += 1
                else:
                    want = want * wanted[end]
                    end += 1
        yield index[start:stop], sizes[start:stop], wanted[at:end]
        start, at = stop, end


def _covers(have: Size, want: Size) -> bool:
    """Whether to take more of the wanted sizes rather than of the given: what has fewer factors is
    behind."""
    if isinstance(have, int) and isinstance(want, int):
        return want < have
    return _degree(want) < _degree(have) or (
        _degree(want) == _degree(have) and _number(want) < _number(have)
    )


def _degree(size: Size) -> int:
    return 0 if isinstance(size, int) else max(len(monomial) for monomial, _ in size.terms)


def _number(size: Size) -> int:
    return size if isinstance(size, int) else max(abs(c) for _, c in size.terms)


def merged(
    own: Sequence[Sequence[Size]], sizes: Sequence[Size]
) -> tuple[tuple[Size, ...], ...] | None:
    """Of each of the sizes, the factors that come together in it, of those that the dimensions of a
    tensor have in order; None where some would have to be divided."""
    flat = [size for factors in own for size in factors]
    result: list[tuple[Size, ...]] = []
    for _, group, wanted in groups(flat, flat, sizes):
        if len(wanted) == 1:
            result.append(tuple(group))
        elif len(group) <= 1:
            result += [(size,) for size in wanted]
        else:
            return None
    return tuple(result) if len(result) == len(sizes) else None
