"""Sizes as linear functions of axes: coefficients, and axes that can run as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.expr import Monomial, atom_at, of_atom, polynomial

#: Whether two sizes are equal whenever a kernel runs.
ProvablyEqual = Callable[[Size, Size], bool]
#: What a size was when the program was captured; None if nobody knows.
Hint = Callable[[Size], int | None]


def coefficient(size: Size, axis: Symbol) -> tuple[Size, Size] | None:
    """`(a, b)` with `size == a * axis + b` and neither depending on the axis; None if it is not
    linear in it."""
    if isinstance(size, int) or axis not in size.symbols:
        return 0, size
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, number in size.terms:
        others = tuple(index for index in monomial if index != axis.index)
        count = len(monomial) - len(others)
        if count > 1 or any(axis in of_atom(atom_at(index)).symbols for index in others):
            return None
        (factor if count else rest)[others] = number
    return polynomial(factor), polynomial(rest)


def run_as_one(sizes: Iterable[Size], outer: Symbol, inner: Symbol, extent: Size) -> bool:
    """Whether all of these depend on `outer * extent + inner` only."""
    for size in sizes:
        by_inner = coefficient(size, inner)
        if by_inner is None:
            return False
        step, rest = by_inner
        by_outer = coefficient(rest, outer)
        if by_outer is None or by_outer[0] != step * extent:
            return False
        if isinstance(step, Expr) and outer in step.symbols:
            return False
    return True
