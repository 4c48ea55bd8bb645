"""Facts about integers: comparisons with 0, conjunctions and disjunctions, in canonical form.

There is no node for "not": the negation of each comparison is a comparison, and "not" of a
conjunction is pushed inwards when it is built. A negated conjunction can therefore not be mistaken
for anything else.

    lt(s0, 10)              is  -s0 + 9 >= 0
    not_(eq(s0, 5))         is  s0 - 5 != 0
    ge(2*s0, 3)             is  s0 - 2 >= 0      (integers: rounded to the next one)
    eq(2*s0, 3)             is  False
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Final, NoReturn

from anyshape.errors import SymbolicTypeError
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.expr import (
    Expr,
    Size,
    Symbol,
    add,
    check_size,
    leading_coefficient,
    polynomial,
    subtract,
)
from anyshape.symbolic.ranges import Range


class _Fact:
    """What all facts have in common: they are interned, and have no truth value of their own."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise SymbolicTypeError(detail=f"the truth of `{self}` was asked: `prove` it")

    def __reduce__(self) -> NoReturn:
        raise SymbolicTypeError(detail="facts are interned: keep them as text (`to_text`, `parse`)")

    def __copy__(self) -> _Fact:
        return self

    def __deepcopy__(self, memo: object) -> _Fact:
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Truth(_Fact):
    """A fact that is decided: there are two, TRUE and FALSE."""

    value: bool
    symbols: frozenset[Symbol] = frozenset()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Nonnegative(_Fact):
    """`size >= 0`."""

    size: Expr
    symbols: frozenset[Symbol] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Zero(_Fact):
    """`size == 0`."""

    size: Expr
    symbols: frozenset[Symbol] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Nonzero(_Fact):
    """`size != 0`."""

    size: Expr
    symbols: frozenset[Symbol] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class And(_Fact):
    """All parts hold: two or more, none of them an `And` or a `Truth`."""

    parts: tuple[Fact, ...]
    symbols: frozenset[Symbol] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Or(_Fact):
    """At least one part holds: two or more, none of them an `Or` or a `Truth`."""

    parts: tuple[Fact, ...]
    symbols: frozenset[Symbol] = field(repr=False)


Comparison = Nonnegative | Zero | Nonzero
Fact = Truth | Comparison | And | Or

TRUE: Final = Truth(True)
FALSE: Final = Truth(False)

_COMPARISONS: Final[dict[tuple[type, Expr], Comparison]] = {}
_JUNCTIONS: Final[dict[tuple[object, ...], And | Or]] = {}
_NONNEGATIVE: Final[dict[Expr, Fact]] = {}
_ZERO: Final[dict[Expr, Fact]] = {}
_NEGATIONS: Final[dict[Fact, Fact]] = {}


def check_fact(value: object) -> Fact:
    """`value` if it is a fact, else the error that says what came instead."""
    if isinstance(value, Truth | Nonnegative | Zero | Nonzero | And | Or):
        return value
    raise SymbolicTypeError(
        detail="a fact was expected (a comparison, and/or/not of facts), "
        f"not {value!r} of type {type(value).__name__}"
    )


def truth(value: bool) -> Truth:
    return TRUE if value else FALSE


def ge(a: Size, b: Size) -> Fact:
    return nonnegative(subtract(a, b))


def le(a: Size, b: Size) -> Fact:
    return nonnegative(subtract(b, a))


def gt(a: Size, b: Size) -> Fact:
    return nonnegative(add(subtract(a, b), -1))


def lt(a: Size, b: Size) -> Fact:
    return nonnegative(add(subtract(b, a), -1))


def eq(a: Size, b: Size) -> Fact:
    return TRUE if a is b and type(a) is Expr else zero(subtract(a, b))


def ne(a: Size, b: Size) -> Fact:
    return not_(eq(a, b))


def within(size: Size, bound: Range) -> Iterator[Fact]:
    """That the size lies in the range."""
    if bound.lower is not None:
        yield ge(size, bound.lower)
    if bound.upper is not None:
        yield le(size, bound.upper)


def nonnegative(size: Size) -> Fact:
    """`size >= 0`"""
    if type(size) is int:
        return TRUE if size >= 0 else FALSE
    size = _check_expr(size)
    found = _NONNEGATIVE.get(size)
    if found is None:
        found = _NONNEGATIVE[size] = _nonnegative(size)
    return found


def _nonnegative(size: Expr) -> Fact:
    if DECLARED.nonnegative(size):
        return TRUE
    if DECLARED.nonnegative(subtract(-1, size)):
        return FALSE
    # g*x + c >= 0 is x + floor(c / g) >= 0 for g > 0.
    common = gcd(*(c for m, c in size.terms if m != ()))
    if common > 1:
        return nonnegative(polynomial({m: c // common for m, c in size.terms}))
    return _comparison(Nonnegative, size)


def zero(size: Size) -> Fact:
    """`size == 0`"""
    if type(size) is int:
        return TRUE if size == 0 else FALSE
    size = _check_expr(size)
    found = _ZERO.get(size)
    if found is None:
        found = _ZERO[size] = _zero(size)
    return found


def _zero(size: Expr) -> Fact:
    if DECLARED.nonnegative(add(size, -1)) or DECLARED.nonnegative(subtract(-1, size)):
        return FALSE
    common = gcd(*(c for m, c in size.terms if m != ()))
    constant = size.terms[0][1] if size.terms[0][0] == () else 0
    if constant % common:
        return FALSE  # g*x == -c has no solution unless g divides c.
    if leading_coefficient(size) < 0:
        common = -common  # One form for x == y and y == x.
    if common != 1:
        return zero(polynomial({m: c // common for m, c in size.terms}))
    return _comparison(Zero, size)


def _comparison(kind: type[Nonnegative] | type[Zero] | type[Nonzero], size: Expr) -> Comparison:
    key = (kind, size)
    found = _COMPARISONS.get(key)
    if found is None:
        found = _COMPARISONS.setdefault(key, kind(size, size.symbols))
    return found


def _check_expr(size: object) -> Expr:
    checked = check_size(size)
    if type(checked) is not Expr:
        raise SymbolicTypeError(detail=f"an integer expression was expected, not {size!r}")
    return checked


def not_(fact: Fact) -> Fact:
    found = _NEGATIONS.get(fact)
    if found is None:
        found = _NEGATIONS[fact] = _negation(check_fact(fact))
    return found


def _negation(fact: Fact) -> Fact:
    match fact:
        case Truth():
            return FALSE if fact.value else TRUE
        case Nonnegative():
            return nonnegative(subtract(-1, fact.size))
        case Zero():
            return _comparison(Nonzero, fact.size)
        case Nonzero():
            return _comparison(Zero, fact.size)
        case And():
            return or_(*map(not_, fact.parts))
        case Or():
            return and_(*map(not_, fact.parts))


def and_(*facts: Fact) -> Fact:
    return _junction(And, facts, FALSE, TRUE)


def or_(*facts: Fact) -> Fact:
    return _junction(Or, facts, TRUE, FALSE)


def _junction(
    kind: type[And] | type[Or], facts: Iterable[Fact], decisive: Truth, neutral: Truth
) -> Fact:
    parts: dict[Fact, None] = {}
    for fact in facts:
        fact = check_fact(fact)
        if fact is decisive:
            return decisive
        if fact is neutral:
            continue
        parts.update(dict.fromkeys(fact.parts if isinstance(fact, kind) else (fact,)))
    if any(not_(part) in parts for part in parts):
        return decisive
    if not parts:
        return neutral
    if len(parts) == 1:
        return next(iter(parts))
    # The order of the program is kept, so that "n != 0 and m // n > 2" still tests n first; a
    # reordering is the same fact to logic but another node.
    key = (kind, *parts)
    found = _JUNCTIONS.get(key)
    if found is None:
        symbols = frozenset[Symbol]().union(*(part.symbols for part in parts))
        found = _JUNCTIONS.setdefault(key, kind(tuple(parts), symbols))
    return found


def is_data_dependent(of: Size | Fact) -> bool:
    """Whether it is about a number that only a run of the graph knows."""
    return not isinstance(of, int) and any(not symbol.backed for symbol in of.symbols)
