"""Products of attention by multiplications of float32, from shared memory.

There are the queries of the block, a tile of keys and one of values, all in float32, and the
weights of each warp. A thread has the same elements of products as tensor cores would leave to it,
and takes four of what is multiplied at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyshape.codegen.ir_builder import float_literal
from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.emitter import IrValue, States
from anyshape.codegen.nvptx.attention_block import AttentionBlock, Fragments
from anyshape.codegen.nvptx.attention_plan import COLUMNS, FRAGMENT
from anyshape.codegen.nvptx.block_group import block_barrier
from anyshape.codegen.nvptx.block_reduce import SHARED
from anyshape.loops.attention import MEAN
from anyshape.loops.expr import Axis, Scalar

_NEAR: Final = "ptr addrspace(3)"
_ZERO: Final = float_literal(0.0)
#: Elements that are read at a time.
_STEP: Final = 4


class PlainProducts:
    def __init__(self, block: AttentionBlock) -> None:
        self.block, self.e, self.shape = block, block.e, block.shape
        shape = self.shape
        self._keys_at = shape.rows * shape.key_bytes
        self._values_at = self._keys_at + shape.keys * shape.key_bytes
        self._weights_at = self._keys_at + shape.stage_bytes
        e = self.e
        of_warp = e.let(f"mul nuw nsw i32 %warp, {FRAGMENT * shape.fragments}")
        self._row = e.let(f"add nuw nsw i32 {of_warp}, {e.let('lshr i32 %lane, 2')}")
        self._column = e.let(f"shl nuw nsw i32 {block.quad}, 1")

    # -- copies --------------------------------------------------------------------------------

    def begin(self, some: str, tile: str) -> None:
        block = self.block
        rows = block.queries, block.first, self.shape.rows, block.query_count
        self._copy(block.parts.query, rows, block.depth, 0, self.shape.key_bytes)

    def ready(self, tile: str, following: str, more: str, place: str) -> None:
        block, e, shape = self.block, self.e, self.shape
        block_barrier(e)
        first = e.let(f"mul nuw nsw {block.int} {tile}, {shape.keys}")
        rows = block.keys, first, shape.keys, block.length
        parts = block.parts
        self._copy(parts.key, rows, block.depth, self._keys_at, shape.key_bytes)
        self._copy(parts.value, rows, block.width, self._values_at, shape.value_bytes)
        block_barrier(e)

    def _copy(
        self, scalar: Scalar, rows: tuple[Axis, str, int, str], column: Axis, begin: int, step: int
    ) -> None:
        """Rows from one on, as many as exist, to shared memory; zeros for others, and where rows
        are filled up."""
        block, e = self.block, self.e
        axis, first, count, length = rows
        width = column.extent
        assert isinstance(width, int), "columns are known"
        across = self.shape.padded_depth if column is block.depth else self.shape.padded_width
        last = e.let(f"sub {block.int} {length}, 1")

        def one(unit: str, _: States) -> States:
            number = e.let(f"udiv i64 {unit}, {across}")
            at = e.let(f"urem i64 {unit}, {across}")
            own = number if block.int == "i64" else e.let(f"trunc i64 {number} to i32")
            row = block.plus(first, own)
            inside = e.let(f"icmp slt i64 {at}, {width}")
            exists = e.let(f"and i1 {block.below(row, length)}, {inside}")
            there = block.coordinate(block.smaller(row, last))
            within = e.let(f"call i64 @llvm.smin.i64(i64 {at}, i64 {width - 1})")
            found: list[str] = []

            def read() -> None:
                value = e.value(scalar)
                found.append(cast(e, value.text, value.dtype, "f32", False))

            block.at([(axis, there), (column, within)], read)
            text = e.let(f"select i1 {exists}, float {found[0]}, float {_ZERO}")
            place = e.let(f"mul nuw nsw i64 {number}, {step}")
            place = e.let(f"add nuw nsw i64 {place}, {e.let(f'shl nuw nsw i64 {at}, 2')}")
            place = e.let(f"getelementptr i8, {_NEAR} {SHARED}, i64 {place}")
            place = e.let(f"getelementptr i8, {_NEAR} {place}, i64 {begin}")
            e.do(f"store float {text}, {_NEAR} {place}, align 4")
            return []

        total = str(count * across)
        some = e.let(f"icmp slt i64 %tid.64, {total}")
        threads = str(self.shape.threads)
        e.run_if(some, lambda: e.loop(("%tid.64", total, threads), [], [], one))

    # -- products ------------------------------------------------------------------------------

    def _place(self, row: str, step: int, offset: int) -> str:
        e = self.e
        at = e.let(f"mul nuw nsw i32 {row}, {step}")
        place = e.let(f"getelementptr i8, {_NEAR} {SHARED}, i32 {at}")
        return e.let(f"getelementptr i8, {_NEAR} {place}, i32 {offset}")

    def _read(self, place: str, offset: str, more: int, lanes: int) -> list[str]:
        """Neighbours. `offset`: in elements."""
        e = self.e
        at = e.let(f"getelementptr float, {_NEAR} {place}, i64 {offset}")
        at = e.let(f"getelementptr i8, {_NEAR} {at}, i32 {more}")
        type_ = f"<{lanes} x float>"
        wide = e.let(f"load {type_}, {_NEAR} {at}, align {4 * lanes}")
        return [e.let(f"extractelement {type_} {wide}, i64 {n}") for n in range(lanes)]

    def scores(self, place: str) -> Fragments:
        e, block, shape = self.e, self.block, self.shape
        columns = shape.keys // COLUMNS
        rows = [self._place(self._row, shape.key_bytes, 8 * n * shape.key_bytes) for n in range(2)]
        keys = self._place(self._column, shape.key_bytes, self._keys_at)

        def step(at: str, sums: States) -> States:
            left = [self._read(each, at, 0, _STEP) for each in rows]
            made = list(sums)
            for number in range(columns):
                for side in range(2):
                    more = (COLUMNS * number + side) * shape.key_bytes
                    right = self._read(keys, at, more, _STEP)
                    for row in range(2):
                        n = 4 * number + 2 * row + side
                        for a, b in zip(left[row], right, strict=True):
                            made[n] = block.multiply_add(a, b, made[n])
            return made

        count = 4 * columns
        states, types = [_ZERO] * count, ["float"] * count
        found = e.loop(("0", str(shape.padded_depth), str(_STEP)), states, types, step)
        return [[found[n : n + 4] for n in range(0, count, 4)]]

    def weigh(self, weights: Fragments, sums: Fragments, place: str) -> Fragments:
        """Weights go through shared memory: each thread of a row needs all of them."""
        e, block, shape = self.e, self.block, self.shape
        columns = shape.padded_width // COLUMNS
        step_bytes = shape.weight_bytes
        near = [
            self._place(self._row, step_bytes, self._weights_at + 8 * n * step_bytes)
            for n in range(2)
        ]
        own = e.let(f"zext nneg i32 {self._column} to i64")
        for number, part in enumerate(weights[0]):
            for row in range(2):
                at = e.let(f"getelementptr float, {_NEAR} {near[row]}, i64 {own}")
                for side in range(2):
                    more = 4 * (COLUMNS * number + side)
                    to = e.let(f"getelementptr i8, {_NEAR} {at}, i32 {more}")
                    e.do(f"store float {part[2 * row + side]}, {_NEAR} {to}, align 4")
        # The rows of a warp are its own; but all have to come here before any goes on.
        block_barrier(e)
        first = e.let(f"getelementptr i8, {_NEAR} {SHARED}, i32 {self._values_at}")
        values = e.let(f"getelementptr float, {_NEAR} {first}, i64 {own}")

        def step(at: str, states: States) -> States:
            left = [self._read(each, at, 0, _STEP) for each in near]
            made = list(states)
            row_at = e.let(f"mul nuw nsw i64 {at}, {shape.value_bytes // 4}")
            for key in range(_STEP):
                for number in range(columns):
                    more = key * shape.value_bytes + 4 * COLUMNS * number
                    right = self._read(values, row_at, more, 2)
                    for row in range(2):
                        for side in range(2):
                            n = 4 * number + 2 * row + side
                            made[n] = block.multiply_add(left[row][key], right[side], made[n])
            return made

        count = 4 * columns
        states, types = [text for part in sums[0] for text in part], ["float"] * count
        found = e.loop(("0", str(shape.keys), str(_STEP)), states, types, step)
        return [[found[n : n + 4] for n in range(0, count, 4)]]

    # -- results -------------------------------------------------------------------------------

    def store(self, rows: Sequence[list[str]]) -> None:
        block, e = self.block, self.e
        part = next(part for part in block.stage.stores if part.value.data == MEAN)
        dtype = part.value.dtype
        for number, texts in enumerate(rows):

            def row(number: int = number, texts: list[str] = texts) -> None:
                for n, text in enumerate(texts):
                    at = e.let(f"add nuw nsw i32 {self._column}, {COLUMNS * (n // 2) + n % 2}")
                    value = IrValue(cast(e, text, "f32", dtype, False), dtype, False)
                    there = block.coordinate(block.rows[number])
                    places = [(block.queries, there)]
                    places.append((block.width, e.let(f"zext nneg i32 {at} to i64")))

                    def put(places=places, value=value) -> None:
                        block.at(places, lambda: block.put(part.buffer, part.address, value))

                    if COLUMNS * (n // 2 + 1) > self.shape.width:
                        e.run_if(e.let(f"icmp ult i32 {at}, {self.shape.width}"), put)
                    else:
                        put()

            e.run_if(block.below(block.rows[number], block.query_count), row)
