"""Adding facts to knowledge, solving as far as possible.

    s1 == 2*s0      replaces s1 by 2*s0, and keeps s1's range as facts about 2*s0
    s0 % 8 == 0     replaces s0 by 8*k, where k is a new symbol that means s0 // 8
    s0 <= 9         narrows the range of s0
    s0*s1 == 0      becomes  s0 == 0 or s1 == 0
    s0*s1 == s2*s3  cannot be solved, and is kept as it is

A solved fact may make others solvable, so facts go through a queue until nothing changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import ranges
from anyshape.symbolic.bounds import Bounds
from anyshape.symbolic.division import floordiv, modulo
from anyshape.symbolic.evaluate import Rewrite
from anyshape.symbolic.expr import (
    Atom,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Size,
    Symbol,
    add,
    as_symbol,
    atom_at,
    atoms_in,
    derived_symbol,
    multiply,
    negate,
    of_atom,
    polynomial,
    single_atom,
    subtract,
    symbols_of,
    terms_of,
)
from anyshape.symbolic.knowledge import Definition, Knowledge
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
    ne,
    or_,
    within,
    zero,
)
from anyshape.symbolic.ranges import Range

#: A fact leads to a few others. Whatever is still in the queue after so many steps is not learned:
#: less is known then, and nothing wrong.
_MOST_STEPS: Final = 200


class Inconsistent(Exception):
    """The facts cannot all hold. Internal: `Facts` makes an error of it, a case split an empty
    case."""


def learn(known: Knowledge, facts: Iterable[Fact], budget: Budget) -> Knowledge:
    """What is known with `facts` added. Raises `Inconsistent` where that is seen to be
    impossible."""
    learning = _Learning(Knowledge(known.solved, budget))
    learning.queue.extend(facts)
    for _ in range(_MOST_STEPS):
        if not learning.queue:
            break
        learning.take(learning.now.normal_fact(learning.queue.popleft()))
    return learning.now


class _Learning:
    def __init__(self, start: Knowledge) -> None:
        self.now = start
        self.queue: deque[Fact] = deque()

    def take(self, fact: Fact) -> None:
        match fact:
            case Truth():
                if not fact.value:
                    raise Inconsistent
            case And():
                self.queue.extend(fact.parts)
            case Or():
                self._take_disjunction(fact)
            case Nonnegative():
                self._take_nonnegative(fact.size)
            case Nonzero():
                self._take_nonzero(fact.size)
            case Zero():
                self._take_zero(fact.size)

    # -- disjunctions -----------------------------------------------------------------------------

    def _take_disjunction(self, fact: Or) -> None:
        left = [part for part in fact.parts if not self._refuted(part)]
        if len(left) < len(fact.parts):
            self.queue.append(or_(*left))
        elif fact not in self.now.solved.disjunctions:
            solved = self.now.solved
            self._become(replace(solved, disjunctions=(*solved.disjunctions, fact)))

    def _refuted(self, fact: Fact) -> bool:
        """True if the fact cannot hold, by what is quick to see."""
        given, solved = self.now.given, self.now.solved
        match fact:
            case Truth():
                return not fact.value
            case Nonnegative():
                return given.nonnegative(subtract(-1, fact.size))
            case Zero():
                return fact.size in solved.nonzero or self._not_zero(fact.size)
            case Nonzero():
                return fact.size in solved.equalities
            case And():
                return any(map(self._refuted, fact.parts))
            case Or():
                return all(map(self._refuted, fact.parts))

    def _not_zero(self, e: Size) -> bool:
        given = self.now.given
        return given.nonnegative(add(e, -1)) or given.nonnegative(subtract(-1, e))

    # -- inequalities -----------------------------------------------------------------------------

    def _take_nonnegative(self, e: Expr) -> None:
        given = self.now.given
        if given.nonnegative(e):
            return
        if given.nonnegative(negate(e)):
            self.queue.append(zero(e))  # e >= 0 and e <= 0
            return
        if given.nonnegative(subtract(-1, e)):
            raise Inconsistent
        bound = _bound_of_one_atom(e)
        if bound is not None:
            self._narrow(*bound)
            return
        self.queue.extend(_factors(e, self.now.bounds, is_equality=False))
        solved = self.now.solved
        self._become(replace(solved, inequalities=(*solved.inequalities, e)))
        self._learn_anew(e.symbols, but=e)
        self._look_again(e.symbols)

    def _narrow(self, atom: Atom, bound: Range) -> None:
        found = ranges.intersect(self.now.bounds.of_atom(atom.index), bound)
        if ranges.is_empty(found):
            raise Inconsistent
        self.queue.extend(_what_bound_means(atom, bound))
        if found.lower is not None and found.lower == found.upper:
            self._replace(atom, found.lower)
            return
        solved = self.now.solved
        self._become(replace(solved, narrowed={**solved.narrowed, atom.index: found}))
        self._learn_anew(of_atom(atom).symbols)
        self._look_again(of_atom(atom).symbols)

    def _take_nonzero(self, e: Expr) -> None:
        solved = self.now.solved
        if e in solved.equalities:
            raise Inconsistent
        atoms = sorted(set(e.terms[0][0]))
        if len(e.terms) == 1 and (len(atoms) > 1 or len(e.terms[0][0]) > 1):
            # A product is not 0 exactly if no factor is.
            self.queue.extend(ne(of_atom(atom_at(index)), 0) for index in atoms)
            return
        if e not in solved.nonzero:
            self._become(replace(solved, nonzero=(*solved.nonzero, e)))
            self._look_again(e.symbols)

    # -- equalities -------------------------------------------------------------------------------

    def _take_zero(self, e: Expr) -> None:
        if e in self.now.solved.nonzero or self._not_zero(e):
            raise Inconsistent
        if self._solve_product(e) or self._solve_remainder(e) or self._solve_atom(e):
            return
        self.queue.extend(_factors(e, self.now.bounds, is_equality=True))
        solved = self.now.solved
        if e not in solved.equalities:
            self._become(replace(solved, equalities=(*solved.equalities, e)))
            self.queue.extend(_common_divisors(e))
            self._look_again(e.symbols)

    def _solve_product(self, e: Expr) -> bool:
        """`a*b == 0` is `a == 0 or b == 0`; a factor known not to be 0 is left out."""
        shared = set(e.terms[0][0]).intersection(*(monomial for monomial, _ in e.terms[1:]))
        for index in sorted(shared):
            factor = of_atom(atom_at(index))
            other = polynomial({_without(m, index): c for m, c in e.terms})
            if type(other) is int:
                continue  # A lone atom: `s == 0` is solved like every other value.
            if factor in self.now.solved.nonzero or self._not_zero(factor):
                self.queue.append(zero(other))
            else:
                self.queue.append(or_(zero(factor), zero(other)))
            return True
        return False

    def _solve_remainder(self, e: Expr) -> bool:
        """`s % q == r` replaces s by q*k + r; `s == q*(s // q) + r` says the same."""
        for p, q, remainder in _remainders(e):
            if self._solve_divisible(subtract(p, remainder), q):
                return True
        return False

    def _solve_divisible(self, p: Size, q: Size) -> bool:
        """Use `p % q == 0`: solve p == q*k for a symbol of p, with a new symbol k that means p //
        q."""
        for monomial, coefficient in p.terms if type(p) is Expr else ():
            atom = atom_at(monomial[0]) if len(monomial) == 1 else None
            rest = subtract(p, polynomial({monomial: coefficient}))
            if not isinstance(atom, Symbol) or abs(coefficient) != 1:
                continue
            meaning = floordiv(p, q)
            if atom in symbols_of(q) | symbols_of(rest) or type(meaning) is not Expr:
                continue
            count = self._new_symbol(meaning, Definition(p, q))
            value = subtract(multiply(q, count), rest)
            self._replace(atom, value if coefficient > 0 else negate(value))
            return True
        return False

    def _new_symbol(self, meaning: Expr, definition: Definition) -> Expr:
        made = derived_symbol(meaning, self.now.bounds.of(meaning))
        solved = self.now.solved
        definitions = {**solved.definitions, as_symbol(made): definition}
        self._become(replace(solved, definitions=definitions))
        return made

    def _solve_atom(self, e: Expr) -> bool:
        """Solve for an atom that stands alone, with coefficient 1 or -1, and does not occur in the
        rest."""
        candidates: list[tuple[Atom, Size]] = []
        for monomial, coefficient in e.terms:
            if len(monomial) == 1 and abs(coefficient) == 1:
                atom = atom_at(monomial[0])
                rest = subtract(e, polynomial({monomial: coefficient}))
                if not _occurs(atom, rest):
                    candidates.append((atom, negate(rest) if coefficient > 0 else rest))
        if not candidates:
            return False
        self._replace(*max(candidates, key=lambda candidate: _preference(candidate[0])))
        return True

    def _replace(self, atom: Atom, value: Size) -> None:
        """Put `value` for the atom from now on; what was known of the atom becomes facts about
        `value`."""
        solved, bound = self.now.solved, self.now.bounds.of_atom(atom.index)
        once = Rewrite(lambda other: value if other is atom else None)
        replacements = {index: once.size(size) for index, size in solved.replacements.items()}
        replacements[atom.index] = value
        self._become(replace(solved, replacements=replacements))
        self.queue.extend(within(value, bound))
        self.queue.extend(_what_value_means(atom, value))
        self._become(replace(self.now.solved, narrowed=_without_key(solved.narrowed, atom.index)))
        self._learn_anew(of_atom(atom).symbols)

    # -- keeping everything in normal form --------------------------------------------------------

    def _become(self, solved: object) -> None:
        self.now = Knowledge(solved, self.now.budget)  # pyright: ignore[reportArgumentType] dataclasses.replace keeps the class

    def _learn_anew(self, symbols: frozenset[Symbol], but: Expr | None = None) -> None:
        """Take out facts about these symbols that are no longer in normal form, and learn them
        again."""
        solved, now = self.now.solved, self.now

        def stale(e: Expr) -> bool:
            return e is not but and not symbols.isdisjoint(e.symbols) and now.normal(e) is not e

        inequalities = [e for e in solved.inequalities if stale(e)]
        equalities = [e for e in solved.equalities if stale(e)]
        nonzero = [e for e in solved.nonzero if stale(e)]
        narrowed = [index for index in solved.narrowed if stale(of_atom(atom_at(index)))]
        disjunctions = [
            fact
            for fact in solved.disjunctions
            if not symbols.isdisjoint(fact.symbols) and now.normal_fact(fact) is not fact
        ]
        if not (inequalities or equalities or nonzero or narrowed or disjunctions):
            return
        self.queue.extend(ge(e, 0) for e in inequalities)
        self.queue.extend(eq(e, 0) for e in equalities)
        self.queue.extend(ne(e, 0) for e in nonzero)
        self.queue.extend(disjunctions)
        for index in narrowed:
            self.queue.extend(within(of_atom(atom_at(index)), solved.narrowed[index]))
        self._become(
            replace(
                solved,
                inequalities=tuple(e for e in solved.inequalities if e not in inequalities),
                equalities=tuple(e for e in solved.equalities if e not in equalities),
                nonzero=tuple(e for e in solved.nonzero if e not in nonzero),
                disjunctions=tuple(f for f in solved.disjunctions if f not in disjunctions),
                narrowed=_without_key(solved.narrowed, *narrowed),
            )
        )

    def _look_again(self, symbols: frozenset[Symbol]) -> None:
        """New facts about these symbols may decide a part of a disjunction, or the sign of what is
        not 0."""
        solved = self.now.solved
        for fact in solved.disjunctions:
            if not symbols.isdisjoint(fact.symbols) and any(map(self._refuted, fact.parts)):
                self.queue.append(fact)
                rest = tuple(other for other in self.now.solved.disjunctions if other is not fact)
                self._become(replace(self.now.solved, disjunctions=rest))
        for e in solved.nonzero:
            if symbols.isdisjoint(e.symbols):
                continue
            # At the end of its range, `e != 0` is `e >= 1` or `e <= -1`, which says more.
            above = self.now.given.nonnegative(e)
            if above or self.now.given.nonnegative(negate(e)):
                self.queue.append(ge(e, 1) if above else le(e, -1))
                rest = tuple(other for other in self.now.solved.nonzero if other is not e)
                self._become(replace(self.now.solved, nonzero=rest))


def _without_key(bounds: dict[int, Range], *indices: int) -> dict[int, Range]:
    return {index: bound for index, bound in bounds.items() if index not in indices}


def _without(monomial: Monomial, index: int) -> Monomial:
    rest = list(monomial)
    rest.remove(index)
    return tuple(rest)


def _bound_of_one_atom(e: Expr) -> tuple[Atom, Range] | None:
    """`c*x + d >= 0` as a range of the atom x."""
    constant = e.terms[0][1] if e.terms[0][0] == () else 0
    rest = [term for term in e.terms if term[0] != ()]
    if len(rest) != 1 or len(rest[0][0]) != 1:
        return None
    monomial, coefficient = rest[0]
    if coefficient > 0:
        return atom_at(monomial[0]), Range(-(constant // coefficient), None)
    return atom_at(monomial[0]), Range(None, constant // -coefficient)


def _factors(e: Expr, bounds: Bounds, is_equality: bool) -> Iterator[Fact]:
    """`n*a*b >= c` with c > 0 and natural factors says that no factor is 0, and `n*a*b == c` that
    each lies between 1 and c."""
    if len(e.terms) != 2 or e.terms[0][0] != () or not e.terms[0][1] < 0 < e.terms[1][1]:
        return
    indices = dict.fromkeys(e.terms[1][0])
    if all(low is not None and low >= 0 for low, _ in map(bounds.of_atom, indices)):
        most = -e.terms[0][1] if is_equality else None
        for index in indices:
            yield from within(of_atom(atom_at(index)), Range(1, most))


def _what_bound_means(atom: Atom, bound: Range) -> Iterator[Fact]:
    """Facts about a function's arguments that follow from a bound of its value."""
    low, high = bound
    match atom:
        case FloorDiv(numerator=p, denominator=int(q)):
            # lo <= p // q <= hi is q*lo <= p <= q*hi + q - 1; the divisor of a canonical quotient
            # is above 0.
            if low is not None:
                yield ge(p, q * low)
            if high is not None:
                yield le(p, q * high + q - 1)
        case Min():
            if low is not None:
                yield from (ge(argument, low) for argument in atom.arguments)
            if high is not None:
                yield or_(*(le(argument, high) for argument in atom.arguments))
        case Max():
            if high is not None:
                yield from (le(argument, high) for argument in atom.arguments)
            if low is not None:
                yield or_(*(ge(argument, low) for argument in atom.arguments))
        case _:
            pass


def _what_value_means(atom: Atom, value: Size) -> Iterator[Fact]:
    """Facts about a function's arguments that follow from its value: the atom is gone once it is
    replaced."""
    match atom:
        case FloorDiv(numerator=p, denominator=int(q)):
            yield ge(p, multiply(value, q))
            yield le(p, add(multiply(value, q), q - 1))
        case Mod(numerator=p, denominator=q):
            if type(value) is int and _is_polynomial(p):
                yield zero(modulo(subtract(p, value), q))
                yield eq(multiply(q, floordiv(p, q)), subtract(p, value))
        case Min():
            yield from (ge(argument, value) for argument in atom.arguments)
            yield or_(*(le(argument, value) for argument in atom.arguments))
        case Max():
            yield from (le(argument, value) for argument in atom.arguments)
            yield or_(*(ge(argument, value) for argument in atom.arguments))
        case _:
            pass


def _remainders(e: Expr) -> Iterator[tuple[Size, Size, Size]]:
    """Readings of `e == 0` as `p % q == r`: (p, q, r)."""
    for monomial, coefficient in e.terms:
        atom = atom_at(monomial[0]) if len(monomial) == 1 else None
        if isinstance(atom, Mod) and abs(coefficient) == 1:
            rest = subtract(e, polynomial({monomial: coefficient}))
            remainder = negate(rest) if coefficient > 0 else rest
            if type(remainder) is int:
                yield atom.numerator, atom.denominator, remainder
    for index in dict.fromkeys(index for monomial, _ in e.terms for index in monomial):
        atom = atom_at(index)
        if isinstance(atom, FloorDiv):
            p, q = atom.numerator, atom.denominator
            over = subtract(p, multiply(q, of_atom(atom)))
            for side in (e, negate(e)):
                remainder = subtract(over, side)
                if type(remainder) is int and (
                    remainder == 0 or (type(q) is int and 0 <= remainder < q)
                ):
                    yield p, q, remainder


def _common_divisors(e: Expr) -> Iterator[Fact]:
    """`c*x + r == 0` says that c divides r: worth knowing where r is about a single symbol."""
    for monomial, coefficient in e.terms:
        if monomial != () and abs(coefficient) > 1:
            rest = modulo(subtract(e, polynomial({monomial: coefficient})), abs(coefficient))
            atom = single_atom(rest)
            one = len(symbols_of(rest)) == 1
            if isinstance(atom, Mod) and one and _is_polynomial(atom.numerator):
                yield zero(rest)


def _is_polynomial(size: Size) -> bool:
    """Whether it is made of symbols alone. What is learned of functions of functions leads to ever
    more of them."""
    return all(isinstance(atom_at(i), Symbol) for monomial, _ in terms_of(size) for i in monomial)


def _occurs(atom: Atom, size: Size) -> bool:
    """Whether the atom is part of the expression, at any depth."""
    if isinstance(atom, Symbol):
        return atom in symbols_of(size)
    return any(each is atom for each in atoms_in(size))


def _preference(atom: Atom) -> tuple[int, int, str]:
    """Which atom to replace, the largest first: unbacked symbols, then backed ones, the youngest
    name first, then functions."""
    if isinstance(atom, Symbol):
        return (1 if atom.backed else 2, len(atom.name), atom.name)
    return (0, 0, str(of_atom(atom)))
