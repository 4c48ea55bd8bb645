"""Kernels that differ in what their outer loops run through are one kernel.

    kernel (i0 < 2, i1 < 96, i2 < n0//4)             kernel (i0 < 2, i1 < n1, i2 < n0)
      k1[96*i0*(n0//4) + i1*(n0//4) + i2] = ...        k1[n2*i0*n0 + i1*n0 + i2] = ...

The layers of a convolutional network have other numbers of channels and smaller and smaller images,
and the same kernels otherwise. Code gains from a constant where vectors run along: there is no rest
to be masked if the extent is known to be of whole vectors. Around them a constant saves a
multiplication for each row, and costs machine code for each layer. So extents of outer axes, of
what is folded (`min` says how long that is at most), distances that have nothing to do with the
axes inside, and whatever is computed of sizes alone are sizes that are passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Final

from anyshape.loops import expr
from anyshape.loops.collapsed_axes import can_be_flattened
from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Kernel
from anyshape.loops.stages import mapped_kernel
from anyshape.loops.substitute import Rewriting
from anyshape.loops.vector_axis import best_column, best_of
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Range, Size, Symbol, as_symbol, minimum, substitute, symbol
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.expr import (
    Atom,
    Max,
    Min,
    Monomial,
    atom_at,
    derived_symbol,
    of_atom,
    ordered_terms,
    polynomial,
    single_atom,
    terms_of,
)
from anyshape.symbolic.ranges import EVERYTHING, NATURAL

#: What is smaller may be a kernel size or a stride: it stays, as does what `flattened` calls short.
_SMALLEST: Final = 8
#: Vectors of a round have so many lanes at most, or a multiple that nobody counts on.
_MOST_LANES: Final = 64
#: What is folded in as many rounds needs no second accumulator, and no second thread: that is other
#: code. Of single rounds, and of vectors.
_FEW_ROUNDS: Final = 256
_FEW_IN_VECTORS: Final = 4096
#: In which such a number is exact.
_COUNTED: Final = ("f32", "f64")


def range_of(size: Size) -> Range:
    """What a kernel relies on of a size that it is called with."""
    if isinstance(size, int):
        return Range(1, None)
    found = single_atom(size)
    if isinstance(found, Symbol):
        return found.declared
    return NATURAL if DECLARED.nonnegative(size) else EVERYTHING


def can_be_generalized(kernel: Kernel) -> bool:
    return not (kernel.ordered or kernel.positions or kernel.attends)


class _Change:
    """Rewrites the sizes of a kernel."""

    def size(self, size: Size) -> Size:
        raise NotImplementedError

    def extent(self, axis: Axis) -> Size:
        return self.size(axis.extent)

    def index(self, size: Size) -> Size:
        return self.size(size)

    def __call__(self, kernel: Kernel) -> Kernel:
        rewrite = Rewriting(self._scalar)
        self._rewrite = rewrite
        made = mapped_kernel(kernel, rewrite, self, lambda x: Axis(x.symbol, self.extent(x)))
        private = {
            name: (dtype, self.index(size)) for name, (dtype, size) in kernel.private.items()
        }
        return replace(made, private=private)

    def _scalar(self, scalar: Scalar) -> Scalar | None:
        if scalar.op == "index":
            return expr.index(self.index(scalar.data))
        if scalar.op != "load":
            return None
        buffer, address = scalar.data
        args = tuple(map(self._rewrite, scalar.args))
        return expr.load(buffer, self.size(address), scalar.dtype, *args)


# -- what is computed of sizes ---------------------------------------------------------------------


def with_names(kernel: Kernel, sizes: Iterable[Size]) -> tuple[Kernel, dict[Symbol, Size]]:
    """The kernel with symbols for quotients and the like that no axis has to do with, and what they
    mean. `sizes`: all that are in it."""
    if not can_be_generalized(kernel):
        return kernel, {}
    axes = (*kernel.axes, *(axis for stage in kernel.stages for axis in stage.axes))
    extents = (*(axis.extent for axis in axes), *(size for _, size in kernel.private.values()))
    naming = _Naming({axis.symbol for axis in axes}, (*extents, *sizes))
    return (naming(kernel), naming.meanings) if naming.names else (kernel, {})


class _Naming(_Change):
    def __init__(self, bound: set[Symbol], sizes: Iterable[Size]) -> None:
        self.names: dict[int, Expr] = {}
        self.meanings: dict[Symbol, Size] = {}
        inside: set[int] = set()
        for size in sizes:
            for index in dict.fromkeys(i for monomial, _ in ordered_terms(size) for i in monomial):
                atom = atom_at(index)
                meaning = of_atom(atom)
                if isinstance(atom, Symbol):
                    continue
                if meaning.symbols & bound:
                    # It shows how it has to do with its parts, and with others made of them.
                    inside |= _parts_of(atom)
                else:
                    self.names[index] = derived_symbol(meaning, range_of(meaning))
        for index in inside:
            self.names.pop(index, None)
        for index, name in self.names.items():
            (named,) = name.symbols
            self.meanings[named] = of_atom(atom_at(index))

    def size(self, size: Size) -> Size:
        if isinstance(size, int):
            return size
        if not any(index in self.names for monomial, _ in size.terms for index in monomial):
            return size
        terms: dict[Monomial, int] = {}
        for monomial, number in size.terms:
            new = sorted(_index_of(self.names[i]) if i in self.names else i for i in monomial)
            terms[tuple(new)] = number
        return polynomial(terms)


def _index_of(name: Expr) -> int:
    (named,) = name.symbols
    return named.index


def _parts_of(atom: Atom) -> set[int]:
    """All atoms inside of one."""
    if isinstance(atom, Symbol):
        return set()
    sizes = atom.arguments if isinstance(atom, Min | Max) else (atom.numerator, atom.denominator)
    found = {index for size in sizes for monomial, _ in terms_of(size) for index in monomial}
    for index in tuple(found):
        found |= _parts_of(atom_at(index))
    return found


# -- outer loops -----------------------------------------------------------------------------------


def generalized(
    kernel: Kernel, meanings: Mapping[Symbol, Size]
) -> tuple[Kernel, Mapping[Symbol, Size]]:
    """The kernel with sizes for what is outside of its vectors, and what all its symbols mean.
    They go by order already: `n0` is the first of `meanings`."""
    if not can_be_generalized(kernel):
        return kernel, meanings
    outer = _OuterLoops(kernel, meanings)
    return outer(kernel), outer.meanings


class _OuterLoops(_Change):
    """Puts sizes for constants, the same one for the same constant at the same place."""

    def __init__(self, kernel: Kernel, meanings: Mapping[Symbol, Size]) -> None:
        stages = {axis.symbol for stage in kernel.stages for axis in stage.axes}
        along, kept = _axes_of_vectors(kernel)
        self._along = frozenset(axis.symbol for axis in along)
        #: private buffers are as long as such an axis
        self._kept = frozenset(axis.symbol for axis in kept) | (stages if kernel.private else set())
        self._stages = stages - self._kept
        self._inside = self._along | self._kept | stages
        #: axes whose distances code has to show
        self._dense = self._kept if along and not kernel.short else self._inside
        self._made: dict[tuple[Monomial | Symbol, Size], Size] = {}
        #: what stands for the extents of stages
        self._counts: dict[int, Size] = {}
        self.meanings = dict(meanings)
        for axis in (axis for stage in kernel.stages for axis in stage.axes):
            self.extent(axis)

    def extent(self, axis: Axis) -> Size:
        extent = axis.extent
        if axis.symbol in self._kept:
            return extent
        if isinstance(extent, int):
            if extent < _SMALLEST:
                return extent
            return self._count(extent) if axis.symbol in self._stages else self._of_axis(axis)
        is_name = single_atom(extent) is not None
        is_inner = not extent.symbols <= self.meanings.keys()
        return extent if is_name or is_inner else self._of_axis(axis)

    def _of_axis(self, axis: Axis) -> Size:
        """One size for the extent; where vectors run along, as many whole ones as before."""
        factor = gcd(*(number for _, number in terms_of(axis.extent)))
        unit = _unit(factor) if axis.symbol in self._inside else 1
        rest = polynomial({monomial: n // unit for monomial, n in terms_of(axis.extent)})
        return unit * self._passed(axis.symbol, rest)

    def _count(self, extent: int) -> Size:
        """The same for what is folded, the same size for all that have as many."""
        found = self._counts.get(extent)
        if found is None:
            unit, few = (1, _FEW_ROUNDS) if self._along else (_unit(extent), _FEW_IN_VECTORS)
            found = self._passed((), extent // unit)
            if extent <= few:
                found = minimum(found, few // unit)
            found = self._counts[extent] = unit * found
        return found

    def _scalar(self, scalar: Scalar) -> Scalar | None:
        """What is divided by how many there are goes by the same size."""
        if scalar.op == "constant" and scalar.dtype in _COUNTED and scalar.data in self._counts:
            count = expr.index(self._counts[scalar.data])
            return expr.operation("cast", count, dtype=scalar.dtype)
        return super()._scalar(scalar)

    def index(self, size: Size) -> Size:
        return size

    def size(self, size: Size) -> Size:
        """An address with sizes for constants in what the axes inside have nothing to do with."""
        kept: dict[Monomial, int] = {}
        changed: Size = 0
        for monomial, number in sorted(terms_of(size), key=_order):
            atoms = list(map(atom_at, monomial))
            outer = all(isinstance(atom, Symbol) and atom not in self._dense for atom in atoms)
            if not outer or abs(number) < _SMALLEST:
                kept[monomial] = number
                continue
            passed = self._passed(monomial, abs(number)) * polynomial({monomial: 1})
            changed = changed + passed if number > 0 else changed - passed
        return size if isinstance(changed, int) else polynomial(kept) + changed

    def _passed(self, place: Monomial | Symbol, value: Size) -> Size:
        if (place, value) not in self._made:
            meaning = substitute(value, self.meanings)
            made = symbol(f"n{len(self.meanings)}", range_of(meaning))
            self._made[place, value] = made
            self.meanings[as_symbol(made)] = meaning
        return self._made[place, value]


def _unit(number: int) -> int:
    return min(number & -number, _MOST_LANES)


def _axes_of_vectors(kernel: Kernel) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Those of the kernel's own axes that code may have vectors along, and axes whose extents it
    has to show, since they may be short."""
    column = best_column(kernel)
    along = () if column is None else (column,)
    if not kernel.short:
        return along, ()
    if can_be_flattened(kernel):
        # The last two are one axis of vectors.
        return (*along, kernel.axes[-2]), kernel.axes[-1:]
    stages = tuple(axis for stage in kernel.stages for axis in stage.axes)
    return (*along, best_of(kernel, kernel.axes)[0]), stages


def _order(term: tuple[Monomial, int]) -> tuple[str, ...]:
    """Of names, since numbers of atoms are another in each process."""
    return tuple(atom_at(index).key for index in term[0])
