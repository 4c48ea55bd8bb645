"""Columns that are folded: the threads of a block share a strip of neighbouring ones.

Along x each thread has a vector of the column axis; those along y share its stages, each taking
every so manieth round of an axis, or a part of the first one where there are several. So do the
blocks of a group, where there are few strips of much.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyshape.codegen.llvm.cooperative_reduce import StageFolds, foldings_of
from anyshape.codegen.llvm.emitter import Emitter, States
from anyshape.codegen.llvm.reductions import Scanning
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.codegen.nvptx.block_group import HAS_PARTS, block_barrier, bytes_of, exchange
from anyshape.codegen.nvptx.block_reduce import (
    SHARED,
    GroupTeam,
    StridedStage,
    part_of_axis,
)
from anyshape.codegen.nvptx.held_rows import forwarded
from anyshape.loops.expr import Axis
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.vector_axis import scalars_of
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import product

#: Rounds that a thread makes alone: what is less is not worth waiting for others.
_FOR_ONE_THREAD = 32
#: Threads of a block.
MOST_THREADS = 512


def for_strips(kernel: Kernel) -> Kernel | None:
    """The kernel with nothing that only a thread has: it is computed again. None if its columns are
    not for several threads."""
    if kernel.ordered or any(stage.scans for stage in kernel.stages):
        return None
    if all(_is_short(stage) for stage in kernel.stages):
        return None
    if not kernel.private:
        return kernel
    made = forwarded(kernel)
    loads = (s for stage in made.stages for s in scalars_of(made, stage) if s.op == "load")
    # What a stage has written is not what another one was computed of.
    written = {part.buffer for stage in kernel.stages for part in stage.stores}
    if not written.isdisjoint(scalar.data[0] for scalar in loads):
        return None
    return replace(made, stages=tuple(_without_private(made)), private={})


def _is_short(stage: Stage) -> bool:
    rounds = product([axis.extent for axis in stage.axes])
    return isinstance(rounds, int) and rounds <= _FOR_ONE_THREAD


def _without_private(kernel: Kernel) -> Iterator[Stage]:
    for stage in kernel.stages:
        stores = tuple(store for store in stage.stores if store.buffer not in kernel.private)
        if stores or stage.folds or stage.checks:
            yield replace(stage, stores=stores)


def states_bytes(kernel: Kernel, lanes: int) -> int:
    """Of what the threads of a column or a row tell each other, at most."""
    folds = (StageFolds(foldings_of(stage), lanes, 1, False) for stage in kernel.stages)
    types = [each.types() for each in folds]
    types += [[Scanning(scan, lanes).type for scan in stage.scans] for stage in kernel.stages]
    return max(map(bytes_of, types), default=0)


class StripTeam(GroupTeam):
    """`%tid.y` of `%ntid.y` threads of a column in `%part` of `%parts` blocks."""

    def thread_slice(self, e: Emitter, stage: int, axis: Axis, is_split: bool) -> tuple[str, str]:
        if len(e.kernel.stages[stage].axes) > 1:
            return part_of_axis(e, axis, "%team.number", "%team.count")
        extent = narrow_size(e, axis.extent)
        return "%team.number", e.let(f"select i1 %active, i64 {extent}, i64 0")

    def reduce(self, e: Emitter, folds: StageFolds, states: States) -> States:
        if not states:
            if not folds.is_last:
                self.barrier(e)
            return states
        types, start = folds.types(), folds.start()

        def merge(own: States, others: States) -> States:
            return folds.merged(e, own, others)

        def across_block(own: States) -> States:
            block_barrier(e)
            self._put(e, types, own)
            block_barrier(e)
            first = self._get(e, types, "0")
            bounds = ("1", "%ntid.y.64", "1")
            return e.loop(bounds, first, types, lambda y, o: merge(o, self._get(e, types, y)))

        def across_parts(own: States) -> States:
            offset = e.let(f"mul i64 %tid.64, {bytes_of(types)}")
            is_first = e.let("icmp eq i32 %tid.y, 0")
            read = exchange(e, types, own, is_first, offset)
            bounds = ("%tid.y.64", "%parts.64", "%ntid.y.64")
            some = e.let("icmp slt i64 %tid.y.64, %parts.64")
            own = e.when(
                some,
                start,
                types,
                lambda: e.loop(bounds, start, types, lambda p, o: merge(o, read(p))),
            )
            return e.when("%has.team", own, types, lambda o=own: across_block(o))

        merged = e.when("%has.team", states, types, lambda: across_block(states))
        return e.when(HAS_PARTS, merged, types, lambda: across_parts(merged))

    def _put(self, e: Emitter, types: list[str], states: States) -> None:
        places = self._places(e, types, "%tid.y.64")
        for type_, text, place in zip(types, states, places, strict=True):
            e.do(f"store {type_} {text}, ptr addrspace(3) {place}, align 8")

    def _get(self, e: Emitter, types: list[str], y: str) -> States:
        return [
            e.let(f"load {type_}, ptr addrspace(3) {place}, align 8")
            for type_, place in zip(types, self._places(e, types, y), strict=True)
        ]

    def _places(self, e: Emitter, types: list[str], y: str) -> list[str]:
        """In shared memory: neighbours have theirs side by side."""
        thread = e.let(f"add i64 {e.let(f'mul i64 {y}, %ntid.64')}, %tid.64")
        found: list[str] = []
        for number, type_ in enumerate(types):
            before = e.let(f"mul i64 %block.threads, {bytes_of(types[:number])}")
            own = e.let(f"mul i64 {thread}, {bytes_of([type_])}")
            at = e.let(f"add i64 {before}, {own}")
            found.append(e.let(f"getelementptr i8, ptr addrspace(3) {SHARED}, i64 {at}"))
        return found


class StripStage(StridedStage):
    """A stage whose rounds the threads of a column share."""

    team = StripTeam()

    def __init__(self, e: Emitter, number: int) -> None:
        super().__init__(e, number)
        self.begin, self.stride = "%team.number", "%team.count"
        if len(self.stage.axes) > 1:
            self.begin, self.stride = "0", "1"

    def _columns(self, axis: Axis, bounds: tuple[str, str], states: States) -> States:
        return self._strided(axis, bounds[1], states)

    def _several(self, axis: Axis, end: str, step: str, states: States) -> States:
        e, column = self.e, self.e.plan.column
        assert column is not None, "strips are of columns"
        loop = e.loops[column.symbol]
        e.takes_rounds, loop.places = True, (loop.variable,) * self.together
        states = super()._several(axis, end, step, states)
        e.takes_rounds, loop.places = False, ()
        return states
