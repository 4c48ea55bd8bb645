"""The value of an expression or a fact when its symbols have values, and expressions with symbols
replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyshape.errors import AnyshapeError, SymbolicTypeError, UndefinedDivision, UnknownSymbol
from anyshape.symbolic.division import floordiv, modulo
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
    check_size,
    multiply,
    of_atom,
)
from anyshape.symbolic.extrema import maximum, minimum
from anyshape.symbolic.logic import (
    And,
    Fact,
    Nonnegative,
    Nonzero,
    Or,
    Truth,
    Zero,
    and_,
    nonnegative,
    not_,
    or_,
    zero,
)


def evaluate(size: Size, values: Mapping[Symbol, int]) -> int:
    """The integer that `size` is for these values of its symbols."""
    if type(size) is int:
        return size
    assert type(size) is Expr, f"not a size: {size!r}"
    result = 0
    for monomial, coefficient in size.terms:
        for index in monomial:
            coefficient *= _value_of_atom(atom_at(index), values)
        result += coefficient
    return result


def _value_of_atom(atom: Atom, values: Mapping[Symbol, int]) -> int:
    match atom:
        case Symbol():
            value = values.get(atom)
            if value is None:
                raise UnknownSymbol(symbol=atom.name, known=tuple(map(str, values)))
            return value
        case FloorDiv() | Mod():
            divisor = evaluate(atom.denominator, values)
            if divisor == 0:
                raise UndefinedDivision(expression=str(of_atom(atom)))
            numerator = evaluate(atom.numerator, values)
            return numerator // divisor if isinstance(atom, FloorDiv) else numerator % divisor
        case Min():
            return min(evaluate(argument, values) for argument in atom.arguments)
        case Max():
            return max(evaluate(argument, values) for argument in atom.arguments)


def holds(fact: Fact, values: Mapping[Symbol, int]) -> bool:
    """Whether the fact is true for these values of its symbols; parts are tried in order, as Python
    does."""
    match fact:
        case Truth():
            return fact.value
        case Nonnegative():
            return evaluate(fact.size, values) >= 0
        case Zero():
            return evaluate(fact.size, values) == 0
        case Nonzero():
            return evaluate(fact.size, values) != 0
        case And():
            return all(holds(part, values) for part in fact.parts)
        case Or():
            return any(holds(part, values) for part in fact.parts)


def surely_holds(fact: Fact, values: Mapping[Symbol, int]) -> bool:
    """Whether the fact is true for these values; not where it has no value: a division by a size
    that is 0."""
    try:
        return holds(fact, values)
    except AnyshapeError:
        return False


class Rewrite:
    """Rebuilds expressions bottom-up, giving each atom to `replace` first; remembers what it
    rebuilt.

    `replace` returns the expression to put for an atom, or None to rebuild the atom from its
    rewritten parts. A division whose divisor becomes 0 has no value any more; it is left as it was.
    """

    __slots__ = ("_atoms", "_exprs", "_facts", "_replace")

    def __init__(self, replace: Callable[[Atom], Size | None]) -> None:
        self._replace = replace
        self._atoms: dict[int, Size] = {}
        self._exprs: dict[Expr, Size] = {}
        self._facts: dict[Fact, Fact] = {}

    def size(self, size: Size) -> Size:
        if type(size) is int:
            return size
        assert type(size) is Expr, f"not a size: {size!r}"
        found = self._exprs.get(size)
        if found is None:
            found = 0
            for monomial, coefficient in size.terms:
                term: Size = coefficient
                for index in monomial:
                    term = multiply(term, self._atom(index))
                found = add(found, term)
            self._exprs[size] = found
        return found

    def _atom(self, index: int) -> Size:
        found = self._atoms.get(index)
        if found is None:
            atom = atom_at(index)
            replaced = self._replace(atom)
            found = self._atoms[index] = self._rebuilt(atom) if replaced is None else replaced
        return found

    def _rebuilt(self, atom: Atom) -> Size:
        match atom:
            case Symbol():
                return of_atom(atom)
            case FloorDiv() | Mod():
                divide = floordiv if isinstance(atom, FloorDiv) else modulo
                divisor = self.size(atom.denominator)
                return of_atom(atom) if divisor == 0 else divide(self.size(atom.numerator), divisor)
            case Min():
                return minimum(*map(self.size, atom.arguments))
            case Max():
                return maximum(*map(self.size, atom.arguments))

    def fact(self, fact: Fact) -> Fact:
        found = self._facts.get(fact)
        if found is None:
            found = self._facts[fact] = self._rebuilt_fact(fact)
        return found

    def _rebuilt_fact(self, fact: Fact) -> Fact:
        match fact:
            case Truth():
                return fact
            case Nonnegative():
                return nonnegative(self.size(fact.size))
            case Zero():
                return zero(self.size(fact.size))
            case Nonzero():
                return not_(zero(self.size(fact.size)))
            case And():
                return and_(*map(self.fact, fact.parts))
            case Or():
                return or_(*map(self.fact, fact.parts))


def substitute(size: Size, values: Mapping[Symbol, Size]) -> Size:
    """`size` with symbols replaced, all at once. A value has to lie within its symbol's declared
    range, which the expression may already rely on.
    """
    return _replacing(values).size(size)


def substitute_fact(fact: Fact, values: Mapping[Symbol, Size]) -> Fact:
    """`fact` with symbols replaced, all at once; see `substitute`."""
    return _replacing(values).fact(fact)


def _replacing(values: Mapping[Symbol, Size]) -> Rewrite:
    for symbol, value in values.items():
        if not isinstance(symbol, Symbol):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
            raise SymbolicTypeError(detail=f"`{symbol}` is not a symbol: `as_symbol` gives it")
        size = check_size(value)
        if isinstance(size, int) and not symbol.declared.contains(size):
            raise SymbolicTypeError(detail=f"{value} is not in {symbol}'s range {symbol.declared}")
    return Rewrite(lambda atom: values.get(atom) if isinstance(atom, Symbol) else None)
