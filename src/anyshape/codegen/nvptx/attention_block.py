"""A block of threads that has a tile of queries of attention: its coordinates.

Of 16 queries and 8 keys a thread has two neighbouring keys of the queries `lane / 4` and 8 further,
as products of tensor cores leave them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anyshape.codegen.llvm.emitter import Emitter, IrValue, Loop, StageScope
from anyshape.codegen.llvm.memory import store
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.codegen.nvptx.attention_plan import COLUMNS, FRAGMENT, WARP, AttentionShape
from anyshape.loops.attention import AttentionParts, parts_of
from anyshape.loops.expr import Axis
from anyshape.symbolic import Size

#: Of a fragment: [fragment of queries][eight keys][query 0, 0, 8, 8 and key 0, 1, 0, 1]
Fragments = list[list[list[str]]]

#: Rows that a thread has of a fragment.
OWN_ROWS: Final = 2


class AttentionBlock:
    """What all code for one tile of queries knows. It is run by all threads of the block."""

    def __init__(self, e: Emitter, shape: AttentionShape) -> None:
        self.e, self.shape = e, shape
        self.queries = e.kernel.axes[-1]
        (self.stage,) = e.kernel.stages
        self.keys, self.depth, self.width = self.stage.axes
        self.parts: AttentionParts = parts_of(e.kernel)
        self.level = len(e.levels) - 1
        self.written = frozenset(part.buffer for part in self.stage.stores)
        #: as the host says whether sizes are small
        self.int = f"i{e.index_bits}"
        self.has_share = shape.halves != "f16"
        #: eight of them
        self.columns = shape.padded_width // COLUMNS

    # -- numbers -------------------------------------------------------------------------------

    def cut(self, text: str) -> str:
        """A size, as coordinates are."""
        if self.int == "i64" or text.isdigit():
            return text
        return self.e.let(f"trunc i64 {text} to {self.int}")

    def coordinate(self, text: str) -> str:
        """As the rest of the code has them."""
        return text if self.int == "i64" else self.e.let(f"zext nneg {self.int} {text} to i64")

    def lane_number(self, text: str) -> str:
        """A number of 32 bits, as coordinates are."""
        return text if self.int == "i32" else self.e.let(f"zext nneg i32 {text} to i64")

    def plus(self, a: str, b: str | int) -> str:
        return a if b == 0 else self.e.let(f"add nuw nsw {self.int} {a}, {b}")

    def smaller(self, a: str, b: str) -> str:
        return self.e.let(f"call {self.int} @llvm.smin.{self.int}({self.int} {a}, {self.int} {b})")

    def below(self, a: str, b: str) -> str:
        return self.e.let(f"icmp slt {self.int} {a}, {b}")

    def scope(self) -> None:
        """Loads stand where the tile of queries is known to exist."""
        self.e.stage = StageScope(self.level, self.level, self.written)

    def set_places(self, tile: str) -> None:
        """Which queries this thread has: those of its fragments, and then those that it looks at
        for the whole block. Of those that do not exist, the last one."""
        e, shape = self.e, self.shape
        e.do("%lane = and i32 %tid, 31")
        e.do("%warp = lshr i32 %tid, 5")
        self.lane, self.warp = "%lane", "%warp"
        self.quad = e.let("and i32 %lane, 3")
        length = self.cut(narrow_size(e, self.queries.extent))
        self.first = e.let(f"mul nuw nsw {self.int} {self.cut(tile)}, {shape.rows}")
        last = e.let(f"sub {self.int} {length}, 1")
        self.last = self.smaller(self.plus(self.first, shape.rows - 1), last)
        of_warp = e.let(f"mul nuw nsw i32 %warp, {FRAGMENT * shape.fragments}")
        own = self.lane_number(e.let(f"add nuw nsw i32 {of_warp}, {e.let('lshr i32 %lane, 2')}"))
        near = self.plus(self.first, own)
        self.query_count = length
        self.rows = [
            self.plus(near, FRAGMENT * fragment + 8 * row)
            for fragment in range(shape.fragments)
            for row in range(OWN_ROWS)
        ]
        begin = self.plus(self.first, self.lane_number("%lane"))
        looked_at = [self.plus(begin, WARP * n) for n in range(-(-shape.rows // WARP))]
        places = [self.coordinate(self.smaller(row, last)) for row in (*self.rows, *looked_at)]
        e.loops[self.queries.symbol] = Loop(
            self.level, places[0], self.queries.extent, tuple(places)
        )

    def multiply_add(self, a: str, b: str, c: str) -> str:
        return self.e.let(f"call float @llvm.fma.f32(float {a}, float {b}, float {c})")

    def set_keys(self) -> None:
        """How many keys and tiles of them there are."""
        self.length = self.cut(narrow_size(self.e, self.keys.extent))
        more = self.plus(self.length, self.shape.keys - 1)
        self.tiles = self.e.let(f"udiv {self.int} {more}, {self.shape.keys}")

    # -- memory --------------------------------------------------------------------------------

    def put(self, buffer: str, address: Size, value: IrValue) -> None:
        store(self.e, buffer, address, value, "set", None)

    def at(self, axes: list[tuple[Axis, str]], body: Callable[[], None]) -> None:
        """Code of a level of its own where axes have these variables."""
        e = self.e
        kept = {axis.symbol: e.loops.get(axis.symbol) for axis, _ in axes}
        level = e.enter()
        for axis, text in axes:
            e.loops[axis.symbol] = Loop(level, text, axis.extent)
        self.scope()
        body()
        e.leave()
        for symbol, loop in kept.items():
            if loop is None:
                del e.loops[symbol]
            else:
                e.loops[symbol] = loop
        self.scope()
