"""Bytes that a kernel has to move, in the sizes of its segment: each element that it touches, once.

What a kernel reads again (in another stage, in another row) is counted once, as if caches were
without end; what it keeps to itself is not counted. Of what is read where data says, as many
elements are counted as there are indices.
"""

from __future__ import annotations

from typing import NamedTuple

from anyshape.loops.expr import WIDTH, Axis
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.program import Buffer, Launch, Segment
from anyshape.loops.vector_axis import depends, scalars_of
from anyshape.symbolic import Size, Symbol, as_symbol, minimum, product, substitute, symbol
from anyshape.symbolic.expr import symbols_of


class Traffic(NamedTuple):
    """Bytes."""

    reads: Size
    writes: Size


def traffic(segment: Segment, launch: Launch) -> Traffic:
    known = {b.name: b for b in (*segment.inputs, *segment.temporaries, *segment.outputs)}
    buffers = {f"k{number}": known[name] for number, name in enumerate(launch.buffers)}
    sizes = {as_symbol(symbol(f"n{n}")): size for n, size in enumerate(launch.sizes)}
    kernel = launch.kernel
    reads: dict[tuple[str, Size], Size | None] = {}
    writes: dict[tuple[str, Size], Size | None] = {}
    for stage in kernel.stages:
        for scalar in scalars_of(kernel, stage):
            if scalar.op == "load" and scalar.data not in writes:
                reads.setdefault(scalar.data, _elements(kernel, stage, scalar.data[1]))
        for part in (*stage.stores, *stage.scans):
            place = part.buffer, part.address
            writes.setdefault(place, _elements(kernel, stage, part.address))
            if getattr(part, "mode", "set") != "set":
                reads.setdefault(place, writes[place])
    return Traffic(_bytes(reads, buffers, sizes), _bytes(writes, buffers, sizes))


def _elements(kernel: Kernel, stage: Stage, address: Size) -> Size | None:
    """How many an address stands for: as many as there are points of the axes that it depends on.
    None if that is not plain."""
    axes = (*kernel.axes, *stage.axes)
    moved = [axis for axis in axes if _moves(kernel, address, axis)]
    own = {axis.symbol for axis in axes} | kernel.positions.keys()
    if any(symbols_of(axis.extent) & own for axis in moved):
        return None
    return product([axis.extent for axis in moved])


def _moves(kernel: Kernel, address: Size, axis: Axis) -> bool:
    found = symbols_of(address)
    positions = [kernel.positions[each] for each in found if each in kernel.positions]
    return axis.symbol in found or any(depends(kernel, each, axis.symbol) for each in positions)


def _bytes(
    places: dict[tuple[str, Size], Size | None],
    buffers: dict[str, Buffer],
    sizes: dict[Symbol, Size],
) -> Size:
    total: Size = 0
    for name, buffer in buffers.items():
        counts = [count for (own, _), count in places.items() if own == name]
        if not counts:
            continue
        pairs = zip(buffer.sizes, buffer.strides, strict=True)
        found = product([size for size, stride in pairs if stride != 0])
        if None not in counts:
            touched = sum((each for each in counts if each is not None), start=0)
            found = minimum(substitute(touched, sizes), found)
        total = total + found * WIDTH[buffer.dtype]
    return total
