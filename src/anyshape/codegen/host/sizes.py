"""Sizes computed in native code: 64-bit, shared, and never silently wrong.

A size is an integer without end in Python. Here an overflow, or a divisor that is 0, is noticed:
the function must look at `trouble()` before it uses any of the values. Of them is made where the
buffers of a plan lie in the workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from anyshape.codegen.host.abi import HostUnsupported
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.loops.memory_plan import ALIGNMENT, MemoryPlan
from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.expr import (
    Atom,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    atom_at,
    ordered_arguments,
    ordered_terms,
)

_LEAST: Final = -(2**63)

DECLARATIONS: Final = "\n".join(
    [
        "declare {i64, i1} @llvm.sadd.with.overflow.i64(i64, i64)",
        "declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
    ]
)


class Sizes:
    """Values of expressions, given those of symbols. All lines go to one block, which dominates
    every use."""

    def __init__(self, lines: FunctionBody, symbols: Mapping[Symbol, str]) -> None:
        self._lines = lines
        self._symbols = symbols
        self._values: dict[Expr, str] = {}
        self._atoms: dict[int, str] = {}
        self._products: dict[Monomial, str] = {}
        self._troubles: list[str] = []

    def of(self, size: Size) -> str:
        """The operand to write for it: `%v.3` or `7`."""
        if not isinstance(size, Expr):
            return _number(size)
        found = self._values.get(size)
        if found is None:
            found = self._values[size] = self._sum(size)
        return found

    def trouble(self) -> str:
        """An i1: whether some value is not what the expression is worth."""
        if not self._troubles:
            return "false"
        result = self._troubles[0]
        for other in self._troubles[1:]:
            result = self._lines.let(f"or i1 {result}, {other}")
        self._troubles = [result]
        return result

    def _sum(self, size: Expr) -> str:
        total: str | None = None
        for monomial, coefficient in ordered_terms(size):
            if not monomial:
                term = _number(coefficient)
            else:
                term = self._product(monomial)
                if coefficient != 1:
                    term = self._checked("smul", term, _number(coefficient))
            total = term if total is None else self._checked("sadd", total, term)
        assert total is not None, "an expression has terms"
        return total

    def _product(self, monomial: Monomial) -> str:
        found = self._products.get(monomial)
        if found is None:
            last = self._atom(monomial[-1])
            found = (
                last
                if len(monomial) == 1
                else self._checked("smul", self._product(monomial[:-1]), last)
            )
            self._products[monomial] = found
        return found

    def _checked(self, name: str, a: str, b: str) -> str:
        both = self._lines.let(f"call {{i64, i1}} @llvm.{name}.with.overflow.i64(i64 {a}, i64 {b})")
        self._troubles.append(self._lines.let(f"extractvalue {{i64, i1}} {both}, 1"))
        return self._lines.let(f"extractvalue {{i64, i1}} {both}, 0")

    def _atom(self, index: int) -> str:
        found = self._atoms.get(index)
        if found is None:
            found = self._atoms[index] = self._made(atom_at(index))
        return found

    def _made(self, atom: Atom) -> str:
        match atom:
            case Symbol():
                value = self._symbols.get(atom)
                if value is None:
                    raise HostUnsupported(f"the value of {atom.name} is not given")
                return value
            case FloorDiv() | Mod():
                return self._divided(atom)
            case Min() | Max():
                name = "smin" if isinstance(atom, Min) else "smax"
                first, *others = ordered_arguments(atom)
                result = self.of(first)
                for argument in others:
                    other = self.of(argument)
                    result = self._lines.let(
                        f"call i64 @llvm.{name}.i64(i64 {result}, i64 {other})"
                    )
                return result

    def _divided(self, atom: FloorDiv | Mod) -> str:
        let = self._lines.let
        a, b = self.of(atom.numerator), self.of(atom.denominator)
        if isinstance(atom.denominator, Expr):
            b = self._safe_divisor(a, b)
        elif atom.denominator in (0, -1):
            raise HostUnsupported(f"a division by {atom.denominator}")
        wants_quotient = isinstance(atom, FloorDiv)
        if DECLARED.nonnegative(atom.numerator) and DECLARED.nonnegative(atom.denominator):
            return let(f"{'udiv' if wants_quotient else 'urem'} i64 {a}, {b}")
        # LLVM rounds towards zero. Python's remainder has the sign of the divisor: where LLVM's has
        # the other, the quotient is one less and the remainder one divisor more.
        remainder = let(f"srem i64 {a}, {b}")
        nonzero = let(f"icmp ne i64 {remainder}, 0")
        signs = let(f"xor i64 {remainder}, {b}")
        differ = let(f"icmp slt i64 {signs}, 0")
        off = let(f"and i1 {nonzero}, {differ}")
        if wants_quotient:
            quotient = let(f"sdiv i64 {a}, {b}")
            less = let(f"sext i1 {off} to i64")
            return let(f"add i64 {quotient}, {less}")
        more = let(f"select i1 {off}, i64 {b}, i64 0")
        return let(f"add i64 {remainder}, {more}")

    def _safe_divisor(self, a: str, b: str) -> str:
        """Processors trap at x / 0 and at the least integer / -1: trouble, and 1 in its place."""
        let = self._lines.let
        zero = let(f"icmp eq i64 {b}, 0")
        minus = let(f"icmp eq i64 {b}, -1")
        least = let(f"icmp eq i64 {a}, {_LEAST}")
        both = let(f"and i1 {minus}, {least}")
        bad = let(f"or i1 {zero}, {both}")
        self._troubles.append(bad)
        return let(f"select i1 {bad}, i64 1, i64 {b}")


def _number(value: int) -> str:
    if not _LEAST <= value < 2**63:
        raise HostUnsupported(f"{value} does not fit into 64 bits")
    return str(int(value))


# -- the workspace ---------------------------------------------------------------------------------

#: an `int` where it is known, else the operand to write for it
Number = int | str


def offsets(
    lines: FunctionBody, sizes: Sizes, plan: MemoryPlan
) -> tuple[dict[str, Number], Number]:
    """Where each buffer begins in the workspace, and the bytes of the whole, which are some. Sums
    and maxima are shared: equal layers have equal ones."""
    numbers = _Numbers(lines, sizes)
    starts: dict[str, Number] = {}
    ends: dict[str, Number] = {}
    for name, size in plan.sizes.items():
        starts[name] = numbers.greatest(ends[other] for other in plan.below[name])
        ends[name] = numbers.sum(starts[name], numbers.rounded(size))
    # Nothing at all is asked for as one line: a null would look like a failure.
    return starts, numbers.greatest([*ends.values(), ALIGNMENT])


class _Numbers:
    """None of them is negative."""

    def __init__(self, lines: FunctionBody, sizes: Sizes) -> None:
        self._lines = lines
        self._sizes = sizes
        self._rounded: dict[Expr, str] = {}
        self._made: dict[tuple[str, str, str], str] = {}

    def sum(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._let("add i64 {}, {}", a, b)

    def greatest(self, numbers: Iterable[Number]) -> Number:
        found = set(numbers)
        result: Number = max((each for each in found if isinstance(each, int)), default=0)
        for each in sorted(each for each in found if isinstance(each, str)):
            result = (
                each
                if result == 0
                else self._let("call i64 @llvm.smax.i64(i64 {}, i64 {})", result, each)
            )
        return result

    def _let(self, text: str, a: Number, b: Number) -> str:
        key = (text, str(a), str(b))
        if key not in self._made:
            self._made[key] = self._lines.let(text.format(a, b))
        return self._made[key]

    def rounded(self, size: Size) -> Number:
        """To whole lines."""
        if isinstance(size, int):
            return -(-max(size, 0) // ALIGNMENT) * ALIGNMENT
        if size not in self._rounded:
            lines = self._lines
            value = self._sizes.of(size)
            natural = lines.let(f"call i64 @llvm.smax.i64(i64 {value}, i64 0)")
            # Beyond this nobody has memory, and sums of such numbers overflow.
            bounded = lines.let(f"call i64 @llvm.smin.i64(i64 {natural}, i64 {2**48})")
            more = lines.let(f"add i64 {bounded}, {ALIGNMENT - 1}")
            self._rounded[size] = lines.let(f"and i64 {more}, {-ALIGNMENT}")
        return self._rounded[size]
