"""Minimum and maximum, in canonical form.

max(s0, 0)              gives  s0        (a size is not below 0)
min(s0, s0 + 2, s1)     gives  min(s0, s1)
max(min(s0, s1), s0)    gives  s0
"""

from __future__ import annotations

from typing import Final

from anyshape.errors import SymbolicTypeError
from anyshape.symbolic.bounds import DECLARED, Bounds
from anyshape.symbolic.expr import (
    Expr,
    Max,
    Min,
    Size,
    check_size,
    function_of_many,
    negate,
    single_atom,
)

_FOUND: Final[dict[tuple[object, ...], Size]] = {}


def minimum(*sizes: Size) -> Size:
    return _extreme(Min, sizes)


def maximum(*sizes: Size) -> Size:
    return _extreme(Max, sizes)


def absolute(size: Size) -> Size:
    return maximum(size, negate(size))


def _extreme(kind: type[Min] | type[Max], sizes: tuple[Size, ...]) -> Size:
    if not sizes:
        raise SymbolicTypeError(detail=f"{kind.__name__.lower()}() of nothing")
    sizes = tuple(check_size(size) for size in sizes)
    key = (kind, *sizes)
    found = _FOUND.get(key)
    if found is None:
        found = _FOUND[key] = extreme_under(kind, sizes, DECLARED)
    return found


def extreme_under(kind: type[Min] | type[Max], sizes: tuple[Size, ...], bounds: Bounds) -> Size:
    """The canonical form, leaving out arguments that `bounds` shows never to win."""
    kept: list[Size] = []
    for candidate in _flattened(kind, sizes):
        if any(_beats(kind, other, candidate, bounds) for other in kept):
            continue
        kept = [other for other in kept if not _beats(kind, candidate, other, bounds)]
        kept.append(candidate)
    if len(kept) == 1:
        return kept[0]
    return function_of_many(kind, tuple(sorted(kept, key=_order)))


def _flattened(kind: type[Min] | type[Max], sizes: tuple[Size, ...]) -> list[Size]:
    flat: list[Size] = []
    for size in sizes:
        atom = single_atom(size)
        flat.extend(atom.arguments if isinstance(atom, kind) else (size,))
    return flat


def _beats(kind: type[Min] | type[Max], a: Size, b: Size, bounds: Bounds) -> bool:
    """True if `b` may be left out beside `a`."""
    if a == b:
        return True
    # max(x, min(x, y)) == x and min(x, max(x, y)) == x.
    atom = single_atom(b)
    if isinstance(atom, Min if kind is Max else Max) and a in atom.arguments:
        return True
    return bounds.at_least(b, a) if kind is Min else bounds.at_least(a, b)


def _order(size: Size) -> tuple[int, object]:
    return (1, size.terms) if type(size) is Expr else (0, size)
