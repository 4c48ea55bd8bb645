"""What range can an expression take? And is it at least 0, by bounds alone?

Both questions are answered from the ranges of atoms. `DECLARED` knows only what symbols were
declared with, so its answers hold always and canonical forms may use them; `Facts` brings its own,
narrower ranges.
"""

from __future__ import annotations

from typing import Final

from anyshape.symbolic import ranges
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
    atom_at,
    single_atom,
    subtract,
)
from anyshape.symbolic.ranges import Range

_MOST_SHIFTED: Final = 6


class Bounds:
    """Ranges of expressions, given narrower ranges for some atoms. Remembers what it computed."""

    __slots__ = ("_atoms", "_exprs", "_nonnegative", "narrowed")

    def __init__(self, narrowed: dict[int, Range]) -> None:
        self.narrowed = narrowed
        self._atoms: dict[int, Range] = {}
        self._exprs: dict[Expr, Range] = {}
        self._nonnegative: dict[Expr, bool] = {}

    def of(self, size: Size) -> Range:
        """A range that holds every value of `size`; not always the smallest one."""
        if type(size) is int:
            return Range(size, size)
        assert type(size) is Expr, f"not a size: {size!r}"
        found = self._exprs.get(size)
        if found is None:
            found = Range(0, 0)
            for monomial, coefficient in size.terms:
                found = ranges.add(found, ranges.scale(self._of_monomial(monomial), coefficient))
            self._exprs[size] = found
        return found

    def of_atom(self, index: int) -> Range:
        found = self._atoms.get(index)
        if found is None:
            found = self._of_function(atom_at(index))
            narrowed = self.narrowed.get(index)
            if narrowed is not None:
                both = ranges.intersect(found, narrowed)
                # Facts that cannot hold together leave nothing; any range is then right, and the
                # narrower one is kept.
                found = narrowed if ranges.is_empty(both) else both
            self._atoms[index] = found
        return found

    def _of_function(self, atom: Atom) -> Range:
        match atom:
            case Symbol():
                return atom.declared
            case FloorDiv():
                return ranges.floordiv(self.of(atom.numerator), self.of(atom.denominator))
            case Mod():
                return ranges.modulo(self.of(atom.numerator), self.of(atom.denominator))
            case Min():
                result = self.of(atom.arguments[0])
                for argument in atom.arguments[1:]:
                    result = ranges.minimum(result, self.of(argument))
                return result
            case Max():
                result = self.of(atom.arguments[0])
                for argument in atom.arguments[1:]:
                    result = ranges.maximum(result, self.of(argument))
                return result

    def _of_monomial(self, monomial: Monomial) -> Range:
        if not monomial:
            return Range(1, 1)
        if len(monomial) == 1:
            return self.of_atom(monomial[0])
        result: Range | None = None
        position = 0
        while position < len(monomial):
            index = monomial[position]
            exponent = 1
            while position + exponent < len(monomial) and monomial[position + exponent] == index:
                exponent += 1
            factor = ranges.power(self.of_atom(index), exponent)
            result = factor if result is None else ranges.multiply(result, factor)
            position += exponent
        assert result is not None, "a monomial with atoms has a range"
        return result

    def nonnegative(self, size: Size) -> bool:
        """True if `size >= 0` follows from bounds; False says nothing."""
        if type(size) is int:
            return size >= 0
        assert type(size) is Expr, f"not a size: {size!r}"
        found = self._nonnegative.get(size)
        if found is None:
            low, high = self.of(size)
            if low is not None and low >= 0:
                found = True
            elif high is not None and high < 0:
                found = False
            else:
                found = self._nonnegative_when_shifted(size)
            self._nonnegative[size] = found
        return found

    def _nonnegative_when_shifted(self, size: Expr) -> bool:
        """Write each atom as (its least value + something natural): with no negative coefficient
        left, the sum is natural.

        Proves what a sum of ranges cannot, since there the same atom may take two values at once:
        `s*t - s` for t >= 1. An atom that is subtracted somewhere may instead be mirrored at its
        largest value: `6*s - s*t` for t <= 6.
        """
        if self._natural_after_shift(size, frozenset()):
            return True
        subtracted = frozenset(
            index
            for monomial, coefficient in size.terms
            if coefficient < 0
            for index in monomial
            if self.of_atom(index).upper is not None
        )
        return bool(subtracted) and self._natural_after_shift(size, subtracted)

    def _natural_after_shift(self, size: Expr, mirrored: frozenset[int]) -> bool:
        shifted: dict[Monomial, int] = {}
        for monomial, coefficient in size.terms:
            if len(monomial) > _MOST_SHIFTED:
                return False  # A product of n shifted atoms has 2**n terms.
            parts: dict[Monomial, int] = {(): coefficient}
            for index in monomial:
                low, high = self.of_atom(index)
                if high is not None and (low is None or index in mirrored):
                    offset, sign = high, -1
                elif low is not None:
                    offset, sign = low, 1
                else:
                    return False
                if not offset and sign > 0:  # the atom itself is what is natural
                    parts = {(*part, index): value for part, value in parts.items()}
                    continue
                grown: dict[Monomial, int] = {}
                for part, value in parts.items():
                    # The indices of a monomial ascend, so the new one goes last.
                    with_atom = (*part, index)
                    grown[with_atom] = grown.get(with_atom, 0) + sign * value
                    grown[part] = grown.get(part, 0) + value * offset
                parts = grown
            for part, value in parts.items():
                shifted[part] = shifted.get(part, 0) + value
        return all(value >= 0 for value in shifted.values())

    def at_least(self, a: Size, b: Size) -> bool:
        """True if `a >= b` follows from bounds; an extreme is compared by its arguments."""
        if self.nonnegative(subtract(a, b)):
            return True
        low, high = single_atom(b), single_atom(a)
        if isinstance(low, Max):
            return all(self.at_least(a, argument) for argument in low.arguments)
        if isinstance(high, Min):
            return all(self.at_least(argument, b) for argument in high.arguments)
        if isinstance(low, Min):
            return any(self.at_least(a, argument) for argument in low.arguments)
        return isinstance(high, Max) and any(self.at_least(x, b) for x in high.arguments)

    def positive(self, size: Size) -> bool:
        """True if a divisor `size` is above 0: it is not 0 (else the division has no value), so
        natural is enough."""
        return self.nonnegative(size)


DECLARED = Bounds({})
