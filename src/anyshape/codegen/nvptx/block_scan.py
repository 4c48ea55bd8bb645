"""Running folds along rows that the threads of a block share, and blocks that do.

A row is taken tile by tile, of which each thread has a vector. It scans its own lanes; what threads
come to is scanned within each warp, by shuffles, then from warp to warp through shared memory, and
a carry goes from tile to tile. Where several blocks share a row, each has a part of it: it folds
that first, tells the others (`block_group`), and begins with what those before it have. The order
is fixed, so that equal runs have equal results.
"""

from __future__ import annotations

from anyshape.codegen.ir_builder import constant, vector
from anyshape.codegen.llvm.emitter import Emitter, IrValue, States
from anyshape.codegen.llvm.memory import store
from anyshape.codegen.llvm.reductions import Scanning, neutral, operate
from anyshape.codegen.nvptx.block_group import HAS_PARTS, block_barrier, exchange
from anyshape.codegen.nvptx.block_reduce import WARPS, BlockStage, GroupTeam, shuffled
from anyshape.loops.expr import Axis
from anyshape.loops.kernels import Kernel
from anyshape.symbolic.expr import symbols_of


def can_scan_rows(kernel: Kernel) -> bool:
    """Whether threads can share the scans of a kernel. They wait for each other in loops: all rows
    of a block are of one length."""
    inner = {axis.symbol for stage in kernel.stages for axis in stage.axes}
    axes = inner | {axis.symbol for axis in kernel.axes} | kernel.positions.keys()
    if any(symbols_of(axis.extent) & axes for stage in kernel.stages for axis in stage.axes):
        return False
    places = [scan.address for stage in kernel.stages for scan in stage.scans]
    return not any(symbols_of(place) & kernel.positions.keys() for place in places) and all(
        stage.axes for stage in kernel.stages if stage.scans
    )


class ScanStage(BlockStage):
    """A stage with scans, whose last axis the threads of a block share tile by tile."""

    team = GroupTeam()

    def __init__(self, e: Emitter, number: int) -> None:
        super().__init__(e, number)
        #: of what the scans of a thread have in each lane
        self._wide_types = [vector(type_, e.lanes) for type_ in self.carry_types]

    def write(self, is_last: bool) -> None:
        super().write(is_last)
        if self.foldings and not is_last:
            # Threads of one warp that fold do not wait for what others have stored.
            block_barrier(self.e)

    def _rows(self, axis: Axis, bounds: tuple[str, str], states: States) -> States:
        e, end = self.e, bounds[1]
        e.vector_axis = axis.symbol
        tile = e.let(f"mul i64 %ntid.64, {e.lanes}")
        mine = e.let(f"mul i64 %tid.64, {e.lanes}")
        # Those without a row are behind the end of every one.
        mine = e.let(f"select i1 %active, i64 {mine}, i64 {1 << 62}")
        begin, stop = e.when(
            HAS_PARTS, ["0", end], ["i64", "i64"], lambda: self._part_of_row(tile, end)
        )
        # What was told last may still be read.
        block_barrier(e)
        carries = e.when(
            HAS_PARTS,
            self._nothing(),
            self.carry_types,
            lambda: self._before(axis, (begin, stop, tile), mine),
        )

        def body(first: str, inside: States) -> States:
            return self._tile(axis, e.let(f"add i64 {first}, {mine}"), stop, inside)

        both = [*states, *carries, "0"]
        types = [*self.types, *self.carry_types, "i32"]
        some = e.let(f"icmp slt i64 {begin}, {stop}")
        both = e.when(some, both, types, lambda: e.loop((begin, stop, tile), both, types, body))
        e.vector_axis = None
        return both[: len(self.types)]

    def _nothing(self) -> States:
        return [scanning.start for scanning in self.scannings]

    # -- a tile --------------------------------------------------------------------------------

    def _tile(self, axis: Axis, at: str, end: str, inside: States) -> States:
        """`inside`: states of folds, carries, and which half of shared memory is in use: the other
        one may still be read."""
        e, count = self.e, len(self.types)
        states, carries, half = inside[:count], inside[count:-1], inside[-1]
        exists = e.let(f"icmp slt i64 {at}, {end}")
        nothing = [
            constant(neutral(each.scan.fold, each.dtype), each.dtype, e.lanes)
            for each in self.scannings
        ]
        made = e.when(
            exists,
            states + nothing,
            self.types + self._wide_types,
            lambda: self._own_vector(axis, at, states),
        )
        states, own = made[:count], made[count:]
        before, totals = self._across_threads(self._lasts(own), half)
        before = self._joined(carries, before)
        e.run_if(exists, lambda: self._put_results(axis, at, before, own))
        half = e.let(f"xor i32 {half}, 1")
        return [*states, *self._joined(carries, totals), half]

    def _own_vector(self, axis: Axis, at: str, states: States) -> States:
        """All that a round does, but for what waits for other threads."""
        self._open(axis, at)
        firsts = [text for folding in self.foldings for text in folding.first_start(self.lanes)]
        states = self._flush(states, self._fold_round(firsts))
        return states + self._act([])

    def _scan(self, carries: States, inputs: list[IrValue]) -> States:
        pairs = zip(self.scannings, inputs, strict=True)
        return [self._lanes(scanning, value) for scanning, value in pairs]

    def _lanes(self, scanning: Scanning, value: IrValue) -> str:
        """The running fold within the vector."""
        e = self.e
        text, element = scanning.given(e, value), scanning.type
        wide = vector(element, e.lanes)
        own = e.let(f"extractelement {wide} {text}, i64 0")
        for lane in range(1, e.lanes):
            one = e.let(f"extractelement {wide} {text}, i64 {lane}")
            own = self._operate(scanning, own, one)
            text = e.let(f"insertelement {wide} {text}, {element} {own}, i64 {lane}")
        return text

    def _put_results(self, axis: Axis, at: str, before: States, own: States) -> None:
        e = self.e
        self._open(axis, at)
        for scanning, first, text in zip(self.scannings, before, own, strict=True):
            scan = scanning.scan
            first = e.splat(scanning.type, first)
            text = operate(e, scan.fold, scanning.dtype, e.lanes, first, text)
            store(e, scan.buffer, scan.address, scanning.result(e, text), "set", None)

    # -- threads of a block --------------------------------------------------------------------

    def _across_threads(self, own: States, half: str) -> tuple[States, States]:
        """What the threads before this one have, and what all of them do."""
        e = self.e
        within = self._across_warp(own)
        # Of a row that has less than a warp, the last thread is not the warp's.
        width = e.let("call i32 @llvm.umin.i32(i32 %ntid, i32 32)")
        number = e.let(f"add i32 {e.let('mul i32 %tid.y, %ntid')}, %tid")
        lane = e.let(f"and i32 {number}, 31")
        last = e.let(f"or i32 {lane}, {e.let(f'sub i32 {width}, 1')}")
        totals = self._from("idx", last, within)
        shifted = self._from("up", "1", within)
        before = self._chosen("%first.lane", self._nothing(), shifted)

        def across_warps() -> States:
            offset = e.let(f"mul i32 {half}, {WARPS * len(own)}")
            place = e.let(f"add i32 %warp, {offset}")
            is_last = e.let("icmp eq i32 %lane, 31")
            e.run_if(is_last, lambda: self.team.put(e, self.carry_types, within, place))
            block_barrier(e)
            there = e.let(f"add i32 {e.let('add i32 %first.warp, %lane')}, {offset}")
            start = self._nothing()
            warps = e.when(
                "%is.warp",
                start,
                self.carry_types,
                lambda: self.team.get(e, self.carry_types, there),
            )
            warps = self._across_warp(warps)
            every = self._from("idx", "31", warps)
            own_warp = e.let("sub i32 %warp, %first.warp")
            earlier = self._from("idx", e.let(f"sub i32 {own_warp}, 1"), warps)
            is_first = e.let(f"icmp eq i32 {own_warp}, 0")
            earlier = self._chosen(is_first, start, earlier)
            return self._joined(earlier, before) + every

        found = e.when("%has.warps", before + totals, self.carry_types * 2, across_warps)
        return found[: len(own)], found[len(own) :]

    def _across_warp(self, own: States) -> States:
        """With what the threads before it in the warp have, as far as they are of this row."""
        for distance in (1, 2, 4, 8, 16):
            others = self._from("up", str(distance), own)
            has_other = self.e.let(f"icmp uge i32 %lane, {distance}")
            own = self._chosen(has_other, self._joined(others, own), own)
        return own

    def _from(self, kind: str, by: str, states: States) -> States:
        """What another thread of the warp has."""
        pairs = zip(self.carry_types, states, strict=True)
        return [shuffled(self.e, type_, text, kind, by) for type_, text in pairs]

    # -- blocks of a group ---------------------------------------------------------------------

    def _part_of_row(self, tile: str, end: str) -> States:
        """Where this block begins and ends: at whole tiles."""
        e = self.e
        more = e.let(f"add i64 {end}, {e.let(f'sub i64 {tile}, 1')}")
        tiles = e.let(f"udiv i64 {more}, {tile}")
        above = e.let(f"add i64 {tiles}, {e.let('sub i64 %parts.64, 1')}")
        each = e.let(f"mul i64 {e.let(f'udiv i64 {above}, %parts.64')}, {tile}")
        begin = e.let(f"mul i64 {each}, %part.64")
        stop = e.let(f"add i64 {begin}, {each}")
        return [begin, e.let(f"call i64 @llvm.smin.i64(i64 {stop}, i64 {end})")]

    def _before(self, axis: Axis, bounds: tuple[str, str, str], mine: str) -> States:
        """What the parts before that of this block come to."""
        e, (begin, stop, tile) = self.e, bounds
        first = e.let(f"add i64 {begin}, {mine}")
        start = self._nothing()

        def body(at: str, inside: States) -> States:
            self._open(axis, at)
            inputs = [e.value(scan.value) for scan in self.stage.scans]
            return self._joined(inside, self._lasts(self._scan([], inputs)))

        some = e.let(f"icmp slt i64 {first}, {stop}")
        own = e.when(
            some,
            start,
            self.carry_types,
            lambda: e.loop((first, stop, tile), start, self.carry_types, body),
        )
        _, totals = self._across_threads(own, "0")
        read = exchange(e, self.carry_types, totals, e.let("icmp eq i32 %tid, 0"))
        lane = e.let("zext i32 %lane to i64")

        def other(part: str, inside: States) -> States:
            return self._joined(inside, read(part))

        some = e.let(f"icmp slt i64 {lane}, %part.64")
        found = e.when(
            some,
            start,
            self.carry_types,
            lambda: e.loop((lane, "%part.64", "32"), start, self.carry_types, other),
        )
        for distance in (16, 8, 4, 2, 1):
            found = self._joined(found, self._from("bfly", str(distance), found))
        return found

    # -- states --------------------------------------------------------------------------------

    def _lasts(self, vectors: States) -> States:
        """Of the last lane."""
        return [
            self.e.let(f"extractelement {type_} {text}, i64 {self.e.lanes - 1}")
            for type_, text in zip(self._wide_types, vectors, strict=True)
        ]

    def _joined(self, before: States, after: States) -> States:
        triples = zip(self.scannings, before, after, strict=True)
        return [self._operate(scanning, a, b) for scanning, a, b in triples]

    def _operate(self, scanning: Scanning, a: str, b: str) -> str:
        return operate(self.e, scanning.scan.fold, scanning.dtype, 0, a, b)

    def _chosen(self, condition: str, yes: States, no: States) -> States:
        return [
            self.e.let(f"select i1 {condition}, {type_} {a}, {type_} {b}")
            for type_, a, b in zip(self.carry_types, yes, no, strict=True)
        ]
