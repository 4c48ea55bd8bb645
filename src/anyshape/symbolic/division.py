"""Floor division, remainder and rounding-up division, in canonical form.

    (4*s0 + 7) // 4     gives  s0 + 1
    (-s0) // 2          gives  -((s0 + 1) // 2)
    (s0 * s1) // s1     gives  s0                 (s1 is a divisor, so it is not 0)
    (s0 // 4) // 2      gives  s0 // 8
    (s0 + -s0 % 4) // 4 gives  (s0 + 3) // 4      (padded to a multiple, then cut into pieces)

Each step below is an identity of Python's `//` and `%` over the integers, with its reason beside
it; q is the divisor.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from anyshape.errors import UndefinedDivision
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.expr import (
    Expr,
    FloorDiv,
    Mod,
    Monomial,
    Size,
    add,
    atom_at,
    check_size,
    function_of_two,
    leading_coefficient,
    multiply,
    negate,
    polynomial,
    single_atom,
    subtract,
    terms_of,
)

_QUOTIENTS: Final[dict[tuple[Size, Size], Size]] = {}
_REMAINDERS: Final[dict[tuple[Size, Size], Size]] = {}
_MOST_STEPS: Final = 16


def floordiv(p: Size, q: Size) -> Size:
    """`p // q`, rounding towards minus infinity."""
    if type(p) is int and type(q) is int and q:
        return p // q
    p, q = check_size(p), check_size(q)
    key = (p, q)
    found = _QUOTIENTS.get(key)
    if found is None:
        if q == 0:
            raise UndefinedDivision(expression=f"{p} // 0")
        found = _quotient(p, q) if isinstance(q, Expr) else _quotient_by_int(p, q)
        _QUOTIENTS[key] = found
    return found


def modulo(p: Size, q: Size) -> Size:
    """`p % q`, with the sign of q."""
    if type(p) is int and type(q) is int and q:
        return p % q
    p, q = check_size(p), check_size(q)
    key = (p, q)
    found = _REMAINDERS.get(key)
    if found is None:
        if q == 0:
            raise UndefinedDivision(expression=f"{p} % 0")
        found = _remainder(p, q) if isinstance(q, Expr) else _remainder_by_int(p, q)
        _REMAINDERS[key] = found
    return found


def ceildiv(p: Size, q: Size) -> Size:
    """`p / q`, rounded up."""
    return negate(floordiv(negate(p), q))


def _quotient_by_int(p: Size, q: int) -> Size:
    if type(p) is int:
        return p // q
    if q < 0:  # p // q == (-p) // (-q): the same rational number.
        return floordiv(negate(p), -q)
    if q == 1:
        return p
    p = by_multiples(p)
    if type(p) is int:
        return p // q
    # (q*k + r) // q == k + r // q. A coefficient keeps its sign, so that differences stay readable;
    # the constant of r lies in 0..q-1.
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(p):
        times = coefficient // q if monomial == () or coefficient > 0 else -(-coefficient // q)
        whole[monomial] = times
        rest[monomial] = coefficient - times * q
    remainder = polynomial(rest)
    if type(remainder) is int:
        return polynomial(whole)
    assert type(remainder) is Expr, "a remainder is a size"
    # floor((g*x + c) / (g*q)) == floor((x + floor(c / g)) / q) for g, q > 0: integers in between do
    # not matter.
    common = gcd(q, *(c for m, c in remainder.terms if m != ()))
    if common > 1:
        reduced = polynomial({m: c // common for m, c in remainder.terms})
        return add(polynomial(whole), floordiv(reduced, q // common))
    # floor(r / q) == -ceil(-r / q) == -((-r + q - 1) // q): one form for floor and ceiling, the
    # first term positive.
    if leading_coefficient(remainder) < 0:
        flipped = floordiv(add(negate(remainder), q - 1), q)
        return subtract(polynomial(whole), flipped)
    return add(polynomial(whole), _irreducible_quotient(remainder, q))


def by_multiples(p: Size) -> Size:
    """`p` with x + -x % c, which is x rounded up, as c*((x + c - 1) // c), and x - x % c likewise:
    x % c == x - c*(x // c)."""
    for monomial, coefficient in terms_of(p):
        atom = atom_at(monomial[0]) if len(monomial) == 1 else None
        if not isinstance(atom, Mod) or type(atom.denominator) is not int:
            continue
        others = subtract(p, polynomial({monomial: coefficient}))
        # x and -x have the same remainder by 2.
        signs = (1, -1) if atom.denominator == 2 else (1,)
        for numerator in (multiply(atom.numerator, sign) for sign in signs):
            rest = add(others, multiply(numerator, coefficient))
            if _variable_terms(rest) < _variable_terms(others):
                multiple = multiply(floordiv(numerator, atom.denominator), atom.denominator)
                return by_multiples(subtract(rest, multiply(multiple, coefficient)))
    return p


def _variable_terms(size: Size) -> int:
    return sum(monomial != () for monomial, _ in terms_of(size))


def _quotient(p: Size, q: Expr) -> Size:
    if p == 0 or _is_within(p, q):
        return 0
    if p is q:
        return 1
    whole, rest = divide(p, q)  # (q*k + r) // q == k + r // q
    if rest == 0:
        return whole
    # (g*x) // (g*y) == x // y for g != 0; g is part of the divisor, so it is not 0.
    numerator, denominator = without_shared_factors(rest, q)
    if denominator is not q:
        return add(whole, floordiv(numerator, denominator))
    # q*(-1) // ... : p // q == (-p) // (-q); the divisor's first term is positive.
    if leading_coefficient(q) < 0:
        return add(whole, floordiv(negate(rest), negate(q)))
    return add(whole, _irreducible_quotient(rest, q))


def _irreducible_quotient(p: Size, q: Size) -> Size:
    if _is_within(p, q):
        return 0
    # (x // a + r) // q == (x + a*r) // (a*q) for q > 0: floor(floor(y) / q) == floor(y / q).
    inner = _quotient_inside(p)
    if inner is not None and DECLARED.positive(q):
        atom, rest = inner
        numerator = add(atom.numerator, multiply(atom.denominator, rest))
        return floordiv(numerator, multiply(atom.denominator, q))
    return function_of_two(FloorDiv, p, q)


def _is_within(p: Size, q: Size) -> bool:
    """True if 0 <= p < q, or 0 >= p > q: then p // q is 0 and p % q is p."""
    atom = single_atom(p)
    if isinstance(atom, Mod) and atom.denominator == q:
        return True
    return DECLARED.nonnegative(p) and DECLARED.nonnegative(add(subtract(q, p), -1))


def _quotient_inside(p: Size) -> tuple[FloorDiv, Size] | None:
    """`p` as (a quotient, the rest), if it has exactly one quotient among its terms, with
    coefficient 1."""
    found: FloorDiv | None = None
    for monomial, coefficient in terms_of(p):
        atoms = [atom_at(index) for index in monomial]
        if any(isinstance(atom, FloorDiv) for atom in atoms):
            if found is not None or len(atoms) != 1 or coefficient != 1:
                return None
            found = atoms[0] if isinstance(atoms[0], FloorDiv) else None
    if found is None:
        return None
    return found, subtract(p, polynomial({(found.index,): 1}))


def _remainder_by_int(p: Size, q: int) -> Size:
    if type(p) is int:
        return p % q
    if q < 0:  # p % q == -((-p) % (-q)): the sign follows the divisor.
        return negate(modulo(negate(p), -q))
    if q == 1:
        return 0
    # Multiples of q do not matter; neither does a remainder taken before by a multiple of q.
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(_without_inner_remainders(p, q)):
        value = coefficient % q
        rest[monomial] = value if monomial == () or 2 * value <= q else value - q
    remainder = polynomial(rest)
    if type(remainder) is int:
        return remainder % q
    assert type(remainder) is Expr, "a remainder is a size"
    # (g*x + g*c + d) % (g*q) == g*((x + c) % q) + d for 0 <= d < g.
    common = gcd(q, *(c for m, c in remainder.terms if m != ()))
    if common > 1:
        constant = dict(remainder.terms).get((), 0)
        reduced = polynomial({m: c // common for m, c in remainder.terms})
        return add(multiply(modulo(reduced, q // common), common), constant % common)
    return _irreducible_remainder(remainder, q)


def _without_inner_remainders(p: Size, q: int) -> Size:
    """(x % a + r) % q == (x + r) % q where q divides a."""
    result = p
    for monomial, coefficient in terms_of(p):
        atom = atom_at(monomial[0]) if len(monomial) == 1 else None
        if isinstance(atom, Mod) and all(c % q == 0 for _, c in terms_of(atom.denominator)):
            inner = subtract(atom.numerator, polynomial({monomial: 1}))
            result = add(result, multiply(inner, coefficient))
    # What was inside may be a remainder itself.
    return result if result is p else _without_inner_remainders(result, q)


def _remainder(p: Size, q: Expr) -> Size:
    if p is q:
        return 0
    if _is_within(p, q):
        return p
    _, rest = divide(p, q)  # (q*k + r) % q == r % q
    if rest == 0:
        return 0
    # (g*x) % (g*y) == g*(x % y) for g != 0.
    numerator, denominator = without_shared_factors(rest, q)
    if denominator is not q:
        factor, left = divide(q, denominator)
        assert left == 0, "a factor divides what it was taken from"
        return multiply(factor, modulo(numerator, denominator))
    if leading_coefficient(q) < 0:
        return negate(modulo(negate(rest), negate(q)))
    return _irreducible_remainder(rest, q)


def _irreducible_remainder(p: Size, q: Size) -> Size:
    return p if _is_within(p, q) else function_of_two(Mod, p, q)


def divide(p: Size, q: Size) -> tuple[Size, Size]:
    """(k, r) with p == q*k + r, taking out what the first term of q divides evenly. r is 0 where q
    divides p."""
    if type(q) is int:
        whole = {m: c // q for m, c in terms_of(p) if c % q == 0}
        return polynomial(whole), polynomial({m: c for m, c in terms_of(p) if c % q})
    assert type(q) is Expr, "a divisor is a size"
    lead, lead_coefficient = max(q.terms, key=_by_degree)
    if len(q.terms) == 1:
        return _divide_by_term(p, lead, lead_coefficient)
    quotient: Size = 0
    rest = p
    for _ in range(_MOST_STEPS):
        for monomial, coefficient in sorted(terms_of(rest), key=_by_degree, reverse=True):
            cofactor = divide_monomial(monomial, lead)
            if cofactor is not None and coefficient % lead_coefficient == 0:
                step = polynomial({cofactor: coefficient // lead_coefficient})
                quotient = add(quotient, step)
                rest = subtract(rest, multiply(q, step))
                break
        else:
            # Taking out a part that leaves a remainder of no lower degree only makes both longer.
            return (quotient, rest) if _degree(rest) < _degree(p) or rest == 0 else (0, p)
        if rest == 0:
            return quotient, 0
    return 0, p


def _divide_by_term(p: Size, lead: Monomial, coefficient: int) -> tuple[Size, Size]:
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, value in terms_of(p):
        cofactor = divide_monomial(monomial, lead)
        if cofactor is not None and value % coefficient == 0:
            whole[cofactor] = value // coefficient
        else:
            rest[monomial] = value
    return polynomial(whole), polynomial(rest)


def _by_degree(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return len(term[0]), term[0]


def _degree(size: Size) -> int:
    return max((len(monomial) for monomial, _ in terms_of(size)), default=0)


def divide_monomial(monomial: Monomial, by: Monomial) -> Monomial | None:
    """The monomial that `by` has to be multiplied with, or None if it does not divide."""
    rest = list(monomial)
    for index in by:
        if index not in rest:
            return None
        rest.remove(index)
    return tuple(rest)


def without_shared_factors(p: Size, q: Expr) -> tuple[Size, Size]:
    """Both divided by the integer and the atoms that all their terms share."""
    content = gcd(*(c for _, c in terms_of(p)), *(c for _, c in q.terms))
    shared = _shared_atoms(terms_of(p) + q.terms)
    if content == 1 and not shared:
        return p, q
    return _divide_out(p, shared, content), _divide_out(q, shared, content)


def _divide_out(size: Size, shared: Monomial, content: int) -> Size:
    result: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(size):
        cofactor = divide_monomial(monomial, shared)
        assert cofactor is not None, "a shared factor divides every term"
        result[cofactor] = coefficient // content
    return polynomial(result)


def _shared_atoms(terms: tuple[tuple[Monomial, int], ...]) -> Monomial:
    shared = list(terms[0][0])
    for monomial, _ in terms[1:]:
        if not shared:
            break
        rest = list(monomial)
        kept: list[int] = []
        for index in shared:
            if index in rest:
                rest.remove(index)
                kept.append(index)
        shared = kept
    return tuple(shared)


def _floordiv(self: Expr, other: Size) -> Size:
    return floordiv(self, other)


def _rfloordiv(self: Expr, other: Size) -> Size:
    return floordiv(other, self)


def _mod(self: Expr, other: Size) -> Size:
    return modulo(self, other)


def _rmod(self: Expr, other: Size) -> Size:
    return modulo(other, self)


# Python's operators on expressions; here, since division builds on the nodes.
Expr.__floordiv__ = _floordiv
Expr.__rfloordiv__ = _rfloordiv
Expr.__mod__ = _mod
Expr.__rmod__ = _rmod
