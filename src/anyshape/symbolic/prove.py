"""Does a fact follow from what is known? YES, NO or UNKNOWN; a pure question.

A comparison is put in normal form and tried by bounds and by elimination (`linear.py`). If that
fails, points at which the facts hold show whether a proof can be hoped for at all (`witnesses.py`),
and then cases are tried, each with its condition added:

    a minimum or maximum        is one of its arguments
    a natural factor s          is 0 or at least 1
    a remainder or quotient by c of a symbol      has one of c remainders

A conjunction follows if each part does, a disjunction if one part does when the others are false.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from anyshape.symbolic.division import divide, floordiv, modulo
from anyshape.symbolic.evaluate import Rewrite
from anyshape.symbolic.expr import (
    Atom,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    Symbol,
    add,
    atom_at,
    atoms_in,
    multiply,
    negate,
    of_atom,
    subtract,
    symbols_of,
)
from anyshape.symbolic.knowledge import Knowledge
from anyshape.symbolic.learn import Inconsistent, learn
from anyshape.symbolic.linear import Budget
from anyshape.symbolic.logic import (
    And,
    Fact,
    Nonnegative,
    Nonzero,
    Or,
    Truth,
    Zero,
    eq,
    ge,
    le,
    not_,
    zero,
)
from anyshape.symbolic.witnesses import Witnesses

#: How many cases a question may take, how deep they may be nested, and how many remainders are
#: tried: what shape code needs, and still milliseconds at worst.
_MOST_CASES: Final = 32
_MOST_NESTED: Final = 4
_MOST_REMAINDERS: Final = 8


class Answer(Enum):
    """What `prove` says. UNKNOWN: it does not follow, nor does its negation, or neither was
    found."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Prover:
    """Answers questions about one state of knowledge. Without side effects."""

    __slots__ = ("_known", "_witnesses")

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._witnesses = Witnesses(known)

    def prove(self, fact: Fact) -> Answer:
        fact = self._known.normal_fact(fact)
        if isinstance(fact, Truth):
            return Answer.YES if fact.value else Answer.NO
        by_bounds = _by_bounds(self._known, fact)
        if by_bounds is not None:
            return Answer.YES if by_bounds else Answer.NO
        may_hold, may_fail = self._witnesses.tendency(fact)
        if may_hold and may_fail:
            return Answer.UNKNOWN
        if not may_fail and _follows(self._known, fact, _Effort()):
            return Answer.YES
        if not may_hold and _follows(self._known, not_(fact), _Effort()):
            return Answer.NO
        return Answer.UNKNOWN


def _by_bounds(known: Knowledge, fact: Fact) -> bool | None:
    """The answer to a comparison where ranges alone give it."""
    if isinstance(fact, And | Or | Truth):
        return None
    low, high = known.bounds.of(fact.size)
    if isinstance(fact, Nonnegative):
        return (
            True
            if low is not None and low >= 0
            else False
            if high is not None and high < 0
            else None
        )
    if (low is not None and low > 0) or (high is not None and high < 0):
        return isinstance(fact, Nonzero)
    return None


class _Effort:
    """What a proof may still spend."""

    __slots__ = ("budget", "cases", "nested")

    def __init__(self) -> None:
        self.budget = Budget()
        self.cases = _MOST_CASES
        self.nested = 0

    @property
    def is_spent(self) -> bool:
        return self.cases <= 0 or self.nested >= _MOST_NESTED


def _follows(known: Knowledge, fact: Fact, effort: _Effort) -> bool:
    match fact:
        case Truth():
            return fact.value
        case And():
            return all(_follows(known, part, effort) for part in fact.parts)
        case Or():
            return _one_follows(known, fact, effort)
        case Nonnegative() | Zero() | Nonzero():
            return _follows_directly(known, fact) or _follows_in_each_case(known, fact, effort)


def _one_follows(known: Knowledge, fact: Or, effort: _Effort) -> bool:
    if fact in known.solved.disjunctions:
        return True
    if any(_follows(known, part, effort) for part in fact.parts):
        return True
    # "a or b" follows if b follows from "not a".
    return any(
        _follows_given(
            known, part, (not_(other) for other in fact.parts if other is not part), effort
        )
        for part in fact.parts
    )


def _follows_given(known: Knowledge, fact: Fact, more: Iterable[Fact], effort: _Effort) -> bool:
    """Whether the fact follows if `more` is known too; anything does where that cannot be."""
    if effort.is_spent:
        return False
    effort.cases -= 1
    try:
        case = learn(known, more, effort.budget)
    except Inconsistent:
        return True
    effort.nested += 1
    found = _follows(case, case.normal_fact(fact), effort)
    effort.nested -= 1
    return found


# -- without cases --------------------------------------------------------------------------------


def _follows_directly(known: Knowledge, fact: Nonnegative | Zero | Nonzero) -> bool:
    e, given = fact.size, known.given
    match fact:
        case Nonnegative():
            return given.nonnegative(e)
        case Zero():
            if any(divide(e, equality)[1] == 0 for equality in known.solved.equalities):
                return True  # a multiple of what is 0
            if given.nonnegative(e) and given.nonnegative(negate(e)):
                return True
            return _has_remainder(e) and known.normal(_with_quotients(e)) == 0
        case Nonzero():
            nonzero = known.solved.nonzero
            if e in nonzero or given.nonnegative(add(e, -1)) or given.nonnegative(subtract(-1, e)):
                return True
            # A product is not 0 if no factor is.
            factors = dict.fromkeys(e.terms[0][0]) if len(e.terms) == 1 else ()
            return len(factors) > 1 and all(
                _is_nonzero(known, of_atom(atom_at(index))) for index in factors
            )


def _is_nonzero(known: Knowledge, e: Expr) -> bool:
    fact = not_(zero(e))
    return (
        fact.value
        if isinstance(fact, Truth)
        else isinstance(fact, Nonzero) and _follows_directly(known, fact)
    )


def _has_remainder(e: Expr) -> bool:
    return any(isinstance(atom, Mod) for atom in atoms_in(e))


def _with_quotients(e: Expr) -> Size:
    """`e` with each remainder written as p - q*(p // q)."""

    def expand(atom: Atom) -> Size | None:
        if not isinstance(atom, Mod):
            return None
        quotient = floordiv(atom.numerator, atom.denominator)
        return subtract(atom.numerator, multiply(atom.denominator, quotient))

    return Rewrite(expand).size(e)


# -- by cases -------------------------------------------------------------------------------------


def _follows_in_each_case(
    known: Knowledge, fact: Nonnegative | Zero | Nonzero, effort: _Effort
) -> bool:
    if effort.is_spent:
        return False
    e = fact.size
    factor = None if isinstance(fact, Nonzero) else _natural_factor(known, e)
    if factor is not None:
        # f*r >= 0 and f*r == 0 hold where f is 0; elsewhere r has the same sign.
        quotient, _ = divide(e, factor)
        rest = ge(quotient, 0) if isinstance(fact, Nonnegative) else zero(quotient)
        return _follows_given(known, rest, (ge(factor, 1),), effort)
    for atom in atoms_in(e):
        if isinstance(atom, Min | Max):
            return _for_each_argument(known, fact, atom, effort)
    by_remainder = next(_split_by_remainder(known, e), None)
    if by_remainder is not None:
        symbol, divisor = by_remainder
        remainder = modulo(of_atom(symbol), divisor)
        return all(
            _follows_given(known, fact, (eq(remainder, value),), effort) for value in range(divisor)
        )
    vanishing = _factor_that_may_vanish(known, e)
    if vanishing is not None:
        cases = (zero(vanishing), ge(vanishing, 1))
        return all(_follows_given(known, fact, (case,), effort) for case in cases)
    return False


def _natural_factor(known: Knowledge, e: Expr) -> Expr | None:
    """An atom that all terms share and that is not below 0."""
    shared = set(e.terms[0][0]).intersection(*(monomial for monomial, _ in e.terms[1:]))
    for index in sorted(shared):
        factor = of_atom(atom_at(index))
        if e is not factor and known.given.nonnegative(factor):
            return factor
    return None


def _for_each_argument(known: Knowledge, fact: Fact, atom: Min | Max, effort: _Effort) -> bool:
    wins = le if isinstance(atom, Min) else ge

    def in_case(value: Size) -> bool:
        here = Rewrite(lambda other: value if other is atom else None)
        others = (wins(value, other) for other in atom.arguments if other is not value)
        return _follows_given(known, here.fact(fact), others, effort)

    return all(map(in_case, atom.arguments))


def _split_by_remainder(known: Knowledge, e: Expr) -> Iterator[tuple[Symbol, int]]:
    """Symbols that are divided by a small number, and the number."""
    for atom in atoms_in(e):
        if isinstance(atom, FloorDiv | Mod) and type(atom.denominator) is int:
            symbols = symbols_of(atom.numerator)
            if len(symbols) == 1 and atom.denominator <= _MOST_REMAINDERS:
                (symbol,) = symbols
                if not _is_split_twice(known, symbol):
                    yield symbol, atom.denominator


def _is_split_twice(known: Knowledge, symbol: Symbol) -> bool:
    """Whether it stands for a quotient of a quotient: splitting these goes on for ever."""
    definition = known.solved.definitions.get(symbol)
    if definition is None:
        return False
    return not symbols_of(definition.numerator).isdisjoint(known.solved.definitions)


def _factor_that_may_vanish(known: Knowledge, e: Expr) -> Expr | None:
    """A natural atom of a product of several, that may be 0."""
    for monomial, _ in e.terms:
        for index in monomial if len(monomial) > 1 else ():
            if known.bounds.of_atom(index).lower == 0:
                return of_atom(atom_at(index))
    return None
