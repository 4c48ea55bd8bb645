"""Which tiles of keys the queries of a block see.

What is known of a mask in a tile is found as on the processor (`llvm/mask_bounds.py`); what depends
on queries alone, or on keys alone, is looked at by the lanes of a warp side by side. All warps of a
block do so, and come to the same result.
"""

from __future__ import annotations

from typing import Final

from anyshape.codegen.ir_builder import REGISTER
from anyshape.codegen.llvm.emitter import Loop, States
from anyshape.codegen.llvm.mask_bounds import Bounds, MaskBounds, extremes
from anyshape.codegen.nvptx.attention_block import AttentionBlock
from anyshape.codegen.nvptx.attention_plan import WARP
from anyshape.codegen.nvptx.block_group import block_barrier
from anyshape.codegen.nvptx.block_reduce import SHARED, shuffled
from anyshape.loops.expr import Scalar, reached

_LANES: Final = (16, 8, 4, 2, 1)
#: Tiles that a warp looks at together: what they need is on its way at the same time.
_EACH: Final = 8


class MaskTiles:
    def __init__(self, block: AttentionBlock) -> None:
        self.block = block

    def next_tile(self, start: str) -> tuple[str, str]:
        """The first tile from here on that some query of the block sees, and whether all of them
        see all of it; if there is none, a number that is not below that of tiles."""
        block, parts = self.block, self.block.parts
        e = block.e
        if parts.seen is None or parts.finite is None:
            return start, self._is_whole(start)
        symbol = block.keys.symbol
        reads = any(each.op == "load" and symbol in each.free for each in reached([parts.seen]))

        def look(states: States) -> tuple[States, str]:
            may, must = self._known(states[0])
            hidden = e.let(f"xor i1 {may}, true")
            found = block.plus(states[0], e.let(f"zext i1 {hidden} to {block.int}"))
            again = e.let(f"and i1 {hidden}, {block.below(found, block.tiles)}")
            full = e.let(f"and i1 {must}, {self._is_whole(states[0])}")
            return [found, full], again

        def one_by_one() -> States:
            return e.repeat(states, types, look)

        def at_once() -> States:
            found, again = look(states)
            return e.when(again, found, types, lambda: e.repeat(found, types, self._look_far))

        states, types = [start, "false"], [block.int, "i1"]
        some = block.below(start, block.tiles)
        found, full = e.when(some, states, types, at_once if reads else one_by_one)
        return found, full

    def _known(self, tile: str) -> tuple[str, str]:
        """Whether some query may see a key of a tile, and whether all surely see all of it."""
        block, parts = self.block, self.block.parts
        e, keys = block.e, block.shape.keys
        assert parts.seen is not None, "there is a mask"
        assert parts.finite is not None, "there is a mask"
        first = e.let(f"mul nuw nsw {block.int} {tile}, {keys}")
        last = e.let(f"sub {block.int} {block.length}, 1")
        lane = block.lane_number(e.let(f"and i32 %lane, {min(keys, WARP) - 1}"))
        begin = block.plus(first, lane)
        places = [
            block.coordinate(block.smaller(block.plus(begin, WARP * n), last))
            for n in range(-(-keys // WARP))
        ]
        end = block.coordinate(block.smaller(block.plus(first, keys - 1), last))
        start = block.coordinate(first)
        symbol = block.keys.symbol
        e.loops[symbol] = Loop(e.enter(), places[0], block.keys.extent, tuple(places))
        block.scope()
        bounds = _TileBounds(block, start, end)
        may, must = bounds.may_hold(parts.seen), bounds.must_hold(parts.seen)
        is_finite = e.value(parts.finite).text
        may = e.let(f"or i1 {may}, {e.let(f'xor i1 {is_finite}, true')}")
        e.leave()
        del e.loops[symbol]
        block.scope()
        return may, must

    def _look_far(self, states: States) -> tuple[States, str]:
        """At several tiles by each warp, since what is read of keys takes long to come. Warps tell
        each other what they have found: bits of a word each, first those of tiles that may be
        seen."""
        block = self.block
        e, warps = block.e, block.shape.warps
        begin = states[0]
        own = block.lane_number(e.let(f"mul nuw nsw i32 %warp, {_EACH}"))
        first = block.plus(begin, own)
        word = "0"
        for number in range(_EACH):
            tile = block.plus(first, number)
            may, must = self._known(tile)
            exists = block.below(tile, block.tiles)
            for bit, known in ((number, may), (number + 16, must)):
                shown = e.let(f"zext i1 {e.let(f'and i1 {exists}, {known}')} to i32")
                word = e.let(f"or i32 {word}, {e.let(f'shl i32 {shown}, {bit}')}")
        places = [self._place(str(n)) for n in range(warps)]
        leads = e.let("icmp eq i32 %lane, 0")
        mine = self._place("%warp")
        e.run_if(leads, lambda: e.do(f"store i32 {word}, ptr addrspace(3) {mine}, align 4"))
        block_barrier(e)
        may, must = "0", "0"
        for number, place in enumerate(places):
            told = e.let(f"load i32, ptr addrspace(3) {place}, align 4")
            seen = e.let(f"shl i32 {e.let(f'and i32 {told}, 65535')}, {_EACH * number}")
            shown = e.let(f"shl i32 {e.let(f'lshr i32 {told}, 16')}, {_EACH * number}")
            may, must = e.let(f"or i32 {may}, {seen}"), e.let(f"or i32 {must}, {shown}")
        block_barrier(e)
        none = e.let(f"icmp eq i32 {may}, 0")
        bit = e.let(f"call i32 @llvm.cttz.i32(i32 {may}, i1 false)")
        bit = e.let(f"select i1 {none}, i32 {_EACH * warps}, i32 {bit}")
        found = block.plus(begin, block.lane_number(bit))
        again = e.let(f"and i1 {none}, {block.below(found, block.tiles)}")
        wide = e.let(
            f"lshr i64 {e.let(f'zext i32 {must} to i64')}, {e.let(f'zext i32 {bit} to i64')}"
        )
        full = e.let(f"and i1 {e.let(f'trunc i64 {wide} to i1')}, {self._is_whole(found)}")
        return [found, full], again

    def _place(self, number: str) -> str:
        """Where in shared memory a warp leaves what it has found."""
        e, shape = self.block.e, self.block.shape
        base = f"getelementptr i8, ptr addrspace(3) {SHARED}, i32 {shape.shared - shape.told_bytes}"
        return e.let(f"getelementptr i32, ptr addrspace(3) {e.let(base)}, i32 {number}")

    def _is_whole(self, tile: str) -> str:
        """Whether all keys of a tile exist."""
        block = self.block
        e, keys = block.e, block.shape.keys
        end = e.let(f"mul nuw nsw {block.int} {block.plus(tile, 1)}, {keys}")
        return e.let(f"icmp sle {block.int} {end}, {block.length}")


class _TileBounds(MaskBounds):
    """Of the queries of a block, and the keys of a tile from `first` to `last`."""

    def __init__(self, block: AttentionBlock, first: str, last: str) -> None:
        super().__init__(
            block.e, block.queries, block.keys, first, last, block.level, lambda axis, text: None
        )
        self.block = block

    def ends(self) -> tuple[Bounds, Bounds]:
        block = self.block
        queries = block.coordinate(block.first), block.coordinate(block.last)
        return queries, (self.first, self.end)

    def over_lanes(self, scalar: Scalar) -> Bounds:
        own = len(self.block.rows)
        return self._over(scalar, range(own, own + -(-self.block.shape.rows // WARP)))

    def over_keys(self, scalar: Scalar) -> Bounds:
        return self._over(scalar, range(-(-self.block.shape.keys // WARP)))

    def _over(self, scalar: Scalar, copies: range) -> Bounds:
        """Of what the lanes look at, each at these places."""
        e, one = self.e, REGISTER[scalar.dtype]
        found: list[str] = []
        for copy in copies:
            e.copy = copy
            found.append(e.value(scalar).text)
        e.copy = 0
        low, high = (self._combined(name, one, found) for name in extremes(scalar))
        return low, high

    def _combined(self, name: str, one: str, values: list[str]) -> str:
        e = self.e

        def both(a: str, b: str) -> str:
            if one == "i1":
                return e.let(f"{name} i1 {a}, {b}")
            return e.let(f"call {one} @llvm.{name}.{one}({one} {a}, {one} {b})")

        text = values[0]
        for other in values[1:]:
            text = both(text, other)
        for distance in _LANES:
            text = both(text, shuffled(e, one, text, "bfly", str(distance)))
        return text
