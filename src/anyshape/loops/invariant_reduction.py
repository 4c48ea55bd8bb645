"""Whether a reduction is the same for several points of an axis.

The statistics of a group of channels depend on `i1 // 8` of a channel and on nothing else of it: a
kernel over channels would compute them eight times.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import Atom, FloorDiv, Mod, atom_at, of_atom, terms_of


def is_repeated(reduction: Scalar, axes: Iterable[Symbol]) -> bool:
    """Whether one of these axes only counts divided, or only by what remains of it."""
    sizes = [
        scalar.data[1] if scalar.op == "load" else scalar.data
        for scalar in expr.reached([reduction])
        if scalar.op in ("load", "index")
    ]
    atoms = {atom for size in sizes for atom in _atoms(size)}
    for axis in axes:
        kinds = {type(atom) for atom in atoms if axis in of_atom(atom).symbols}
        if kinds in ({FloorDiv}, {Mod}):
            return True
    return False


def _atoms(size: Size) -> Iterable[Atom]:
    return (atom_at(index) for monomial, _ in terms_of(size) for index in monomial)
