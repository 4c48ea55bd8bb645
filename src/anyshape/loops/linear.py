"""Sizes as linear functions of axes: coefficients, and axes that can run as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.expr import atom_at, polynomial

#: Whether two sizes are equal whenever a kernel runs.
ProvablyEqual = Callable[[Size, Size], bool]
#: What a size was when the program was captured; None if nobody knows.
Hint = Callable[[Size], int | None]


def coefficient(size: Size, axis: Symbol) -> tuple[Size, Size] | None:
    """`(a, b)` with `size == a * axis + b` and neither depending on the axis; None if it is not
    linear in it."""
    if isinstance(size, int) or axis not in size.symbols:
        return 0, size
    factor: dict[tuple[int, ...], int] = {}
    rest: dict[tuple[int, ...], int] = {}
    for monomial, number in size.terms:
        count = 0
        others: list[int] = []
        for index in monomial:
            atom = atom_at(index)
            if atom is axis:
                count += 1
            else:
                if not isinstance(atom, Symbol) and _mentions(index, axis):
                    return None
                others.append(index)
        if count > 1:
            return None
        (factor if count else rest)[tuple(others)] = number
    return polynomial(factor), polynomial(rest)


def _mentions(index: int, axis: Symbol) -> bool:
    return axis in polynomial_symbols(index)


def polynomial_symbols(index: int) -> frozenset[Symbol]:
    found = polynomial({(index,): 1})
    assert isinstance(found, Expr)
    return found.symbols


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
