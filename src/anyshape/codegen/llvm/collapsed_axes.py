"""Vectors along two axes at once: which points of the two their lanes are at.

Lane by lane, the point is quotient and rest of the axis that stands for both. Processors divide no
vectors of integers, so both are carried along: a step of the loop adds as much to all lanes.

What depends on the rest alone (the mean of a channel) repeats itself after few lanes. It is kept
twice over in a table of two vectors; a vector of it is read from where its first lane stands.
"""

from __future__ import annotations

from anyshape.codegen.ir_builder import REGISTER
from anyshape.codegen.llvm.emitter import PARAMETERS, Emitter, IrValue, Loop, StageScope, States
from anyshape.codegen.llvm.sizes import divide_naturals, lane_numbers, narrow_size
from anyshape.loops.collapsed_axes import SHORT, Flattened, depends_on_points, repeating
from anyshape.loops.expr import Scalar
from anyshape.symbolic import Size


class Points:
    """Of the lanes of a loop that begins somewhere."""

    def __init__(self, e: Emitter, flat: Flattened) -> None:
        self.e, self.flat = e, flat
        self.type = f"<{e.lanes} x i64>"
        width = narrow_size(e, flat.width)
        # There is a first round: the width is not 0.
        above = e.once(0, "above", lambda: e.let(f"udiv i64 {e.lanes}, {width}"))
        beside = e.once(0, "beside", lambda: e.let(f"urem i64 {e.lanes}, {width}"))
        self.step, self.width = beside, width
        self.wide_width = e.splat("i64", width)
        self.above, self.beside = e.splat("i64", above), e.splat("i64", beside)
        (stage,) = e.kernel.stages
        self.periodic = repeating(stage, flat, e.plan.written) if e.lanes >= SHORT else []
        #: whether anything else needs to know where each lane is
        self.by_lane = depends_on_points(stage, flat, self.periodic)
        self.tables = [_Table(e, scalar) for scalar in self.periodic]
        self._fill()

    @property
    def types(self) -> list[str]:
        return [self.type] * (2 * self.by_lane) + ["i64"] * bool(self.tables)

    def start(self, begin: str) -> States:
        e = self.e
        phase = [e.let(f"urem i64 {begin}, {self.width}")] if self.tables else []
        if not self.by_lane:
            return phase
        places = e.let(f"add {self.type} {e.splat('i64', begin)}, {lane_numbers(e.lanes)}")
        return [*self._points(places), *phase]

    def _points(self, places: str) -> States:
        above = divide_naturals(self.e, "div", places, self.flat.width)
        return [above, divide_naturals(self.e, "mod", places, self.flat.width)]

    def show(self, states: States, copies: int) -> States:
        """Let all vectors of a round know their points; those of the next round."""
        e = self.e
        lanes, phase = (states[:2], states[2:]) if self.by_lane else ([], states)
        for copy in range(copies):
            if lanes:
                lanes = self._shown(lanes, copy)
            if phase:
                for table in self.tables:
                    e.at_hand[table.scalar, copy] = table.read(phase[0])
                phase = [self._further_phase(phase[0])]
        return [*lanes, *phase]

    def _shown(self, lanes: States, copy: int) -> States:
        self.e.lane_atoms[self.flat.quotient.index, copy] = lanes[0]
        self.e.lane_atoms[self.flat.rest.index, copy] = lanes[1]
        return self._further(*lanes)

    def _further_phase(self, phase: str) -> str:
        e = self.e
        more = e.let(f"add nuw nsw i64 {phase}, {self.step}")
        over = e.let(f"icmp uge i64 {more}, {self.width}")
        less = e.let(f"sub i64 {more}, {self.width}")
        return e.let(f"select i1 {over}, i64 {less}, i64 {more}")

    def _further(self, above: str, beside: str) -> States:
        """One vector further."""
        e = self.e
        beside = e.let(f"add {self.type} {beside}, {self.beside}")
        over = e.let(f"icmp uge {self.type} {beside}, {self.wide_width}")
        less = e.let(f"sub {self.type} {beside}, {self.wide_width}")
        beside = e.let(f"select <{e.lanes} x i1> {over}, {self.type} {less}, {self.type} {beside}")
        above = e.let(f"add {self.type} {above}, {self.above}")
        more = e.let(f"sext <{e.lanes} x i1> {over} to {self.type}")
        return [e.let(f"sub {self.type} {above}, {more}"), beside]

    # -- tables --------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Where the first vectors of a row would find their values is where all do. What is the
        same for all rows is filled in once."""
        e = self.e
        if not self.tables:
            return
        if any(loop in table.scalar.free for table in self.tables for loop in e.loops):
            self._fill_now()
            return
        filled = e.slot("i8")
        e.at_start(f"store i8 0, ptr {filled}, align 1")
        before = e.let(f"load i8, ptr {filled}, align 1")
        none = e.let(f"icmp eq i8 {before}, 0")

        def body() -> None:
            self._fill_now()
            e.do(f"store i8 1, ptr {filled}, align 1")

        e.run_if(none, body)

    def _fill_now(self) -> None:
        e = self.e
        axis = self.flat.axis
        level = len(e.levels) - 1
        kept, e.stage = e.stage, StageScope(level, level, e.plan.written)
        e.loops[axis.symbol] = Loop(level, "0", axis.extent)
        lanes = self._points(lane_numbers(e.lanes))
        for e.copy in range(2):
            lanes = self._shown(lanes, e.copy)
            for table in self.tables:
                table.write(e.copy)
        e.copy, e.stage = 0, kept
        e.lane_atoms.clear()
        del e.loops[axis.symbol]


class _Table:
    """What a scalar is in the lanes of the first two vectors of a row: as it repeats itself after
    `width` lanes, what it is in any vector begins at one of the first elements."""

    def __init__(self, e: Emitter, scalar: Scalar) -> None:
        self.e, self.scalar = e, scalar
        self.type = e.type_of(scalar.dtype, True)
        self.place = e.slot(self.type, 2)

    def write(self, number: int) -> None:
        e = self.e
        place = e.let(f"getelementptr {self.type}, ptr {self.place}, i64 {number}")
        text = e.widen(e.value(self.scalar))
        e.do(f"store {self.type} {text}, ptr {place}, align 1")

    def read(self, phase: str) -> IrValue:
        e, dtype = self.e, self.scalar.dtype
        place = e.let(f"getelementptr {REGISTER[dtype]}, ptr {self.place}, i64 {phase}")
        return IrValue(e.let(f"load {self.type}, ptr {place}, align 1"), dtype, True)


def choice(e: Emitter, extent: Size, name: str, linkage: str) -> str:
    """The part's function that calls the one for a short axis of vectors, or the usual one."""
    e.enter()
    short = e.let(f"icmp slt i64 {narrow_size(e, extent)}, {SHORT}")
    part = e.let(f"select i1 {short}, ptr @{name}.short.part, ptr @{name}.long.part")
    result = e.let(f"call i32 {part}({PARAMETERS})")
    e.do(f"ret i32 {result}")
    return e.part(name, linkage)
