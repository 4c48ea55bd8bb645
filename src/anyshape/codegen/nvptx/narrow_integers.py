"""Comparisons and casts of coordinates in 32 bits, where sizes are known to be small.

Positions are integers of 64 bits in a program, of which a GPU computes each half by itself, and
makes floats slowly. What is surely less than 2^31 is cut before it is compared or cast: of what
came before, only the lower half is needed then.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf, prod
from typing import Final

from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.values import compute
from anyshape.loops.expr import Scalar
from anyshape.loops.value_range import Magnitudes
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import atom_at, terms_of

#: What coordinates are less than, as the host sees to, and what sizes are.
COORDINATES: Final = 1 << 30
_SIZES: Final = 1 << 31
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")


class NarrowIntegers:
    """What computes a scalar of a kernel without vectors."""

    def __init__(self, coordinates: Collection[Symbol], positions: Collection[Symbol]) -> None:
        self._coordinates, self._positions = coordinates, positions
        self._magnitudes = Magnitudes(self._of_size)

    def compute(self, e: Emitter, scalar: Scalar) -> IrValue:
        args = scalar.args
        if scalar.op in _COMPARISONS and all(map(self._is_narrow, args)):
            a, b = (self._cut(e, arg) for arg in args)
            sign = scalar.op if scalar.op in ("eq", "ne") else "s" + scalar.op
            return IrValue(e.let(f"icmp {sign} i32 {a}, {b}"), "b1", False)
        if scalar.op == "cast" and scalar.dtype == "f32" and self._is_narrow(args[0]):
            text = e.let(f"sitofp i32 {self._cut(e, args[0])} to float")
            return IrValue(text, "f32", False)
        return compute(e, scalar)

    def _is_narrow(self, scalar: Scalar) -> bool:
        return scalar.dtype == "i64" and self._magnitudes.of(scalar) < _SIZES

    def _cut(self, e: Emitter, scalar: Scalar) -> str:
        text = e.value(scalar).text
        return e.let(f"trunc i64 {text} to i32") if text.startswith("%") else text

    def _of_size(self, size: Size) -> float:
        """Of functions of sizes, and of what data says, nothing is known."""
        return sum(abs(n) * prod(map(self._of_atom, monomial)) for monomial, n in terms_of(size))

    def _of_atom(self, index: int) -> float:
        atom = atom_at(index)
        if not isinstance(atom, Symbol) or atom in self._positions:
            return inf
        return COORDINATES - 1 if atom in self._coordinates else _SIZES - 1
