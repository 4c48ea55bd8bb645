"""The axis that vectors run along.

Either it is the last axis of each stage (`rows`), or one of the parallel axes (`columns`). The
choice is by what it does to memory accesses: consecutive lanes should touch consecutive elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from anyshape.loops.collapsed_axes import SHORT
from anyshape.loops.expr import Axis, Scalar, sizes_in
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.linear import coefficient
from anyshape.loops.stages import roots_of
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import symbols_of

#: What an access costs by how its address moves from lane to lane.
_STEADY: Final = 1
_STRIDED: Final = 8


def best_column(kernel: Kernel) -> Axis | None:
    """The parallel axis that vectors should run along; None for the last ones of the stages."""
    candidates = kernel.axes[-1:] if kernel.ordered else kernel.axes
    if not candidates:
        return None
    column, price = best_of(kernel, candidates)
    if not any(stage.axes for stage in kernel.stages):
        return column
    rows = _price(kernel, [stage.axes[-1] if stage.axes else None for stage in kernel.stages])
    return column if price < rows else None


def best_of(kernel: Kernel, axes: tuple[Axis, ...]) -> tuple[Axis, float]:
    """The one of the parallel axes that costs least, and what it costs."""
    prices = {axis: _price(kernel, [axis] * len(kernel.stages)) for axis in axes}
    # The last one among equals: that is where memory is dense.
    column = min(reversed(axes), key=lambda axis: prices[axis])
    return column, prices[column]


def _price(kernel: Kernel, axes: list[Axis | None]) -> float:
    """What the accesses of the stages cost with vectors along these axes."""
    price = 0.0
    for stage, axis in zip(kernel.stages, axes, strict=True):
        if axis is None:
            continue
        # Reductions weigh more than what is done once with their results.
        weight = 16.0 if stage.axes else 1.0
        if isinstance(axis.extent, int) and axis.extent < SHORT:
            weight *= SHORT / max(1, axis.extent)
        for buffer, address in accesses(kernel, stage):
            if buffer in kernel.private:
                continue
            step = stride_along(kernel, address, axis.symbol)
            price += weight * (_STEADY if step in (0, 1) else _STRIDED)
    return price


def accesses(kernel: Kernel, stage: Stage) -> Iterator[tuple[str, Size]]:
    for scalar in scalars_of(kernel, stage):
        if scalar.op == "load":
            yield scalar.data
    for part in (*stage.stores, *stage.scans):
        yield part.buffer, part.address


def stride_along(kernel: Kernel, address: Size, axis: Symbol) -> Size | None:
    """How far the address moves with each step of the axis; None where that is not steady."""
    parts = coefficient(address, axis)
    if parts is None:
        return None
    for symbol in symbols_of(address):
        scalar = kernel.positions.get(symbol)
        if scalar is not None and depends(kernel, scalar, axis):
            return None
    return parts[0]


def depends(kernel: Kernel, scalar: Scalar, axis: Symbol) -> bool:
    return any(
        axis in symbols_of(size) for part in _reached(kernel, [scalar]) for size in sizes_in(part)
    )


# -- walking ---------------------------------------------------------------------------------------


def scalars_of(kernel: Kernel, stage: Stage) -> Iterator[Scalar]:
    """Every scalar that a round of the stage needs, each once."""
    roots = list(roots_of(stage))
    for part in (*stage.stores, *stage.scans):
        roots += _positions_in(kernel, part.address)
    return _reached(kernel, roots)


def _reached(kernel: Kernel, roots: Iterable[Scalar]) -> Iterator[Scalar]:
    seen: set[Scalar] = set()
    stack = list(roots)
    while stack:
        scalar = stack.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        yield scalar
        stack += scalar.args
        for size in sizes_in(scalar):
            stack += _positions_in(kernel, size)


def _positions_in(kernel: Kernel, size: Size) -> list[Scalar]:
    return [kernel.positions[s] for s in symbols_of(size) if s in kernel.positions]
