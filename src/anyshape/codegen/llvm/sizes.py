"""Addresses and extents: polynomials over axes, sizes and positions, as i64.

A polynomial is summed level by level: what is the same for a whole loop is added before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anyshape.codegen.ir_builder import constant, vector
from anyshape.symbolic import Size, Symbol
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
    polynomial,
)

if TYPE_CHECKING:
    from anyshape.codegen.llvm.emitter import Emitter


def narrow_size(e: Emitter, size: Size) -> str:
    """The value of a size that is the same in all lanes; of one that moves with the vectors' axis,
    its value in the first lane."""
    if isinstance(size, int):
        return str(size)
    text, reached = "", 0
    for level, terms in terms_by_level(e, size):
        reached = max(reached, level)
        for monomial, coefficient in terms:
            term = _product(e, monomial, coefficient)
            text = _sum(e, reached, text, term) if text else term
    return text


def wide_size(e: Emitter, size: Size) -> str:
    """The value in each lane, a vector."""
    level, wide = e.traits_of_size(size)
    if not wide:
        key = ("splat", size, e.copy_if(False))
        return e.once(level, key, lambda: e.splat("i64", narrow_size(e, size)))
    return e.once(level, ("wide", size, e.copy), lambda: _wide(e, size))


def terms_by_level(e: Emitter, size: Size) -> list[tuple[int, list[tuple[Monomial, int]]]]:
    groups: dict[int, list[tuple[Monomial, int]]] = {}
    for monomial, coefficient in ordered_terms(size):
        level = max((e.traits_of_atom(atom_at(i))[0] for i in monomial), default=0)
        groups.setdefault(level, []).append((monomial, coefficient))
    return sorted(groups.items())


# -- one value for all lanes -----------------------------------------------------------------------


def _product(e: Emitter, monomial: Monomial, coefficient: int) -> str:
    atoms = sorted((atom_at(i) for i in monomial), key=lambda atom: e.traits_of_atom(atom)[0])
    text, reached = str(coefficient), 0
    for count, atom in enumerate(atoms):
        level, wide = e.traits_of_atom(atom)
        reached = max(reached, level)
        factor = _narrow_atom(e, atom)
        if text == "1":
            text = factor
            continue
        key = ("product", coefficient, tuple(a.index for a in atoms[: count + 1]), e.copy_if(wide))
        text = e.once(reached, key, lambda a=text, b=factor: e.let(f"mul i64 {a}, {b}"))
    return text


def _sum(e: Emitter, level: int, a: str, b: str) -> str:
    return e.once(level, ("sum", a, b), lambda: e.let(f"add i64 {a}, {b}"))


def _narrow_atom(e: Emitter, atom: Atom) -> str:
    if isinstance(atom, Symbol):
        return e.symbol(atom)
    level, wide = e.traits_of_atom(atom)
    return e.once(level, ("atom", atom.index, e.copy_if(wide)), lambda: _narrow_function(e, atom))


def _narrow_function(e: Emitter, atom: Atom) -> str:
    match atom:
        case FloorDiv() | Mod():
            kind = "div" if isinstance(atom, FloorDiv) else "mod"
            a, b = narrow_size(e, atom.numerator), narrow_size(e, atom.denominator)
            plain = is_natural(atom.numerator) and is_natural(atom.denominator)
            return _divide(e, kind, a, b, 0, plain)
        case Min() | Max():
            return _extreme(e, atom, narrow_size, 0)
        case Symbol():
            return e.symbol(atom)


def _extreme(e: Emitter, atom: Min | Max, size: Callable[[Emitter, Size], str], lanes: int) -> str:
    """The least or the largest of several sizes, each of which `size` gives."""
    sign = "slt" if isinstance(atom, Min) else "sgt"
    type_, truth = vector("i64", lanes), vector("i1", lanes)
    first, *others = ordered_arguments(atom)
    text = size(e, first)
    for argument in others:
        other = size(e, argument)
        better = e.let(f"icmp {sign} {type_} {other}, {text}")
        text = e.let(f"select {truth} {better}, {type_} {other}, {type_} {text}")
    return text


def _divide(e: Emitter, kind: str, a: str, b: str, lanes: int, plain: bool = False) -> str:
    """Towards minus infinity. A divisor of 0 must not trap: the code may stand before the test that
    says the loop is empty."""
    type_, truth = vector("i64", lanes), vector("i1", lanes)
    zero = "zeroinitializer" if lanes else "0"
    if lanes or not b.lstrip("-").isdigit():
        none = e.let(f"icmp eq {type_} {b}, {zero}")
        one = constant(1, "i64", lanes)
        b = e.let(f"select {truth} {none}, {type_} {one}, {type_} {b}")
    if plain:
        return e.let(f"{'udiv' if kind == 'div' else 'urem'} {type_} {a}, {b}")
    rest = e.let(f"srem {type_} {a}, {b}")
    some = e.let(f"icmp ne {type_} {rest}, {zero}")
    mixed = e.let(f"icmp slt {type_} {e.let(f'xor {type_} {rest}, {b}')}, {zero}")
    off = e.let(f"and {truth} {some}, {mixed}")
    if kind == "mod":
        more = e.let(f"select {truth} {off}, {type_} {b}, {type_} {zero}")
        return e.let(f"add {type_} {rest}, {more}")
    quotient = e.let(f"sdiv {type_} {a}, {b}")
    if lanes:
        return e.let(f"add {type_} {quotient}, {e.let(f'sext {truth} {off} to {type_}')}")
    return e.let(f"sub {type_} {quotient}, {e.let(f'zext {truth} {off} to {type_}')}")


def is_natural(size: Size) -> bool:
    """Whether it is plain from the form alone that a size is not negative."""
    if isinstance(size, int):
        return size >= 0
    return all(
        coefficient >= 0 and all(_natural_atom(atom_at(i)) for i in monomial)
        for monomial, coefficient in size.terms
    )


def _natural_atom(atom: Atom) -> bool:
    match atom:
        case Symbol():
            return atom.declared.lower is not None and atom.declared.lower >= 0
        case FloorDiv():
            return is_natural(atom.numerator) and is_natural(atom.denominator)
        case Mod():
            return is_natural(atom.denominator)
        case Max():
            return any(map(is_natural, atom.arguments))
        case Min():
            return all(map(is_natural, atom.arguments))


# -- one value for each lane -----------------------------------------------------------------------


def _wide(e: Emitter, size: Size) -> str:
    wide = f"<{e.lanes} x i64>"
    steady = e.steady_parts(size)
    if steady is not None:
        factor, _ = steady
        first = e.splat("i64", narrow_size(e, size))
        lanes = lane_numbers(e.lanes)
        if factor != 1:
            by = wide_size(e, factor)
            lanes = e.let(f"mul {wide} {by}, {lanes}")
        return e.let(f"add {wide} {first}, {lanes}")
    total = ""
    narrow: dict[Monomial, int] = {}
    for monomial, coefficient in ordered_terms(size):
        atoms = [atom_at(i) for i in monomial]
        if not any(e.traits_of_atom(atom)[1] for atom in atoms):
            narrow[monomial] = coefficient
            continue
        varying = [atom for atom in atoms if e.traits_of_atom(atom)[1]]
        same = tuple(a.index for a in atoms if not e.traits_of_atom(a)[1])
        term = _wide_atom(e, varying[0])
        for atom in varying[1:]:
            term = e.let(f"mul {wide} {term}, {_wide_atom(e, atom)}")
        if same or coefficient != 1:
            by = e.splat("i64", _product(e, same, coefficient))
            term = e.let(f"mul {wide} {term}, {by}")
        total = e.let(f"add {wide} {total}, {term}") if total else term
    if narrow:
        from_all = e.splat("i64", narrow_size(e, polynomial(narrow)))
        total = e.let(f"add {wide} {total}, {from_all}")
    return total


def _wide_atom(e: Emitter, atom: Atom) -> str:
    found = e.lane_atoms.get((atom.index, e.copy))
    if found is not None:
        return found
    level, _ = e.traits_of_atom(atom)
    return e.once(level, ("wide atom", atom.index, e.copy), lambda: _wide_function(e, atom))


def _wide_function(e: Emitter, atom: Atom) -> str:
    wide = f"<{e.lanes} x i64>"
    match atom:
        case Symbol() if atom in e.positions:
            return e.widen(e.value(e.positions[atom]))
        case Symbol():
            first = e.splat("i64", e.symbol(atom))
            return e.let(f"add {wide} {first}, {lane_numbers(e.lanes)}")
        case FloorDiv() | Mod():
            kind = "div" if isinstance(atom, FloorDiv) else "mod"
            a = wide_size(e, atom.numerator)
            if is_natural(atom.numerator) and is_natural(atom.denominator):
                return divide_naturals(e, kind, a, atom.denominator)
            return _divide(e, kind, a, wide_size(e, atom.denominator), e.lanes)
        case Min() | Max():
            return _extreme(e, atom, wide_size, e.lanes)


def divide_naturals(e: Emitter, kind: str, a: str, divisor: Size) -> str:
    """Through f64: processors divide no vectors of integers. For numbers below 2**53, as addresses
    are, the quotient rounds to an integer from below only if it is one: it differs from the next
    integer by at least 1/divisor, which is more than half a unit in the last place."""
    wide, floats = f"<{e.lanes} x i64>", f"<{e.lanes} x double>"
    b = wide_size(e, divisor)
    if isinstance(divisor, int) and divisor & (divisor - 1) == 0 and divisor:
        return e.let(f"{'udiv' if kind == 'div' else 'urem'} {wide} {a}, {b}")
    quotient = e.let(
        f"fdiv {floats} {e.let(f'sitofp {wide} {a} to {floats}')},"
        f" {e.let(f'sitofp {wide} {b} to {floats}')}"
    )
    whole = e.let(f"fptosi {floats} {quotient} to {wide}")
    if kind == "div":
        return whole
    return e.let(f"sub {wide} {a}, {e.let(f'mul {wide} {whole}, {b}')}")


def lane_numbers(lanes: int) -> str:
    return f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>"
