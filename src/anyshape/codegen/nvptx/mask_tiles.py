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
from anyshape.codegen.nvptx.block_reduce import shuffled
from anyshape.loops.expr import Scalar

_LANES: Final = (16, 8, 4, 2, 1)


class MaskTiles:
    def __init__(self, block: AttentionBlock) -> None:
        self.block = block

    def next_tile(self, start: str) -> tuple[str, str]:
        """The first tile from here on that some query of the block sees, and whether all of them
        see all of it; if there is none, a number that is not below that of tiles."""
        block, parts = self.block, self.block.parts
        e, keys = block.e, block.shape.keys
        if parts.seen is None or parts.finite is None:
            return start, self._is_whole(start)
        seen, finite = parts.seen, parts.finite

        def look(states: States) -> tuple[States, str]:
            (tile,) = states[:1]
            level = len(e.levels) - 1
            first = e.let(f"mul nuw nsw {block.int} {tile}, {keys}")
            last = e.let(f"sub {block.int} {block.length}, 1")
            lane = block.lane_number(e.let(f"and i32 %lane, {min(keys, WARP) - 1}"))
            begin = block.plus(first, lane)
            places = [
                block.coordinate(block.smaller(block.plus(begin, WARP * n), last))
                for n in range(-(-keys // WARP))
            ]
            end = block.smaller(block.plus(first, keys - 1), last)
            symbol = block.keys.symbol
            e.loops[symbol] = Loop(level, places[0], block.keys.extent, tuple(places))
            block.scope()
            bounds = _TileBounds(block, block.coordinate(first), block.coordinate(end))
            may, must = bounds.may_hold(seen), bounds.must_hold(seen)
            del e.loops[symbol]
            block.scope()
            may = e.let(f"or i1 {may}, {e.let(f'xor i1 {e.value(finite).text}, true')}")
            hidden = e.let(f"xor i1 {may}, true")
            found = block.plus(tile, e.let(f"zext i1 {hidden} to {block.int}"))
            again = e.let(f"and i1 {hidden}, {block.below(found, block.tiles)}")
            full = e.let(f"and i1 {must}, {self._is_whole(tile)}")
            return [found, full], again

        some = block.below(start, block.tiles)
        states, types = [start, "false"], [block.int, "i1"]
        found, full = e.when(some, states, types, lambda: e.repeat(states, types, look))
        return found, full

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
