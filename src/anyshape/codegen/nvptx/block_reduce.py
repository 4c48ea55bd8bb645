"""Threads of a block that share one point of the parallel axes, and blocks that do.

Each takes every so manieth vector of a stage's last axis; of a stage with several axes, as many of
them as a row has vectors take one index of the first axis together. What they fold is merged first
within each warp, by shuffles, then, where a row has several warps, through shared memory, and where
it has several blocks, through the device's (`block_group`). The order is fixed, so that equal runs
have equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anyshape.codegen.llvm.cooperative_reduce import StageFolds, ThreadTeam
from anyshape.codegen.llvm.emitter import Emitter, States
from anyshape.codegen.llvm.loop_nest import StageCode
from anyshape.codegen.llvm.plan import LIGHT, LONG
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.codegen.nvptx.block_group import (
    HAS_PARTS,
    block_barrier,
    exchange,
    group_barrier,
)
from anyshape.loops.expr import Axis

#: Warps of a block, at most.
WARPS: Final = 32
#: Shared memory for what warps have folded: eight bytes for each of them and each state.
PARTIAL: Final = "@as_partial"
#: Shared memory that the launch says the size of.
SHARED: Final = "@as_shared"

_BITS: Final = {"float": 32, "double": 64, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 1}


def partial_array(states: int) -> str:
    return f"{PARTIAL} = internal addrspace(3) global [{WARPS * states} x i64] undef, align 8"


#: Bytes of shared memory that no launch asks for: a function has its own there.
LEFT_FOR_KERNELS: Final = 4096


def partial_bytes(states: int) -> int:
    return 8 * WARPS * states


class BlockTeam(ThreadTeam):
    """`%tid.x` of `%ntid.x` threads; `%active` says whether there is a point for them."""

    #: where in shared memory the states of the reduction at hand begin
    first_state = 0

    def thread_slice(self, e: Emitter, stage: int, axis: Axis, is_split: bool) -> tuple[str, str]:
        # They share the last axis, vector by vector: see `BlockStage`.
        return "0", narrow_size(e, axis.extent)

    def barrier(self, e: Emitter) -> None:
        block_barrier(e)

    def leader_only(self, e: Emitter, body: Callable[[], None]) -> None:
        e.run_if("%leads", body)

    def reduce(self, e: Emitter, folds: StageFolds, states: States) -> States:
        if not states:
            if not folds.is_last:
                self.barrier(e)
            return states
        types = folds.types()

        def across_block() -> States:
            block_barrier(e)
            e.run_if("%first.lane", lambda: self.put(e, types, merged, "%warp"))
            block_barrier(e)
            place = e.let("add i32 %first.warp, %lane")
            own = e.when("%is.warp", folds.start(), types, lambda: self.get(e, types, place))
            return self.butterfly(e, folds, own)

        merged = self.butterfly(e, folds, states)
        return e.when("%has.warps", merged, types, across_block)

    def butterfly(
        self,
        e: Emitter,
        folds: StageFolds,
        own: States,
        distances: Sequence[int] = (16, 8, 4, 2, 1),
    ) -> States:
        """With what threads of the warp at these distances have, then at the next of them."""
        for distance in distances:
            own = folds.merged(e, own, self.shuffled(e, folds.types(), own, distance))
        return own

    def shuffled(self, e: Emitter, types: list[str], states: States, distance: int) -> States:
        """What the thread at this distance has."""
        pairs = zip(types, states, strict=True)
        return [shuffled(e, type_, text, "bfly", str(distance)) for type_, text in pairs]

    def put(self, e: Emitter, types: list[str], states: States, place: str) -> None:
        pairs = zip(types, states, strict=True)
        for number, (type_, text) in enumerate(pairs, start=self.first_state):
            e.do(f"store {type_} {text}, ptr addrspace(3) {_partial(e, number, place)}, align 8")

    def get(self, e: Emitter, types: list[str], place: str) -> States:
        return [
            e.let(f"load {type_}, ptr addrspace(3) {_partial(e, number, place)}, align 8")
            for number, type_ in enumerate(types, start=self.first_state)
        ]


class GroupTeam(BlockTeam):
    """The same threads of `%parts` blocks, of which this is number `%part`."""

    def barrier(self, e: Emitter) -> None:
        group_barrier(e)

    def reduce(self, e: Emitter, folds: StageFolds, states: States) -> States:
        merged = super().reduce(e, folds, states)
        if not merged:
            return merged
        types = folds.types()

        def across_parts() -> States:
            is_first = e.let("icmp eq i32 %tid, 0")
            read = exchange(e, types, merged, is_first)
            first, start = e.let("zext i32 %lane to i64"), folds.start()

            def body(part: str, own: States) -> States:
                return folds.merged(e, own, read(part))

            some = e.let(f"icmp slt i64 {first}, %parts.64")
            own = e.when(
                some, start, types, lambda: e.loop((first, "%parts.64", "32"), start, types, body)
            )
            return self.butterfly(e, folds, own)

        return e.when(HAS_PARTS, merged, types, across_parts)


def _partial(e: Emitter, number: int, place: str) -> str:
    at = e.let(f"add i32 {place}, {number * WARPS}")
    return e.let(f"getelementptr i64, ptr addrspace(3) {PARTIAL}, i32 {at}")


#: How the thread is named whose value is taken: by the bits that differ in its number, by how far
#: it is before this one, or by its number. And where the instruction ends: a whole warp.
_LAST: Final = {"bfly": 31, "up": 0, "idx": 31}


def shuffled(e: Emitter, type_: str, text: str, kind: str, by: str) -> str:
    """What another thread of the warp has."""
    bits = _BITS[type_]
    whole = f"i{bits}"
    if type_ in ("float", "double"):
        text = e.let(f"bitcast {type_} {text} to {whole}")
    if bits == 64:
        low = _exchanged(e, e.let(f"trunc i64 {text} to i32"), kind, by)
        high = _exchanged(e, e.let(f"trunc i64 {e.let(f'lshr i64 {text}, 32')} to i32"), kind, by)
        shifted = e.let(f"shl i64 {e.let(f'zext i32 {high} to i64')}, 32")
        text = e.let(f"or i64 {shifted}, {e.let(f'zext i32 {low} to i64')}")
    elif bits == 32:
        text = _exchanged(e, text, kind, by)
    else:
        sent = _exchanged(e, e.let(f"zext {whole} {text} to i32"), kind, by)
        text = e.let(f"trunc i32 {sent} to {whole}")
    return e.let(f"bitcast {whole} {text} to {type_}") if type_ in ("float", "double") else text


def _exchanged(e: Emitter, text: str, kind: str, by: str) -> str:
    given = f"i32 -1, i32 {text}, i32 {by}, i32 {_LAST[kind]}"
    return e.let(f"call i32 @llvm.nvvm.shfl.sync.{kind}.i32({given})")


class StridedStage(StageCode):
    """A stage whose innermost loop goes in strides, since others take the rounds between. Several
    rounds are one: what they read is on its way at the same time."""

    def __init__(self, e: Emitter, number: int) -> None:
        super().__init__(e, number, 1)
        self.ahead = {}
        cost = e.plan.costs[number]
        self.together = 1 if self.stage.scans else 4 if cost < LIGHT else 2 if cost < LONG else 1
        #: where on the last axis this thread begins, and how far it is to its next round
        self.begin, self.stride = "%begin", "%stride"

    def _strided(self, axis: Axis, end: str, states: States) -> States:
        e, begin, stride = self.e, self.begin, self.stride
        if self.together > 1:
            # Whole rounds of several, then those that are left.
            last = e.let(f"mul i64 {stride}, {self.together - 1}")
            whole = e.let(f"sub i64 {end}, {last}")
            step = e.let(f"mul i64 {stride}, {self.together}")
            some = e.let(f"icmp slt i64 {begin}, {whole}")
            states = e.when(
                some, states, self.types, lambda s=states: self._several(axis, whole, step, s)
            )
            room = e.let(f"sub i64 {whole}, {begin}")
            above = e.let(f"add i64 {room}, {e.let(f'sub i64 {step}, 1')}")
            rounds = e.let(f"udiv i64 {above}, {step}")
            taken = e.let(f"mul i64 {rounds}, {step}")
            taken = e.let(f"select i1 {some}, i64 {taken}, i64 0")
            begin = e.let(f"add i64 {begin}, {taken}")
        some = e.let(f"icmp slt i64 {begin}, {end}")
        return e.when(
            some,
            states,
            self.types,
            lambda s=states: self._inner(axis, (begin, end), stride, s, False),
        )

    def _several(self, axis: Axis, end: str, step: str, states: States) -> States:
        self.copies = self.together
        states = self._inner(axis, (self.begin, end), step, states, False)
        self.copies = 1
        return states

    def _open(self, axis: Axis, variable: str) -> None:
        super()._open(axis, variable)
        e = self.e
        if axis is not self.stage.axes[-1] or self.copies == 1:
            return
        places = [variable]
        for _ in range(1, self.copies):
            places.append(e.let(f"add i64 {places[-1]}, {self.stride}"))
        e.loops[axis.symbol].places = tuple(places)


class BlockStage(StridedStage):
    """A stage whose last axis the threads of a block share."""

    team = BlockTeam()

    def _rows(self, axis: Axis, bounds: tuple[str, str], states: States) -> States:
        self.e.vector_axis = axis.symbol
        states = self._strided(axis, bounds[1], states)
        self.e.vector_axis = None
        return states


class GroupStage(BlockStage):
    """A stage that the threads of several blocks may share. Where it has several axes, only as many
    threads as it takes are side by side on the last one."""

    team = GroupTeam()

    def __init__(self, e: Emitter, number: int) -> None:
        super().__init__(e, number)
        if len(self.stage.axes) > 1:
            self.team = _NestedTeam(*self._set_places())

    def _set_places(self) -> tuple[str, str]:
        """Which of the parts of the first axis is this thread's, and how many there are."""
        e = self.e
        extent = narrow_size(e, self.stage.axes[-1].extent)
        vectors = e.let(f"sdiv i64 {e.let(f'add i64 {extent}, {e.lanes - 1}')}, {e.lanes}")
        # The power of two that is not less, and not more than there are threads.
        less = e.let(f"call i64 @llvm.smax.i64(i64 {e.let(f'sub i64 {vectors}, 1')}, i64 0)")
        bits = e.let(f"sub i64 64, {e.let(f'call i64 @llvm.ctlz.i64(i64 {less}, i1 false)')}")
        most = e.let("call i64 @llvm.cttz.i64(i64 %ntid.64, i1 true)")
        bits = e.let(f"call i64 @llvm.umin.i64(i64 {bits}, i64 {most})")
        side = e.let(f"shl i64 1, {bits}")
        across = e.let(f"and i64 %tid.64, {e.let(f'sub i64 {side}, 1')}")
        self.begin = e.let(f"mul i64 {across}, {e.lanes}")
        self.stride = e.let(f"mul i64 {side}, {e.lanes}")
        beside = e.let(f"lshr i64 %ntid.64, {bits}")
        before = e.let(f"mul i64 %part.64, {beside}")
        number = e.let(f"add i64 {before}, {e.let(f'lshr i64 %tid.64, {bits}')}")
        return number, e.let(f"mul i64 %parts.64, {beside}")


class _NestedTeam(GroupTeam):
    def __init__(self, number: str, count: str) -> None:
        self._number, self._count = number, count

    def thread_slice(self, e: Emitter, stage: int, axis: Axis, is_split: bool) -> tuple[str, str]:
        return part_of_axis(e, axis, self._number, self._count)


def part_of_axis(e: Emitter, axis: Axis, number: str, count: str) -> tuple[str, str]:
    """Where a thread begins and ends that has this part of so many; nothing if it has no point."""
    extent = narrow_size(e, axis.extent)
    more = e.let(f"add i64 {extent}, {e.let(f'sub i64 {count}, 1')}")
    each = e.let(f"sdiv i64 {more}, {count}")
    begin = e.let(f"mul i64 {each}, {number}")
    end = e.let(f"call i64 @llvm.smin.i64(i64 {e.let(f'add i64 {begin}, {each}')}, i64 {extent})")
    return begin, e.let(f"select i1 %active, i64 {end}, i64 0")
