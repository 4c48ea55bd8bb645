"""Transposed copies in tiles: what is read across memory is brought near first.

    kernel (i0 < n0, i1 < n1)             kernel (a < ceil(n0 / 64), b < ceil(n1 / 64))
      stage (): k1[i0*n1 + i1] =            private row0: f32[4096]
        k0[i1*n0 + i0] * 2.0                stage (d < .., c < ..):
                                              row0[64*d + c] = k0[(64*b + d)*n0 + 64*a + c]
                                            stage (c < .., d < ..):
                                              k1[(64*a + c)*n1 + 64*b + d] = row0[64*d + c] * 2.0

Neighbours that are read stand in one line of memory, neighbours that are stored in another. Both
are touched in whole lines this way, and the tile in between stays in the nearest cache. Without it
each line that is read comes and goes once for each of its elements, if there are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyshape.loops import expr
from anyshape.loops.collapsed_axes import can_be_flattened
from anyshape.loops.expr import WIDTH, Axis, Dtype, Scalar
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.loops.linear import Hint, coefficient
from anyshape.loops.stages import mapped, roots_of
from anyshape.loops.substitute import Renaming, Rewriting
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, Symbol, as_symbol, floordiv, minimum, symbol
from anyshape.symbolic.expr import of_atom

#: Elements along either side, if they have up to four bytes; half as many of eight.
TILE: Final = 64
#: Shorter axes are not worth it.
_SHORTEST: Final = 48
#: Tiles that a kernel may have: they share the nearest cache.
_MOST: Final = 2
#: What is small is read from wider elements: processors have no gathers of less than four bytes.
_KEPT_AS: Final[dict[Dtype, Dtype]] = {
    "u8": "i32",
    "i8": "i32",
    "i16": "i32",
    "b1": "i32",
    "f16": "f32",
    "bf16": "f32",
}


def tiled(kernel: Kernel, seen: Hint) -> Kernel:
    """The kernel in tiles, or as it is."""
    if not can_be_flattened(kernel):
        return kernel
    (stage,) = kernel.stages
    across = kernel.axes[-1]
    if any(_step(store.address, across) != 1 for store in stage.stores):
        return kernel
    found = _transposed(kernel, across)
    if found is None:
        return kernel
    along, loads = found
    if any((seen(axis.extent) or 0) < _SHORTEST for axis in (along, across)):
        return kernel
    return _in_tiles(kernel, along, across, loads)


def _step(address: Size, axis: Axis) -> Size | None:
    found = coefficient(address, axis.symbol)
    return None if found is None else found[0]


def _transposed(kernel: Kernel, across: Axis) -> tuple[Axis, list[Scalar]] | None:
    """The loads that are dense along another axis than the stores, and that axis."""
    (stage,) = kernel.stages
    written = {store.buffer for store in stage.stores}
    along: set[Axis] = set()
    loads: list[Scalar] = []
    for scalar in expr.reached(roots_of(stage)):
        if scalar.op != "load" or _step(scalar.data[1], across) in (0, 1):
            continue
        dense = [axis for axis in kernel.axes[:-1] if _step(scalar.data[1], axis) == 1]
        if scalar.data[0] in written or not dense:
            return None
        along.add(dense[0])
        loads.append(scalar)
    # Masks are computed where their loads are: those inside of others would be moved twice.
    inside = {part for load in loads for part in expr.reached(load.args)}
    if len(along) != 1 or len(loads) > _MOST or inside & set(loads):
        return None
    return along.pop(), loads


def _in_tiles(kernel: Kernel, along: Axis, across: Axis, loads: Sequence[Scalar]) -> Kernel:
    (stage,) = kernel.stages
    tile = min(TILE * 4 // max(4, WIDTH[load.dtype]) for load in loads)
    outer_along, inner_along = _split(along, tile, "along")
    outer_across, inner_across = _split(across, tile, "across")
    change = Renaming(
        {
            old.symbol: of_atom(outer.symbol) * tile + of_atom(inner.symbol)
            for old, outer, inner in (
                (along, outer_along, inner_along),
                (across, outer_across, inner_across),
            )
        }
    )
    place = of_atom(inner_across.symbol) * tile + of_atom(inner_along.symbol)
    private: dict[str, tuple[Dtype, Size]] = {}
    near: dict[Scalar, Scalar] = {}
    stores: list[Store] = []
    for number, load in enumerate(loads):
        name, far = f"row{number}", change(load)
        dtype = _KEPT_AS.get(load.dtype, load.dtype)
        private[name] = (dtype, tile * tile)
        stores.append(Store(name, place, _cast(far, dtype)))
        near[far] = _cast(expr.load(name, place, dtype), load.dtype)
    stage = mapped(mapped(stage, change, change), Rewriting(near.get))
    outer = {along: outer_along, across: outer_across}
    return replace(
        kernel,
        axes=tuple(outer.get(axis, axis) for axis in kernel.axes),
        stages=(
            Stage((inner_across, inner_along), tuple(stores)),
            replace(stage, axes=(inner_along, inner_across)),
        ),
        private=private,
    )


def _split(axis: Axis, tile: int, name: str) -> tuple[Axis, Axis]:
    """An axis of tiles, and one inside of a tile."""
    outer: Symbol = as_symbol(symbol(f"tile_{name}"))
    inner: Symbol = as_symbol(symbol(f"inside_{name}"))
    rest = axis.extent - of_atom(outer) * tile
    return (
        Axis(outer, floordiv(axis.extent + (tile - 1), tile)),
        Axis(inner, minimum(rest, tile)),
    )


def _cast(scalar: Scalar, dtype: Dtype) -> Scalar:
    return scalar if scalar.dtype == dtype else expr.operation("cast", scalar, dtype=dtype)
