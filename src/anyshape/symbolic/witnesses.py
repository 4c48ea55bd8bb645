"""Points at which the facts hold: enough to see that a question cannot be answered YES, or cannot
be answered NO.

Most questions of shape code that are undecided are so in an obvious way: true for one size, false
for another. Two such points cost microseconds to find, failing to find a proof costs milliseconds.
No proof is ever taken from here: a point that is none by mistake could only turn an answer into
UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anyshape.errors import UndefinedDivision
from anyshape.symbolic.evaluate import holds
from anyshape.symbolic.expr import Symbol, atom_at, of_atom
from anyshape.symbolic.knowledge import Knowledge
from anyshape.symbolic.logic import Fact, ge, ne, within, zero

#: Offsets from a symbol's least value, one row a point. 0 and 1 are where formulas differ.
_OFFSETS: Final = (
    (5, 7, 11, 6, 9, 8, 13),
    (0, 0, 0, 0, 0, 0, 0),
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 2, 4, 3, 2, 5),
    (0, 3, 1, 5, 0, 2, 1),
    (3, 0, 4, 1, 6, 0, 2),
    (16, 24, 8, 40, 12, 32, 48),
    (1, 0, 2, 0, 1, 7, 3),
    (63, 2, 17, 1, 31, 5, 127),
)
_MOST_POINTS: Final = 6

Point = dict[Symbol, int]


class Witnesses:
    """A few points at which what is known holds, in terms of the symbols that are not replaced."""

    __slots__ = ("_known", "_points")

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._points: list[tuple[tuple[int, ...], Point]] | None = None

    def tendency(self, fact: Fact) -> tuple[bool, bool]:
        """(true at some point, false at some point), for a fact in normal form."""
        if self._points is None:
            self._points = list(self._find())
        seen_true = seen_false = False
        for row, point in self._points:
            try:
                true = self._holds(fact, row, point)
            except UndefinedDivision:
                continue
            seen_true |= true
            seen_false |= not true
            if seen_true and seen_false:
                break
        return seen_true, seen_false

    def _find(self) -> Iterator[tuple[tuple[int, ...], Point]]:
        facts = list(_facts_of(self._known))
        found = 0
        for row in _OFFSETS:
            point: Point = {}
            try:
                if all(self._holds(fact, row, point) for fact in facts):
                    found += 1
                    yield row, point
            except UndefinedDivision:
                continue
            if found >= _MOST_POINTS:
                return

    def _holds(self, fact: Fact, row: tuple[int, ...], point: Point) -> bool:
        for symbol in fact.symbols:
            if symbol not in point:
                # The place depends on the name alone, so that answers are the same in every
                # process.
                place = sum(symbol.name.encode()) % len(row)
                point[symbol] = self._value(symbol, row[place])
        return holds(fact, point)

    def _value(self, symbol: Symbol, offset: int) -> int:
        low, high = self._known.bounds.of_atom(symbol.index)
        if low is None:
            return offset - 3 if high is None else high - offset
        return low + offset if high is None else min(low + offset, high)


def _facts_of(known: Knowledge) -> Iterator[Fact]:
    solved = known.solved
    yield from (ge(e, 0) for e in solved.inequalities)
    yield from (zero(e) for e in solved.equalities)
    yield from (ne(e, 0) for e in solved.nonzero)
    yield from solved.disjunctions
    for index, bound in solved.narrowed.items():
        atom = atom_at(index)
        if not isinstance(atom, Symbol):
            yield from within(of_atom(atom), bound)
