"""What repeats itself along an axis that stands for two: it depends on the second of them alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anyshape.loops.collapsed_axes import Flattened
from anyshape.loops.expr import Scalar
from anyshape.loops.kernels import Stage
from anyshape.loops.linear import coefficient
from anyshape.loops.stages import roots_of
from anyshape.symbolic import Expr, Size
from anyshape.symbolic.expr import atom_at, of_atom

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
            size = _size_in(scalar)
            loads = scalar.op == "load" and scalar.data[0] in changing
            own = not loads and scalar.op != "row" and (size is None or _by_rest(size, flat))
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
        if scalar in seen:
            continue
        seen.add(scalar)
        stack += scalar.args
        size = _size_in(scalar)
        if size is not None:
            sizes.append(size)
    return any(coefficient(size, axis) is None for size in sizes)


def _size_in(scalar: Scalar) -> Size | None:
    match scalar.op:
        case "load":
            return scalar.data[1]
        case "index":
            return scalar.data
        case _:
            return None


def _by_rest(size: Size, flat: Flattened) -> bool:
    if not isinstance(size, Expr):
        return True
    axis = flat.axis.symbol
    return all(
        index == flat.rest.index or axis not in of_atom(atom_at(index)).symbols
        for monomial, _ in size.terms
        for index in monomial
    )
