"""Rows that are too long for registers, kept in shared memory by the first stage that reads them.

Every later stage would read them again from the device's memory: blocks work on so many long rows
at the same time that a cache has none of them for long. What earlier stages have computed is
computed again of it, so that there is room for one row.
"""

from __future__ import annotations

from collections import Counter

from anyshape.codegen.nvptx.held_rows import can_be_held, forwarded
from anyshape.codegen.nvptx.strips import without_private
from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.loops.stages import mapped
from anyshape.loops.substitute import Rewriting
from anyshape.loops.vector_axis import scalars_of, stride_along
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic.expr import of_atom

#: Rows, at least: of fewer, several blocks share each.
FEWEST_ROWS = 128


def staged(kernel: Kernel) -> Kernel | None:
    """The kernel with private memory for what several stages read along a row; None if there is
    nothing of the kind."""
    if not can_be_held(kernel):
        return None
    kernel = forwarded(kernel)
    kernel = replace(kernel, stages=tuple(without_private(kernel)), private={})
    axis = next(stage.axes[0] for stage in kernel.stages if stage.axes)
    whole = of_atom(axis.symbol)
    readers = Counter(
        scalar
        for stage in kernel.stages
        for scalar in scalars_of(kernel, stage)
        if scalar.op == "load" and not scalar.args and stage.axes
    )
    names = {
        scalar: f"row{number}"
        for number, (scalar, count) in enumerate(readers.items())
        if count > 1 and stride_along(kernel, scalar.data[1], axis.symbol) == 1
    }
    if not names:
        return None
    copies: dict[Scalar, Scalar] = {}
    stages: list[Stage] = []
    for stage in kernel.stages:
        new = [
            s for s in scalars_of(kernel, stage) if s in names and s not in copies and stage.axes
        ]
        made = mapped(stage, Rewriting(copies.get))
        kept = tuple(Store(names[scalar], whole, scalar) for scalar in new)
        stages.append(replace(made, stores=(*made.stores, *kept)))
        copies |= {each: expr.load(names[each], whole, each.dtype) for each in new}
    private = {name: (scalar.dtype, axis.extent) for scalar, name in names.items()}
    return replace(kernel, stages=tuple(stages), private=private)
