"""What is known, in solved form: replacements, ranges, inequalities, and what could not be solved.

Questions are asked of normal forms, in which everything known has been put in: a replaced symbol by
its value, a minimum without the arguments that never win, a quotient of something smaller than its
divisor by 0. `learn.py` makes new knowledge.
"""

from __future__ import annotations

from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic.bounds import Bounds
from anyshape.symbolic.division import floordiv, modulo
from anyshape.symbolic.evaluate import Rewrite
from anyshape.symbolic.expr import (
    Atom,
    Expr,
    FloorDiv,
    Max,
    Min,
    Size,
    Symbol,
    add,
    multiply,
    negate,
    of_atom,
    polynomial,
    power,
    single_atom,
    subtract,
    symbols_of,
    terms_of,
)
from anyshape.symbolic.extrema import maximum, minimum
from anyshape.symbolic.linear import Budget, Inequalities
from anyshape.symbolic.logic import Fact, Or
from anyshape.symbolic.ranges import Range


@dataclass(frozen=True, slots=True)
class Definition:
    """What a symbol made by `learn` stands for: `numerator // denominator`, which leaves no
    remainder."""

    numerator: Size
    denominator: Size


@dataclass(frozen=True, slots=True)
class Solved:
    """The facts themselves. Atoms are named by their index; expressions are in normal form."""

    replacements: dict[int, Size] = field(default_factory=dict[int, Size])
    narrowed: dict[int, Range] = field(default_factory=dict[int, Range])
    #: each is >= 0
    inequalities: tuple[Expr, ...] = ()
    #: each is == 0 and could not be solved for an atom
    equalities: tuple[Expr, ...] = ()
    #: each is != 0
    nonzero: tuple[Expr, ...] = ()
    disjunctions: tuple[Or, ...] = ()
    definitions: dict[Symbol, Definition] = field(default_factory=dict[Symbol, Definition])


class Knowledge:
    """Solved facts with the means to use them. Immutable; remembers what it computed."""

    __slots__ = ("_given", "_rewrite", "bounds", "budget", "is_empty", "solved")

    def __init__(self, solved: Solved, budget: Budget | None = None) -> None:
        self.solved = solved
        self.budget = budget
        self.bounds = Bounds(solved.narrowed)
        self.is_empty = not (
            solved.replacements or solved.narrowed or solved.inequalities or solved.equalities
        )
        self._given: Inequalities | None = (
            None  # made when first asked: learning passes through many states
        )
        self._rewrite = Rewrite(self._replace)

    @property
    def given(self) -> Inequalities:
        """What is known to be >= 0."""
        if self._given is None:
            both_ways = [e for found in self.solved.equalities for e in (found, negate(found))]
            known = (*self.solved.inequalities, *(e for e in both_ways if type(e) is Expr))
            self._given = Inequalities(known, self.bounds, self.budget)
        return self._given

    def normal(self, size: Size) -> Size:
        """`size` with everything known put in: equal where the facts hold."""
        return size if type(size) is int or self.is_empty else self._rewrite.size(size)

    def normal_fact(self, fact: Fact) -> Fact:
        return fact if self.is_empty else self._rewrite.fact(fact)

    def _replace(self, atom: Atom) -> Size | None:
        found = self.solved.replacements.get(atom.index)
        if found is not None or isinstance(atom, Symbol):
            return found
        if isinstance(atom, Min | Max):
            combine = minimum if isinstance(atom, Min) else maximum
            rebuilt = combine(*map(self.normal, atom.arguments))
        else:
            divide = floordiv if isinstance(atom, FloorDiv) else modulo
            divisor = self.normal(atom.denominator)
            if divisor == 0:
                return of_atom(atom)  # It has no value where the facts hold: left as it is.
            rebuilt = divide(self.normal(atom.numerator), divisor)
        return self._by_facts(rebuilt)

    def _by_facts(self, rebuilt: Size) -> Size:
        """A function of normal arguments, simplified by what is known of these."""
        atom = single_atom(rebuilt)
        if atom is None or isinstance(atom, Symbol):
            return rebuilt
        found = self.solved.replacements.get(atom.index)
        if found is not None:
            return found
        if isinstance(atom, Min | Max):
            return self._without_losers(atom)
        low, high = atom.numerator, add(subtract(atom.denominator, atom.numerator), -1)
        if self.given.nonnegative(low) and self.given.nonnegative(high):  # 0 <= p < q
            return 0 if isinstance(atom, FloorDiv) else low
        return rebuilt

    def _without_losers(self, atom: Min | Max) -> Size:
        kept = list(atom.arguments)
        for candidate in atom.arguments:
            for other in kept:
                excess = subtract(candidate, other)
                loses = excess if isinstance(atom, Min) else negate(excess)
                if other is not candidate and self.given.nonnegative(loses):
                    kept.remove(candidate)
                    break
        if len(kept) == len(atom.arguments):
            return of_atom(atom)
        return minimum(*kept) if isinstance(atom, Min) else maximum(*kept)

    def original(self, size: Size) -> Size:
        """`size` without the symbols that `learn` made: in terms of what the program knows."""
        for made in reversed(self.solved.definitions):  # a later one may be defined by earlier ones
            if made in symbols_of(size):
                size = _written_out(size, made, self.solved.definitions[made])
        return size


def _written_out(size: Size, made: Symbol, definition: Definition) -> Size:
    """`size` with p // q put for the symbol; where a term has q as a factor, p is put for the
    product of both."""
    p, q = definition.numerator, definition.denominator
    inside = Rewrite(lambda atom: floordiv(p, q) if atom is made else None)
    result: Size = 0
    for monomial, coefficient in terms_of(size):
        times = monomial.count(made.index)
        whole = q**times if type(q) is int else 0
        if whole and coefficient % whole == 0:
            rest = polynomial({tuple(i for i in monomial if i != made.index): coefficient // whole})
            result = add(result, multiply(inside.size(rest), power(p, times)))
        else:
            result = add(result, inside.size(polynomial({monomial: coefficient})))
    return result


NOTHING = Knowledge(Solved())
