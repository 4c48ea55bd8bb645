"""Does a fact follow from what is known? YES, NO or UNKNOWN; a pure question.

A comparison is put in normal form and tried by bounds and by elimination (`linear.py`). Where minima and maxima are left, each
case is tried with its condition added. A conjunction follows if each part does, a disjunction if one part does when the
others are false.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from anyshape.symbolic.division import divide, floordiv
from anyshape.symbolic.evaluate import Rewrite
from anyshape.symbolic.expr import (
    Atom,
    Expr,
    Max,
    Min,
    Mod,
    Size,
    add,
    atom_at,
    multiply,
    negate,
    of_atom,
    subtract,
)
from anyshape.symbolic.knowledge import Knowledge
from anyshape.symbolic.learn import Inconsistent, learn
from anyshape.symbolic.logic import (
    And,
    Fact,
    Nonnegative,
    Nonzero,
    Or,
    Truth,
    Zero,
    ge,
    le,
    not_,
    zero,
)

_MOST_SPLITS: Final = 3


class Answer(Enum):
    """What `prove` says. UNKNOWN: it does not follow, nor does its negation, or neither was found."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def prove(known: Knowledge, fact: Fact) -> Answer:
    """Whether the fact follows from what is known. Without side effects."""
    fact = known.normal_fact(fact)
    if isinstance(fact, Truth):
        return Answer.YES if fact.value else Answer.NO
    if _follows(known, fact, _MOST_SPLITS):
        return Answer.YES
    if _follows(known, not_(fact), _MOST_SPLITS):
        return Answer.NO
    return Answer.UNKNOWN


def _follows(known: Knowledge, fact: Fact, splits: int) -> bool:
    match fact:
        case Truth():
            return fact.value
        case Nonnegative():
            return _nonnegative(known, fact.size, splits)
        case Zero():
            return _zero(known, fact.size, splits)
        case Nonzero():
            return _nonzero(known, fact.size, splits)
        case And():
            return all(_follows(known, part, splits) for part in fact.parts)
        case Or():
            return _one_follows(known, fact, splits)


def _one_follows(known: Knowledge, fact: Or, splits: int) -> bool:
    if fact in known.solved.disjunctions:
        return True
    if any(_follows(known, part, splits) for part in fact.parts):
        return True
    if splits <= 0:
        return False
    # "a or b" follows if b follows from "not a".
    for part in fact.parts:
        others = [other for other in fact.parts if other is not part]
        try:
            without = learn(known, map(not_, others))
        except Inconsistent:
            return True
        if _follows(without, without.normal_fact(part), splits - 1):
            return True
    return False


def _nonnegative(known: Knowledge, e: Size, splits: int) -> bool:
    if known.given.nonnegative(e):
        return True
    if type(e) is not Expr or splits <= 0:
        return False
    smaller = _without_natural_factor(known, e)
    if smaller is not e:
        return _nonnegative(known, smaller, splits)
    return _in_each_case(known, ge(e, 0), e, splits)


def _zero(known: Knowledge, e: Size, splits: int) -> bool:
    if type(e) is int:
        return e == 0
    assert type(e) is Expr, f"not a size: {e!r}"
    for equality in known.solved.equalities:
        if divide(e, equality)[1] == 0:
            return True  # A multiple of what is 0.
    expanded = _with_quotients(e)
    if expanded == 0:
        return True
    given = known.given
    if given.nonnegative(e) and given.nonnegative(negate(e)):
        return True
    if splits <= 0:
        return False
    smaller = _without_natural_factor(known, e)
    if smaller is not e:
        return _zero(known, smaller, splits)
    if expanded is not e and _zero(known, known.normal(expanded), splits - 1):
        return True
    return _in_each_case(known, zero(e), e, splits)


def _nonzero(known: Knowledge, e: Size, splits: int) -> bool:
    if type(e) is int:
        return e != 0
    assert type(e) is Expr, f"not a size: {e!r}"
    if e in known.solved.nonzero or negate(e) in known.solved.nonzero:
        return True
    given = known.given
    if given.nonnegative(add(e, -1)) or given.nonnegative(subtract(-1, e)):
        return True
    if splits <= 0:
        return False
    if len(e.terms) == 1 and len(e.terms[0][0]) > 1:
        # A product is not 0 if no factor is.
        factors = (of_atom(atom_at(index)) for index in dict.fromkeys(e.terms[0][0]))
        return all(_nonzero(known, factor, splits) for factor in factors)
    return _in_each_case(known, not_(zero(e)), e, splits)


def _without_natural_factor(known: Knowledge, e: Expr) -> Size:
    """`e` divided by atoms that all terms share and that are above 0: of the same sign, and 0 at the same places.

    Without the "above 0", `s*(t - 5) >= 0` would need `t >= 5` though s may be 0: that is fine for a proof of `>= 0` (it is
    enough), and for `== 0` too.
    """
    shared = set(e.terms[0][0]).intersection(*(monomial for monomial, _ in e.terms[1:]))
    for index in sorted(shared):
        factor = of_atom(atom_at(index))
        quotient, rest = divide(e, factor)
        if rest == 0 and type(quotient) is Expr and known.given.nonnegative(factor):
            return quotient
    return e


def _with_quotients(e: Expr) -> Size:
    """`e` with each remainder written as p - q*(p // q)."""

    def expand(atom: Atom) -> Size | None:
        if not isinstance(atom, Mod):
            return None
        quotient = floordiv(atom.numerator, atom.denominator)
        return subtract(atom.numerator, multiply(atom.denominator, quotient))

    return Rewrite(expand).size(e)


def _in_each_case(known: Knowledge, fact: Fact, e: Expr, splits: int) -> bool:
    """Try a minimum or maximum of `e` as each of its arguments, with the condition that it is that one."""
    for index in dict.fromkeys(index for monomial, _ in e.terms for index in monomial):
        atom = atom_at(index)
        if isinstance(atom, Min | Max):
            return all(
                _in_case(known, fact, atom, argument, splits - 1) for argument in atom.arguments
            )
    return False


def _in_case(known: Knowledge, fact: Fact, atom: Min | Max, value: Size, splits: int) -> bool:
    wins = le if isinstance(atom, Min) else ge
    try:
        case = learn(known, (wins(value, other) for other in atom.arguments if other is not value))
    except Inconsistent:
        return True
    here = Rewrite(lambda other: value if other is atom else None)
    return _follows(case, case.normal_fact(here.fact(fact)), splits)
