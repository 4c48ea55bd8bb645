"""Axes in pieces: where a condition on the index changes, what a round computes changes as well.

    stage (): k2[i0] = where(i0 < n0, k0[i0] if i0 < n0 else 0, k1[i0 - n0] if i0 >= n0 else 0)

    up to n0:  k2[i0] = k0[i0]
    from n0:   k2[i0] = k1[i0 - n0]

Padding, tensors side by side and the like ask in every round on which side of a seam it is. The
answer is the same for all rounds of a piece, so that nothing is asked there, nothing is masked,
and what is not needed is not computed.
"""

from __future__ import annotations

from typing import Final

from anyshape.loops import expr
from anyshape.loops.collapsed_axes import Flattened
from anyshape.loops.expr import Scalar
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.linear import coefficient
from anyshape.loops.stages import mapped, roots_of
from anyshape.loops.substitute import Rewriting, rebuilt
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.expr import Atom, polynomial, symbols_of

#: comparisons as `a - b + offset < 0`, or its contrary
_BELOW: Final[dict[str, tuple[int, bool]]] = {
    "lt": (0, True),
    "ge": (0, False),
    "le": (-1, True),
    "gt": (-1, False),
}
#: conditions of conditions
_COMBINED: Final = frozenset(["and", "or", "not"])


@dataclass(frozen=True, slots=True)
class Seam:
    """`bound`: the pieces of the axis are the rounds before it and those from it on. None: the
    condition, which no round of the axis changes, holds for all of them or for none."""

    bound: Size | None
    condition: Scalar


def seam_of(kernel: Kernel, stage: Stage, axis: Symbol, flat: Flattened | None) -> Seam | None:
    """A seam that a stage has along an axis of its kernel; those that depend on the axis first.
    `flat`: the axis stands for two."""
    for scalar in _comparisons(stage):
        found = _bound(scalar, axis, flat)
        if found is not None:
            return Seam(found[0], scalar)
    outer = frozenset(each.symbol for each in kernel.axes) - {axis}
    # The last one made is made of others: one question instead of several.
    return next(
        (
            Seam(None, scalar)
            for scalar in sorted(_of_indices(stage), key=lambda scalar: -scalar.order)
            if scalar.free & outer and axis not in scalar.free
        ),
        None,
    )


def piece_of(stage: Stage, seam: Seam, holds: bool, axis: Symbol, flat: Flattened | None) -> Stage:
    """What the stage is on the side of a seam where its condition holds, or does not: before the
    bound and from it on, if it has one."""
    truths = {seam.condition: holds}
    if seam.bound is not None:
        for scalar in _comparisons(stage):
            found = _bound(scalar, axis, flat)
            if found is not None and found[0] == seam.bound:
                truths[scalar] = holds is found[1]
    return mapped(stage, _Deciding(truths))


def _comparisons(stage: Stage) -> list[Scalar]:
    """Those of sizes and indices, the first made first."""
    found = [scalar for scalar in _of_indices(stage) if scalar.op in _BELOW]
    return sorted(found, key=lambda scalar: scalar.order)


def _of_indices(stage: Stage) -> set[Scalar]:
    """The conditions on sizes and indices alone."""
    every = sorted(expr.reached(roots_of(stage)), key=lambda scalar: scalar.order)
    found: set[Scalar] = set()
    for scalar in every:
        compares = scalar.op in _BELOW and all(map(_is_index, scalar.args))
        combines = scalar.op in _COMBINED and scalar.dtype == "b1" and found.issuperset(scalar.args)
        if compares or combines:
            found.add(scalar)
    return found


def _is_index(scalar: Scalar) -> bool:
    """Positions read from tensors are no indices of loops."""
    if scalar.op == "index":
        return all(expr.position_scalar(symbol) is None for symbol in scalar.free)
    return scalar.op == "constant" and scalar.dtype == "i64"


def _bound(scalar: Scalar, axis: Symbol, flat: Flattened | None) -> tuple[Size, bool] | None:
    """`(b, truth)`: the comparison has that truth for the rounds of the axis before b, and the
    other one from b on."""
    offset, truth = _BELOW[scalar.op]
    one, other = scalar.args
    below: Size = one.data - other.data + offset
    width: Size = 1
    if flat is None:
        found = coefficient(below, axis)
    else:
        # Whole rows of the second axis: pieces have all of its points, or none.
        found, width = _by_atom(below, flat.quotient), flat.width
        if found is not None and axis in symbols_of(found[1]):
            return None
    if found is None:
        return None
    step, rest = found
    if step == 1:
        return -rest * width, truth
    if step == -1:
        # rest - axis < 0 from rest + 1 on
        return (rest + 1) * width, not truth
    return None


def _by_atom(size: Size, atom: Atom) -> tuple[Size, Size] | None:
    """`(a, b)` with `size == a * atom + b`, if the atom is a factor of at most one term."""
    if not isinstance(size, Expr):
        return None
    rest: dict[tuple[int, ...], int] = {}
    step = 0
    for monomial, number in size.terms:
        if monomial == (atom.index,):
            step = number
        elif atom.index in monomial:
            return None
        else:
            rest[monomial] = number
    return (step, polynomial(rest)) if step else None


class _Deciding(Rewriting):
    """Puts truths for conditions, and leaves out what is not needed then."""

    def __init__(self, truths: dict[Scalar, bool]) -> None:
        super().__init__(self._decided)
        self._truths = truths

    def _decided(self, scalar: Scalar) -> Scalar | None:
        known = self._truths.get(scalar)
        if known is not None:
            return expr.constant(known, "b1")
        if not scalar.args:
            return scalar
        match scalar.op:
            case "where":
                truth = _truth(self(scalar.args[0]))
                return None if truth is None else self(scalar.args[1 if truth else 2])
            case "load":
                truth = _truth(self(scalar.args[0]))
                if truth is None:
                    return None
                if not truth:
                    return self(scalar.args[1])
                buffer, address = scalar.data
                return expr.load(buffer, address, scalar.dtype)
            case "and" | "or" if scalar.dtype == "b1":
                return self._either(scalar, scalar.op == "or")
            case "not" if scalar.dtype == "b1":
                truth = _truth(self(scalar.args[0]))
                return None if truth is None else expr.constant(not truth, "b1")
            case _:
                return None

    def _either(self, scalar: Scalar, decisive: bool) -> Scalar:
        """`and` is false if one part is, `or` is true; else it is what is left of the others."""
        args = tuple(map(self, scalar.args))
        truths = list(map(_truth, args))
        if decisive in truths:
            return expr.constant(decisive, "b1")
        left = [arg for arg, truth in zip(args, truths, strict=True) if truth is None]
        if not left:
            return expr.constant(not decisive, "b1")
        return left[0] if len(left) == 1 else rebuilt(scalar, args)


def _truth(scalar: Scalar) -> bool | None:
    return bool(scalar.data) if scalar.op == "constant" else None
