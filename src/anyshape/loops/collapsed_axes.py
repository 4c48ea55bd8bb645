"""The last two axes of a pointwise kernel as one, where the last is too short for vectors.

    kernel (i0 < n0, i1 < 3)              kernel (i1 < 3*n0)
      stage (): k1[3*i0 + i1] =             stage (): k1[i1] =
        k0[3*i0 + i1] * k2[i1]                k0[i1] * k2[i1 % 3]

Rounds are the same and in the same order. Unlike axes that run as one whatever happens (see
`canonical`), these do not where something depends on one of them alone: it is worth it for short
ones only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anyshape.loops.expr import Axis, Scalar, sizes_in
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.linear import coefficient
from anyshape.loops.stages import mapped, roots_of
from anyshape.loops.substitute import Renaming
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, Symbol, floordiv, modulo
from anyshape.symbolic.expr import Atom, atom_at, of_atom, single_atom, symbols_of, terms_of

#: Nothing is gained by vectors along an axis that is shorter than this.
SHORT: Final = 8


@dataclass(frozen=True, slots=True)
class Flattened:
    kernel: Kernel
    #: the one that stands for two
    axis: Axis
    #: how long the last one was
    width: Size
    #: in sizes: the axis divided by the width, and what remains
    quotient: Atom
    rest: Atom


def can_be_flattened(kernel: Kernel) -> bool:
    """Whether a kernel has the form at all: points that have nothing to do with each other."""
    return (
        len(kernel.axes) >= 2
        and len(kernel.stages) == 1
        and not kernel.stages[0].axes
        and not kernel.stages[0].folds
        and not kernel.stages[0].scans
        and not kernel.ordered
        and not kernel.positions
        and not kernel.private
    )


def vectors_extent(kernel: Kernel) -> Size | None:
    """The extent that vectors usually run along, if it is one and has nothing to do with the point
    of the kernel's axes; None if nothing else could be done were it short."""
    if can_be_flattened(kernel):
        return kernel.axes[-1].extent
    extents = {stage.axes[-1].extent for stage in kernel.stages if stage.axes}
    simple = (
        len(extents) == 1
        and not (kernel.ordered or kernel.positions or kernel.private)
        and not any(stage.scans for stage in kernel.stages)
    )
    if not simple or not kernel.axes:
        return None
    (extent,) = extents
    bound = {axis.symbol for axis in kernel.axes}
    bound |= {axis.symbol for stage in kernel.stages for axis in stage.axes}
    return None if symbols_of(extent) & bound else extent


def flattened(kernel: Kernel) -> Flattened | None:
    """None if it cannot be, or if what is stored would not be dense."""
    if not can_be_flattened(kernel):
        return None
    *others, first, second = kernel.axes
    if second.extent == 0:
        return None  # nothing to do, in parts of nothing
    (stage,) = kernel.stages
    both = of_atom(second.symbol)
    above, beside = floordiv(both, second.extent), modulo(both, second.extent)
    quotient, rest = single_atom(above), single_atom(beside)
    if quotient is None or rest is None:
        return None
    change = _Flattening(first.symbol, second, above, beside)
    stage = mapped(stage, change, change)
    for store in stage.stores:
        found = coefficient(store.address, second.symbol)
        if found is None or found[0] != 1:
            return None
    axis = Axis(second.symbol, first.extent * second.extent)
    made = replace(kernel, axes=(*others, axis), stages=(stage,))
    return Flattened(made, axis, second.extent, quotient, rest)


class _Flattening(Renaming):
    """`first * width + second` is the one axis that stands for both; alone they are its parts."""

    def __init__(self, first: Symbol, second: Axis, above: Size, beside: Size) -> None:
        super().__init__({first: above, second.symbol: beside})
        self._first, self._second = first, second

    def size(self, size: Size) -> Size:
        by_second = coefficient(size, self._second.symbol)
        if by_second is not None and by_second[0] != 0:
            step, others = by_second
            by_first = coefficient(others, self._first)
            if by_first is not None and by_first[0] == step * self._second.extent:
                return step * of_atom(self._second.symbol) + by_first[1]
        return super().size(size)


# -- what repeats itself along the one axis: it depends on the second of the two alone ------------

#: More of them would not stay in registers anyway.
_MOST: Final = 6


def repeating(stage: Stage, flat: Flattened, written: Iterable[str]) -> list[Scalar]:
    """The largest scalars of a stage that differ from lane to lane, and depend on the rest of the
    axis by the width alone. Few and small: conditions are not worth it."""
    axis, seen, known = flat.axis.symbol, set[Scalar](), dict[Scalar, bool]()
    changing = frozenset(written)

    def repeats(scalar: Scalar) -> bool:
        found = known.get(scalar)
        if found is None:
            loads = scalar.op == "load" and scalar.data[0] in changing
            steady = all(_by_rest(size, flat) for size in sizes_in(scalar))
            own = not loads and scalar.op != "row" and steady
            found = known[scalar] = own and all(map(repeats, scalar.args))
        return found

    result: list[Scalar] = []
    stack = list(roots_of(stage))
    while stack:
        scalar = stack.pop()
        if scalar in seen or axis not in scalar.free:
            continue
        seen.add(scalar)
        if scalar.dtype != "b1" and repeats(scalar):
            result.append(scalar)
        else:
            stack += scalar.args
    result.sort(key=lambda scalar: scalar.order)
    return result[:_MOST]


def depends_on_points(stage: Stage, flat: Flattened, but_for: Iterable[Scalar]) -> bool:
    """Whether anything else needs quotient or rest of the axis, lane by lane."""
    axis = flat.axis.symbol
    seen = set(but_for)
    stack = list(roots_of(stage))
    sizes: list[Size] = [part.address for part in (*stage.stores, *stage.scans)]
    while stack:
        scalar = stack.pop()
        if scalar not in seen:
            seen.add(scalar)
            stack += scalar.args
            sizes += sizes_in(scalar)
    return any(coefficient(size, axis) is None for size in sizes)


def _by_rest(size: Size, flat: Flattened) -> bool:
    axis = flat.axis.symbol
    return all(
        index == flat.rest.index or axis not in of_atom(atom_at(index)).symbols
        for monomial, _ in terms_of(size)
        for index in monomial
    )
