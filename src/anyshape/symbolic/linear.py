"""Is an expression at least 0, given inequalities? A small search that eliminates terms.

To show `e >= 0`, look at a term of e that may pull it below 0 and at a known `g >= 0` with a term
that divides it, of the same sign. Then for positive factors `d*e - c*f*g` no longer has that term,
and if it is at least 0, so is e. Since e is an integer, even `d*e - c*f*g + (d - 1) >= 0` is
enough. What atoms mean is known too: a quotient lies within a divisor of its numerator, a minimum
below each argument.

The search is bounded; running out of steps is "not shown", never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Final

from anyshape.symbolic.bounds import Bounds
from anyshape.symbolic.division import divide_monomial
from anyshape.symbolic.expr import (
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Size,
    add,
    atom_at,
    multiply,
    of_atom,
    polynomial,
    subtract,
    terms_of,
)

_MOST_STEPS: Final = 16
_MOST_DEPTH: Final = 3
_MOST_TERMS: Final = 64
_MOST_SEARCHES: Final = 300


class Budget:
    """How many searches one question may take, over all the cases that it is split into."""

    __slots__ = ("searches",)

    def __init__(self) -> None:
        self.searches = _MOST_SEARCHES


class Inequalities:
    """Known `g >= 0`, found by the atoms of their terms."""

    __slots__ = ("_answers", "_budget", "_by_atom", "_defining", "bounds", "known")

    def __init__(self, known: Iterable[Expr], bounds: Bounds, budget: Budget | None = None) -> None:
        self._budget = budget
        self.known = tuple(known)
        self._answers: dict[Expr, bool] = dict.fromkeys(self.known, True)
        self.bounds = bounds
        self._defining: dict[int, tuple[Expr, ...]] = {}
        self._by_atom: dict[int, list[Expr]] = {}
        for inequality in self.known:
            for index in {index for monomial, _ in inequality.terms for index in monomial}:
                self._by_atom.setdefault(index, []).append(inequality)

    def nonnegative(self, size: Size) -> bool:
        """True if `size >= 0` was shown."""
        if type(size) is int:
            return size >= 0
        assert type(size) is Expr, f"not a size: {size!r}"
        found = self._answers.get(size)
        if found is None:
            if self._budget is not None:
                if self._budget.searches <= 0:
                    return self.bounds.nonnegative(size)
                self._budget.searches -= 1
            found = self._answers[size] = _Search(self).nonnegative(size, _MOST_DEPTH)
        return found

    def _plainly_natural(self, size: Size) -> bool:
        """Whether `size >= 0` by bounds or one known inequality: without a search, since searches
        ask this."""
        if self.bounds.nonnegative(size):
            return True
        indices = (index for monomial, _ in terms_of(size) for index in monomial)
        about = {g for index in indices for g in self._by_atom.get(index, ())}
        return any(self.bounds.nonnegative(subtract(size, g)) for g in about)

    def about(self, monomial: Monomial, e: Expr) -> Iterator[Expr]:
        """Inequalities that may cancel this term of `e`: known ones, and what the functions in `e`
        mean."""
        for index in dict.fromkeys(monomial):
            yield from self._by_atom.get(index, ())
        for index in dict.fromkeys(index for other, _ in e.terms for index in other):
            defining = self._defining.get(index)
            if defining is None:
                defining = self._defining[index] = tuple(self._what_atom_means(index))
            yield from defining

    def _what_atom_means(self, index: int) -> Iterator[Expr]:
        atom = atom_at(index)
        itself = of_atom(atom)
        found: list[Size] = []
        if isinstance(atom, Min):
            found = [subtract(argument, itself) for argument in atom.arguments]
        elif isinstance(atom, Max):
            found = [subtract(itself, argument) for argument in atom.arguments]
        elif isinstance(atom, FloorDiv) and self.bounds.nonnegative(atom.denominator):
            # q*(p // q) <= p <= q*(p // q) + q - 1 for q > 0
            over = subtract(atom.numerator, multiply(atom.denominator, itself))
            found = [over, subtract(add(atom.denominator, -1), over)]
            if self._plainly_natural(atom.numerator):
                found += [itself, subtract(atom.numerator, itself)]
        elif isinstance(atom, Mod) and self.bounds.nonnegative(atom.denominator):
            found = [subtract(add(atom.denominator, -1), itself)]
            if self._plainly_natural(atom.numerator):
                found.append(subtract(atom.numerator, itself))
        return (inequality for inequality in found if type(inequality) is Expr)


class _Search:
    """One question's search: what was tried, and how many steps are left."""

    __slots__ = ("given", "steps", "tried")

    def __init__(self, given: Inequalities) -> None:
        self.given = given
        self.steps = _MOST_STEPS
        self.tried: dict[Expr, int] = {}

    def nonnegative(self, e: Size, depth: int) -> bool:
        if type(e) is int:
            return e >= 0
        assert type(e) is Expr, f"not a size: {e!r}"
        bounds = self.given.bounds
        if bounds.nonnegative(e):
            return True
        high = bounds.of(e).upper
        if (high is not None and high < 0) or depth <= 0 or self.tried.get(e, 0) >= depth:
            return False
        self.tried[e] = depth
        # A negative constant may be made up for by any term; otherwise only what may pull below 0
        # needs to go.
        short = e.terms[0][0] == () and e.terms[0][1] < 0
        for monomial, coefficient in e.terms:
            if monomial == () or not (short or self._may_be_negative(monomial, coefficient)):
                continue
            for smaller in self._without(e, monomial, coefficient):
                if self.steps <= 0:
                    return False
                self.steps -= 1
                if self.nonnegative(smaller, depth - 1):
                    return True
        return False

    def _may_be_negative(self, monomial: Monomial, coefficient: int) -> bool:
        low, high = self.given.bounds.of(polynomial({monomial: 1}))
        end = low if coefficient > 0 else high
        return end is None or end * coefficient < 0

    def _without(self, e: Expr, monomial: Monomial, coefficient: int) -> Iterator[Size]:
        """Expressions without that term, each of which being >= 0 shows `e >= 0`."""
        for inequality in self.given.about(monomial, e):
            for part, factor in inequality.terms:
                if part == () or (factor > 0) != (coefficient > 0):
                    continue
                cofactor = divide_monomial(monomial, part)
                if cofactor is None:
                    continue
                multiplier = polynomial({cofactor: abs(coefficient)})
                if not self.given.bounds.nonnegative(multiplier):
                    continue
                if len(e.terms) * len(inequality.terms) > _MOST_TERMS:
                    continue
                scale = abs(factor)
                smaller = subtract(multiply(e, scale), multiply(inequality, multiplier))
                yield _reduced(add(smaller, scale - 1))


def _reduced(size: Size) -> Size:
    """An expression that is >= 0 exactly if `size` is: g*x + c >= 0 is x + floor(c / g) >= 0."""
    if type(size) is not Expr:
        return size
    common = gcd(*(coefficient for monomial, coefficient in size.terms if monomial != ()))
    return polynomial({m: c // common for m, c in size.terms}) if common > 1 else size
