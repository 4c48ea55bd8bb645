"""Vectors along two axes at once: which points of the two their lanes are at.

Lane by lane, the point is quotient and rest of the axis that stands for both. Processors divide no
vectors of integers, so both are carried along: a step of the loop adds as much to all lanes.
"""

from __future__ import annotations

from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.parameters import PARAMETERS
from anyshape.codegen.llvm.sizes import divide_naturals, lane_numbers, narrow_size
from anyshape.codegen.llvm.writer import States
from anyshape.loops.flattened import SHORT, Flattened
from anyshape.symbolic import Size


class Points:
    """Of the lanes of a loop that begins somewhere."""

    def __init__(self, e: Emitter, flat: Flattened) -> None:
        self.e, self.flat = e, flat
        self.type = f"<{e.lanes} x i64>"
        self.width = e.splat("i64", narrow_size(e, flat.width))
        width = narrow_size(e, flat.width)
        self.above = e.splat("i64", e.define(f"udiv i64 {e.lanes}, {width}"))
        self.beside = e.splat("i64", e.define(f"urem i64 {e.lanes}, {width}"))

    def start(self, begin: str) -> States:
        e = self.e
        places = e.define(f"add {self.type} {e.splat('i64', begin)}, {lane_numbers(e.lanes)}")
        above = divide_naturals(e, "div", places, self.flat.width)
        return [above, divide_naturals(e, "mod", places, self.flat.width)]

    def show(self, states: States, copies: int) -> States:
        """Let all vectors of a round know their points; those of the next round."""
        e = self.e
        for copy in range(copies):
            e.lane_atoms[self.flat.quotient.index, copy] = states[0]
            e.lane_atoms[self.flat.rest.index, copy] = states[1]
            states = self._further(*states)
        return states

    def _further(self, above: str, beside: str) -> States:
        """One vector further."""
        e = self.e
        beside = e.define(f"add {self.type} {beside}, {self.beside}")
        over = e.define(f"icmp uge {self.type} {beside}, {self.width}")
        less = e.define(f"sub {self.type} {beside}, {self.width}")
        beside = e.define(
            f"select <{e.lanes} x i1> {over}, {self.type} {less}, {self.type} {beside}"
        )
        above = e.define(f"add {self.type} {above}, {self.above}")
        more = e.define(f"sext <{e.lanes} x i1> {over} to {self.type}")
        return [e.define(f"sub {self.type} {above}, {more}"), beside]


def choice(e: Emitter, extent: Size, name: str, linkage: str) -> str:
    """The part's function that calls the one for a short axis of vectors, or the usual one."""
    e.enter()
    short = e.define(f"icmp slt i64 {narrow_size(e, extent)}, {SHORT}")
    part = e.define(f"select i1 {short}, ptr @{name}.short.part, ptr @{name}.long.part")
    result = e.define(f"call i32 {part}({PARAMETERS})")
    e.do(f"ret i32 {result}")
    head = f"define {linkage} i32 @{name}.part({PARAMETERS}) nounwind {{"
    return "\n".join([head, "entry:", e.text(), "}"])
