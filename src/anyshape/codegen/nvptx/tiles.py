"""Tiles of transposed copies: those that `loops/tiled.py` makes, in shared memory.

The threads of a block share both axes of a stage: some take neighbouring vectors of the last one,
the others the next rows of the first. Rows of a tile in shared memory are one element apart from
where they would end, so that a column is in as many banks as it has elements.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

from anyshape.codegen.llvm.emitter import Emitter, States
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.codegen.nvptx.block_reduce import BlockStage, BlockTeam
from anyshape.loops import expr
from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.stages import mapped
from anyshape.loops.substitute import Rewriting
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size
from anyshape.symbolic.expr import (
    Min,
    Monomial,
    atom_at,
    of_atom,
    polynomial,
    single_atom,
    terms_of,
)

#: Threads of a tile.
THREADS: Final = 256


def is_tiled(kernel: Kernel) -> bool:
    if len(kernel.stages) != 2 or not kernel.private or kernel.ordered or kernel.positions:
        return False
    first, second = kernel.stages
    symbols = [axis.symbol for axis in first.axes]
    return (
        len(symbols) == 2
        and [axis.symbol for axis in reversed(second.axes)] == symbols
        and not any(stage.folds or stage.scans or stage.checks for stage in kernel.stages)
        and all(isinstance(elements, int) for _, elements in kernel.private.values())
        and all(store.buffer in kernel.private for store in first.stores)
    )


def padded(kernel: Kernel) -> Kernel:
    """With a gap behind each row of a tile."""
    row = of_atom(kernel.stages[0].axes[0].symbol)

    def moved(scalar: Scalar) -> Scalar | None:
        if scalar.op != "load" or scalar.data[0] not in kernel.private:
            return None
        return expr.load(scalar.data[0], scalar.data[1] + row, scalar.dtype)

    change = Rewriting(moved)
    stages: list[Stage] = []
    for stage in kernel.stages:
        stores = tuple(
            replace(store, address=store.address + row) if store.buffer in kernel.private else store
            for store in stage.stores
        )
        stages.append(mapped(replace(stage, stores=stores), change))
    private = {
        name: (dtype, elements + isqrt(elements))
        for name, (dtype, elements) in kernel.private.items()
        if isinstance(elements, int)
    }
    return replace(kernel, stages=tuple(stages), private=private)


def tile_side(kernel: Kernel) -> int:
    """Of a kernel that is padded."""
    elements = next(iter(kernel.private.values()))[1]
    assert isinstance(elements, int), "the size of a tile is known"
    return isqrt(elements)


class TileTeam(BlockTeam):
    def thread_slice(self, e: Emitter, stage: int, axis: Axis, is_split: bool) -> tuple[str, str]:
        return "%tile.y", narrow_size(e, axis.extent)


class TileStage(BlockStage):
    """A stage whose two axes the threads of a block share."""

    team = TileTeam()

    def __init__(self, e: Emitter, number: int) -> None:
        super().__init__(e, number)
        self.together = 1

    def _nest(self, axes: list[Axis], bounds: tuple[str, str], states: States) -> States:
        if len(axes) == 1:
            return super()._nest(axes, bounds, states)

        def body(variable: str, inside: States) -> States:
            self._open(axes[0], variable)
            return self._rows(axes[1], ("0", narrow_size(self.e, axes[1].extent)), inside)

        return self.e.loop((*bounds, "%tile.step"), states, self.types, body)


def cut_extent(extent: Size, kernel: Kernel) -> Size | None:
    """The length of the axis that tiles cut into pieces, `min(64, length - 64*tile)`: they are
    whole vectors if it is. None if the extent is something else."""
    axes = {axis.symbol for axis in kernel.axes}
    atom = single_atom(extent)
    if not isinstance(atom, Min) or len(atom.arguments) != 2:
        return None
    side, rest = sorted(atom.arguments, key=lambda each: not isinstance(each, int))
    if not isinstance(side, int):
        return None
    kept: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(rest):
        if not any(of_atom(atom_at(i)).symbols & axes for i in monomial):
            kept[monomial] = coefficient
        elif coefficient % side:
            return None
    return polynomial(kept)
