"""Where the value of each dim is found: the first size that it can be computed from.

batch               itself
2*seq + 1           (size - 1) / 2, if nothing has the size `seq`
seq // 2            not enough: two values of `seq` give the same size
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.expr import of_atom, single_atom, symbols_of


class Home(NamedTuple):
    """`sizes[place]` is `factor * dim + rest`, and what `rest` is made of has a home before."""

    place: int
    dim: Symbol
    factor: int = 1
    rest: Size = 0

    @property
    def is_itself(self) -> bool:
        return self.factor == 1 and self.rest == 0


def homes_of(sizes: Sequence[Size]) -> tuple[list[Home], frozenset[Symbol]]:
    """Homes in an order in which they can be computed, and the dims that have none."""
    homes: dict[Symbol, Home] = {}
    for index, size in enumerate(sizes):
        dim = single_atom(size)
        if isinstance(dim, Symbol):
            homes.setdefault(dim, Home(index, dim))
    while True:
        found = next(_solvable(sizes, frozenset(homes)), None)
        if found is None:
            break
        homes[found.dim] = found
    every = frozenset[Symbol]().union(*map(symbols_of, sizes))
    return list(homes.values()), every - homes.keys()


def _solvable(sizes: Sequence[Size], known: frozenset[Symbol]) -> Iterator[Home]:
    for index, size in enumerate(sizes):
        missing = symbols_of(size) - known
        if isinstance(size, Expr) and len(missing) == 1:
            (dim,) = missing
            factor = _factor(size, dim)
            rest = size - factor * of_atom(dim)
            if factor and dim not in symbols_of(rest):
                yield Home(index, dim, factor, rest)


def _factor(size: Expr, dim: Symbol) -> int:
    return dict(size.terms).get((dim.index,), 0)
