"""What the next point of the parallel axes reads, brought near while this one is computed.

A kernel of several stages over a row reads it from memory in the first one; the others find it in
the nearest cache. Memory would have nothing to do meanwhile, and the first stage of the next row
would wait for it. So the stage that reads the row again asks for the next one as it goes along.
"""

from __future__ import annotations

from typing import Final

from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.memory import pointer
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.loops.expr import WIDTH, Scalar
from anyshape.loops.vector_axis import scalars_of, stride_along
from anyshape.symbolic import Size

#: Bytes of a row beyond which the cache has no room for two.
_LONGEST: Final = 1 << 18


def prefetchable_loads(e: Emitter, number: int) -> dict[Scalar, Size]:
    """The loads of a stage that are the second of their kind in the kernel, and how many elements
    further the next point has the same."""
    if e.plan.column is not None or not e.kernel.axes or not e.kernel.stages[number].axes:
        return {}
    last = e.kernel.axes[-1].symbol
    found: dict[Scalar, Size] = {}
    for load in _loads(e, number):
        stages = [earlier for earlier in range(number) if load in _loads(e, earlier)]
        private = load.data[0] in e.kernel.private or load.data[0] in e.plan.written
        if len(stages) != 1 or private:
            continue
        step = stride_along(e.kernel, load.data[1], last)
        if step is not None and step != 0:
            found[load] = step
    return found


def _loads(e: Emitter, number: int) -> list[Scalar]:
    """Those of whole vectors."""
    stage = e.kernel.stages[number]
    return [
        scalar
        for scalar in scalars_of(e.kernel, stage)
        if scalar.op == "load"
        and not scalar.args
        and stage.axes
        and stride_along(e.kernel, scalar.data[1], stage.axes[-1].symbol) == 1
    ]


def emit_prefetch(e: Emitter, number: int, ahead: dict[Scalar, Size], copies: int) -> None:
    """In a round of the stage: what these loads are going to read for the next point."""
    for load, step in ahead.items():
        distance = _distance(e, number, load, step)
        for e.copy in range(copies if distance is not None else 0):
            place = pointer(e, load.data[0], load.data[1], load.dtype)
            further = e.let(f"getelementptr i8, ptr {place}, i64 {distance}")
            e.do(f"call void @llvm.prefetch.p0(ptr {further}, i32 0, i32 3, i32 1)")
        e.copy = 0


def _distance(e: Emitter, number: int, load: Scalar, step: Size) -> str | None:
    """In bytes. Where it is not worth it, 0: to ask for what is here already costs nothing."""
    row = e.kernel.stages[number].axes[-1].extent * WIDTH[load.dtype]
    step = step * WIDTH[load.dtype]
    if isinstance(row, int):
        return narrow_size(e, step) if row <= _LONGEST else None

    def choose() -> str:
        short = e.let(f"icmp ule i64 {narrow_size(e, row)}, {_LONGEST}")
        return e.let(f"select i1 {short}, i64 {narrow_size(e, step)}, i64 0")

    level = max(e.traits_of_size(row)[0], e.traits_of_size(step)[0])
    return e.once(level, ("ahead", row, step), choose)
