"""Threads that share the rounds of one point of the parallel axes.

Where there are fewer points than threads, each thread takes a part of every stage's first axis.
After each stage they meet: folds are merged in the order of the threads, so that a result depends
on how many they are and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anyshape.codegen.llvm.emitter import Emitter, States
from anyshape.codegen.llvm.online_sums import OnlineSum
from anyshape.codegen.llvm.reductions import Folding
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.loops.expr import Axis
from anyshape.loops.kernels import Stage
from anyshape.loops.online_sums import ONLINE_SUMS


def foldings_of(stage: Stage) -> list[Folding]:
    return [
        (OnlineSum if f.fold in ONLINE_SUMS else Folding)(
            f.fold, f.value.dtype if f.fold.startswith("arg") else f.dtype, f.dtype
        )
        for f in stage.folds
    ]


class StageFolds(NamedTuple):
    """What a stage folds; threads that share it meet behind it. Of each copy there is a state for
    each part of each fold, in so many lanes (0: a single number)."""

    foldings: Sequence[Folding]
    lanes: int
    copies: int
    is_last: bool

    def types(self) -> list[str]:
        return [type_ for each in self.foldings for type_ in each.types(self.lanes)] * self.copies

    def start(self) -> States:
        return [text for each in self.foldings for text in each.start(self.lanes)] * self.copies

    def merged(self, e: Emitter, a: States, b: States) -> States:
        """What two threads have folded, as one."""
        results: States = []
        for folding in [*self.foldings] * self.copies:
            count = len(folding.dtypes)
            results += folding.merge(e, a[:count], b[:count], self.lanes)
            a, b = a[count:], b[count:]
        return results


class ThreadTeam:
    """Those of the processor: `%team` of them, of which this is number `%thread`."""

    def thread_slice(self, e: Emitter, stage: int, axis: Axis, is_split: bool) -> tuple[str, str]:
        """The part of the axis that this thread takes, all of it if it is alone. With `is_split`
        false the first thread takes all."""
        extent = narrow_size(e, axis.extent)
        if not e.plan.splits:
            return "0", extent
        level, _ = e.traits_of_size(axis.extent)

        def bounds() -> tuple[str, str]:
            if not is_split:
                first = e.let("icmp eq i64 %thread, 0")
                return "0", e.let(f"select i1 {first}, i64 {extent}, i64 0")
            # Whole vectors for all but the last thread.
            unit = e.lanes * e.plan.unroll[stage] if e.plan.column is None else 1
            more = e.let(f"add i64 {extent}, {e.let('add i64 %team, -1')}")
            each = e.let(f"udiv i64 {more}, %team")
            each = e.let(f"and i64 {e.let(f'add i64 {each}, {unit - 1}')}, {-unit}")
            begin = e.let(f"mul i64 {each}, %thread")
            end = e.let(f"add i64 {begin}, {each}")
            # A thread that comes too late begins beyond the end, and has nothing to do.
            return begin, e.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 {extent})")

        return e.once(level, ("share", stage), bounds)

    def barrier(self, e: Emitter) -> None:
        if e.plan.splits:
            e.run_if(_shared(e), lambda: e.do("call void @GOMP_barrier()"))

    def leader_only(self, e: Emitter, body: Callable[[], None]) -> None:
        """What is done once, however many threads there are."""
        if not e.plan.splits:
            e.enter()
            body()
            e.leave()
            return

        leader = e.once(0, "leader", lambda: e.let("icmp eq i64 %thread, 0"))
        e.run_if(leader, body)

    def reduce(self, e: Emitter, folds: StageFolds, states: States) -> States:
        """Wait for the other threads, and fold what they have."""
        if not e.plan.splits or (folds.is_last and not states and not e.kernel.axes):
            return states
        if not states:
            self.barrier(e)
            return states
        types = folds.types()
        size = narrow_size(e, e.plan.bytes_for_a_thread())
        offset = narrow_size(e, e.plan.folds_offset())
        space = e.plan.fold_bytes() // folds.copies // 2

        def place(thread: str) -> str:
            begin = e.let(f"add i64 {e.let(f'mul i64 {thread}, {size}')}, {offset}")
            return e.let(f"getelementptr i8, ptr %scratch, i64 {begin}")

        def part(start: str, number: int) -> str:
            return e.let(f"getelementptr i8, ptr {start}, i64 {number * space}")

        def read(thread: str) -> States:
            start = place(thread)
            return [
                e.let(f"load {type_}, ptr {part(start, number)}, align 8")
                for number, type_ in enumerate(types)
            ]

        def body() -> States:
            mine = place("%thread")
            for number, (type_, text) in enumerate(zip(types, states, strict=True)):
                e.do(f"store {type_} {text}, ptr {part(mine, number)}, align 8")
            e.do("call void @GOMP_barrier()")
            first = read("0")
            bounds = ("1", "%team", "1")
            merged = e.loop(bounds, first, types, lambda t, own: folds.merged(e, own, read(t)))
            e.do("call void @GOMP_barrier()")
            return merged

        return e.when(_shared(e), states, types, body)


def _shared(e: Emitter) -> str:
    return e.once(0, "shared", lambda: e.let("icmp ugt i64 %team, 1"))
