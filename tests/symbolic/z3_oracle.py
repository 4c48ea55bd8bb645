"""z3's opinion on the same questions, with Python's `//` and `%`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import z3

from anyshape.symbolic.expr import Expr, FloorDiv, Max, Min, Mod, Size, Symbol, atom_at
from anyshape.symbolic.logic import And, Fact, Nonnegative, Nonzero, Or, Truth, Zero


@dataclass
class Translation:
    """Facts as z3 formulas. Collects the ranges of the symbols and that no divisor is 0."""

    symbols: dict[Symbol, Any] = field(default_factory=dict)
    conditions: list[Any] = field(default_factory=list)

    def fact(self, fact: Fact) -> Any:
        match fact:
            case Truth():
                return z3.BoolVal(fact.value)
            case Nonnegative():
                return self.size(fact.size) >= 0
            case Zero():
                return self.size(fact.size) == 0
            case Nonzero():
                return self.size(fact.size) != 0
            case And():
                return z3.And([self.fact(part) for part in fact.parts])
            case Or():
                return z3.Or([self.fact(part) for part in fact.parts])

    def size(self, size: Size) -> Any:
        if type(size) is int:
            return z3.IntVal(size)
        assert type(size) is Expr
        total = z3.IntVal(0)
        for monomial, coefficient in size.terms:
            term = z3.IntVal(coefficient)
            for index in monomial:
                term = term * self._atom(index)
            total = total + term
        return total

    def _atom(self, index: int) -> Any:
        atom = atom_at(index)
        match atom:
            case Symbol():
                return self._symbol(atom)
            case FloorDiv():
                return self._quotient(atom)
            case Mod():
                return self.size(atom.numerator) - self.size(atom.denominator) * self._quotient(
                    atom
                )
            case Min() | Max():
                first, *rest = map(self.size, atom.arguments)
                for other in rest:
                    smaller = first <= other if isinstance(atom, Min) else first >= other
                    first = z3.If(smaller, first, other)
                return first

    def _symbol(self, symbol: Symbol) -> Any:
        if symbol not in self.symbols:
            made = self.symbols[symbol] = z3.Int(symbol.name)
            low, high = symbol.declared
            self.conditions += [] if low is None else [made >= low]
            self.conditions += [] if high is None else [made <= high]
        return self.symbols[symbol]

    def _quotient(self, atom: FloorDiv | Mod) -> Any:
        p, q = self.size(atom.numerator), self.size(atom.denominator)
        if type(atom.denominator) is not int:
            self.conditions.append(q != 0)
        # z3 rounds so that the remainder is not negative: Python's floor for a positive divisor.
        return z3.If(q > 0, p / q, (-p) / (-q))


def counterexample(given: list[Fact], fact: Fact, milliseconds: int) -> Any:
    """A model of the given facts in which `fact` is false; None if there is none; `z3.unknown` if
    z3 gives up."""
    translation = Translation()
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    formulas = [translation.fact(premise) for premise in given]
    question = translation.fact(fact)
    solver.add(*formulas, z3.Not(question), *translation.conditions)
    found = solver.check()
    if found == z3.sat:
        return solver.model()
    return None if found == z3.unsat else z3.unknown
