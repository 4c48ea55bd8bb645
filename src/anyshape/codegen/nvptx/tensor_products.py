"""Products of attention by tensor cores: float16 and bfloat16, added up in float32.

In shared memory there are the queries of the block, then keys and values of two tiles, of which one
is read while the other is on its way (`cp.async`). `ldmatrix` brings four blocks of 8 x 8 to where
an instruction wants them: values as they are transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyshape.codegen.llvm.casts import BF16_PAIR
from anyshape.codegen.llvm.memory import pointer
from anyshape.codegen.nvptx.attention_block import AttentionBlock, Fragments
from anyshape.codegen.nvptx.attention_plan import COLUMNS, FRAGMENT
from anyshape.codegen.nvptx.block_group import block_barrier
from anyshape.codegen.nvptx.block_reduce import SHARED
from anyshape.loops.attention import CHUNK, MEAN
from anyshape.loops.expr import Axis, Dtype, Scalar
from anyshape.symbolic.expr import symbols_of

_FLOATS: Final = "{float, float, float, float}"
_WORDS: Final = "{i32, i32, i32, i32}"
_NEAR: Final = "ptr addrspace(3)"
_ZERO: Final = "0.0"
#: What an instruction is called, and what it wants two values as.
_MULTIPLY: Final[dict[Dtype, tuple[str, str]]] = {
    "bf16": ("@llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32"),
    "f16": ("@llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "<2 x half>"),
}
_LOAD: Final = "@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3"
_LOAD_TURNED: Final = "@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3"
_COPY: Final = "@llvm.nvvm.cp.async.cg.shared.global.16.s"

DECLARATIONS: Final = "".join(
    [
        *(
            f"declare {_FLOATS} {name}({', '.join([pair] * 6 + ['float'] * 4)})\n"
            for name, pair in _MULTIPLY.values()
        ),
        *(f"declare {_WORDS} {name}({_NEAR})\n" for name in (_LOAD, _LOAD_TURNED)),
        f"declare void {_COPY}({_NEAR}, ptr addrspace(1), i32)\n",
        "declare void @llvm.nvvm.cp.async.commit.group()\n",
        "declare void @llvm.nvvm.cp.async.wait.group(i32)\n",
    ]
)


class TensorProducts:
    def __init__(self, block: AttentionBlock) -> None:
        self.block, self.e, self.shape = block, block.e, block.shape
        halves = self.shape.halves
        assert halves is not None, "tensor cores multiply halves"
        self.halves: Dtype = halves
        self._multiply, self._pair = _MULTIPLY[halves]
        self._keys_at = self.shape.rows * self.shape.key_bytes
        self._values_at = self._keys_at + self.shape.keys * self.shape.key_bytes
        #: where a lane reads of four blocks: those of its number's bits 3 and 4
        low, high, within = (self._bits(*bits) for bits in ((3, 1), (4, 1), (0, 7)))
        self._of_query = self._place([(low, 8), (within, 1)], high, self.shape.key_bytes)
        self._of_key = self._place([(high, 8), (within, 1)], low, self.shape.key_bytes)
        self._of_value = self._place([(low, 8), (within, 1)], high, self.shape.value_bytes)
        of_warp = f"mul nuw nsw i32 %warp, {FRAGMENT * self.shape.fragments * self.shape.key_bytes}"
        self._of_query = self.e.let(f"add nuw nsw i32 {self._of_query}, {self.e.let(of_warp)}")
        self._query: list[list[list[str]]] = []

    def _bits(self, place: int, mask: int) -> str:
        moved = self.e.let(f"lshr i32 %lane, {place}") if place else "%lane"
        return self.e.let(f"and i32 {moved}, {mask}")

    def _place(self, rows: list[tuple[str, int]], chunk: str, row_bytes: int) -> str:
        e = self.e
        text = e.let(f"mul nuw nsw i32 {chunk}, {2 * CHUNK}")
        for number, by in rows:
            more = e.let(f"mul nuw nsw i32 {number}, {by * row_bytes}")
            text = e.let(f"add nuw nsw i32 {text}, {more}")
        return text

    # -- copies --------------------------------------------------------------------------------

    def begin(self, some: str, tile: str) -> None:
        block, e, parts = self.block, self.e, self.block.parts
        rows = block.queries, block.first, self.shape.rows, block.query_count
        self._copy(parts.query, rows, block.depth, "0", self.shape.key_bytes)
        e.do("call void @llvm.nvvm.cp.async.commit.group()")
        e.run_if(some, lambda: self._fetch(tile, "0"))
        e.do("call void @llvm.nvvm.cp.async.commit.group()")
        e.do("call void @llvm.nvvm.cp.async.wait.group(i32 1)")
        block_barrier(e)
        if self.shape.holds_query:
            steps = range(self.shape.padded_depth // FRAGMENT)
            self._query = [self._load_query(step) for step in steps]

    def ready(self, tile: str, following: str, more: str, place: str) -> None:
        e = self.e
        e.do("call void @llvm.nvvm.cp.async.wait.group(i32 0)")
        # All have what is there, and none needs what was before.
        block_barrier(e)
        other = e.let(f"sub i32 {self.shape.stage_bytes}, {place}")
        e.run_if(more, lambda: self._fetch(following, other))
        e.do("call void @llvm.nvvm.cp.async.commit.group()")

    def _fetch(self, tile: str, place: str) -> None:
        block, e, shape = self.block, self.e, self.shape
        first = e.let(f"mul nuw nsw {block.int} {tile}, {shape.keys}")
        rows = block.keys, first, shape.keys, block.length
        for scalar, column, begin, row_bytes in (
            (block.parts.key, block.depth, self._keys_at, shape.key_bytes),
            (block.parts.value, block.width, self._values_at, shape.value_bytes),
        ):
            there = e.let(f"add nuw nsw i32 {place}, {begin}")
            self._copy(scalar, rows, column, there, row_bytes)

    def _copy(
        self, scalar: Scalar, rows: tuple[Axis, str, int, str], column: Axis, there: str, step: int
    ) -> None:
        """Rows from one on, as many as exist, to shared memory; zeros for others, and where rows
        are filled up."""
        block, e = self.block, self.e
        axis, first, count, length = rows
        load = scalar.args[0] if scalar.op == "cast" else scalar
        buffer, address = load.data
        width = column.extent
        assert isinstance(width, int), "columns are known"
        is_depth = column is block.depth
        across = (self.shape.padded_depth if is_depth else width) // CHUNK
        threads = self.shape.threads
        begun = -(-count * across // threads)
        for number in range(begun):
            unit = e.let(f"add nuw nsw i32 %tid, {number * threads}") if number else "%tid"
            own = e.let(f"udiv i32 {unit}, {across}")
            chunk = e.let(f"urem i32 {unit}, {across}")
            row = block.plus(first, block.lane_number(own))
            exists = block.below(row, length)
            if across * CHUNK > width:
                inside = e.let(f"icmp ult i32 {chunk}, {width // CHUNK}")
                exists = e.let(f"and i1 {exists}, {inside}")
            size = e.let(f"select i1 {exists}, i32 16, i32 0")
            at = e.let(f"mul nuw nsw i32 {own}, {step}")
            at = e.let(f"add nuw nsw i32 {at}, {e.let(f'shl nuw nsw i32 {chunk}, 4')}")
            target = self._near(e.let(f"add nuw nsw i32 {at}, {there}"))
            begin = e.let(f"zext nneg i32 {e.let(f'shl nuw nsw i32 {chunk}, 3')} to i64")

            def copy(target: str = target, size: str = size) -> None:
                place = pointer(e, buffer, address, load.dtype)
                far = e.let(f"addrspacecast ptr {place} to ptr addrspace(1)")
                e.do(f"call void {_COPY}({_NEAR} {target}, ptr addrspace(1) {far}, i32 {size})")

            places = [(axis, block.coordinate(row)), (column, begin)]

            def part(places: list[tuple[Axis, str]] = places, copy=copy) -> None:
                block.at(places, copy)

            if (number + 1) * threads > count * across:
                e.run_if(e.let(f"icmp ult i32 {unit}, {count * across}"), part)
            else:
                part()

    # -- products ------------------------------------------------------------------------------

    def _near(self, offset: str) -> str:
        return self.e.let(f"getelementptr i8, {_NEAR} {SHARED}, i32 {offset}")

    def _load(self, place: str, offset: int, turned: bool = False) -> list[str]:
        e = self.e
        at = e.let(f"getelementptr i8, {_NEAR} {place}, i32 {offset}") if offset else place
        found = e.let(f"call {_WORDS} {_LOAD_TURNED if turned else _LOAD}({_NEAR} {at})")
        words = [e.let(f"extractvalue {_WORDS} {found}, {n}") for n in range(4)]
        return [self._as_pair(word) for word in words]

    def _as_pair(self, word: str) -> str:
        return word if self._pair == "i32" else self.e.let(f"bitcast i32 {word} to {self._pair}")

    def _load_query(self, step: int) -> list[list[str]]:
        """Of all fragments, these 16 columns."""
        place = self._near(self._of_query)
        below = FRAGMENT * self.shape.key_bytes
        return [
            self._load(place, number * below + step * 2 * FRAGMENT)
            for number in range(self.shape.fragments)
        ]

    def _product(self, a: list[str], b: list[str], c: list[str]) -> list[str]:
        e = self.e
        given = [f"{self._pair} {each}" for each in (*a, *b)] + [f"float {each}" for each in c]
        found = e.let(f"call {_FLOATS} {self._multiply}({', '.join(given)})")
        return [e.let(f"extractvalue {_FLOATS} {found}, {n}") for n in range(4)]

    def scores(self, place: str) -> Fragments:
        e, shape = self.e, self.shape
        at = e.let(f"add nuw nsw i32 {place}, {self._of_key}")
        base = self._near(e.let(f"add nuw nsw i32 {at}, {self._keys_at}"))
        made = [[[_ZERO] * 4 for _ in range(shape.keys // COLUMNS)] for _ in range(shape.fragments)]
        for step in range(shape.padded_depth // FRAGMENT):
            query = self._query[step] if shape.holds_query else self._load_query(step)
            for pair in range(shape.keys // FRAGMENT):
                offset = pair * FRAGMENT * shape.key_bytes + step * 2 * FRAGMENT
                words = self._load(base, offset)
                for own, a in zip(made, query, strict=True):
                    for side in range(2):
                        n = 2 * pair + side
                        own[n] = self._product(a, words[2 * side : 2 * side + 2], own[n])
        return made

    def weigh(self, weights: Fragments, sums: Fragments, place: str) -> Fragments:
        e, shape = self.e, self.shape
        at = e.let(f"add nuw nsw i32 {place}, {self._of_value}")
        base = self._near(e.let(f"add nuw nsw i32 {at}, {self._values_at}"))
        for step in range(shape.keys // FRAGMENT):
            left = [self._packed(own[2 * step : 2 * step + 2]) for own in weights]
            for pair in range(shape.padded_width // FRAGMENT):
                offset = step * FRAGMENT * shape.value_bytes + pair * 2 * FRAGMENT
                words = self._load(base, offset, turned=True)
                for own, a in zip(sums, left, strict=True):
                    for side in range(2):
                        n = 2 * pair + side
                        if n * COLUMNS < shape.width:
                            own[n] = self._product(a, words[2 * side : 2 * side + 2], own[n])
        return sums

    def _packed(self, parts: list[list[str]]) -> list[str]:
        """Two times eight columns as the left factor of a product."""
        return [self._two(part[n], part[n + 1]) for part in parts for n in (0, 2)]

    def _two(self, low: str, high: str) -> str:
        """Two floats, rounded."""
        e = self.e
        if self.halves == "bf16":
            return e.let(f"call i32 @{BF16_PAIR}(float {low}, float {high})")
        text = "poison"
        for number, each in enumerate((low, high)):
            half = e.let(f"fptrunc float {each} to half")
            text = e.let(f"insertelement <2 x half> {text}, half {half}, i64 {number}")
        return text

    # -- results -------------------------------------------------------------------------------

    def store(self, rows: Sequence[list[str]]) -> None:
        """Two neighbours at a time."""
        block, e = self.block, self.e
        part = next(part for part in block.stage.stores if part.value.data == MEAN)
        assert block.width.symbol in symbols_of(part.address), "columns have their own places"
        for number, texts in enumerate(rows):

            def row(number: int = number, texts: list[str] = texts) -> None:
                for column in range(self.shape.width // COLUMNS):
                    near = e.let(f"shl nuw nsw i32 {block.quad}, 1")
                    at = e.let(f"add nuw nsw i32 {near}, {COLUMNS * column}")
                    word = self._two(*texts[2 * column : 2 * column + 2])
                    type_ = self._pair

                    def put(word: str = word, type_: str = type_) -> None:
                        place = pointer(e, part.buffer, part.address, self.halves)
                        e.do(f"store {type_} {word}, ptr {place}, align 4")

                    there = block.coordinate(block.rows[number])
                    column_at = e.let(f"zext nneg i32 {at} to i64")
                    block.at([(block.queries, there), (block.width, column_at)], put)

            e.run_if(block.below(block.rows[number], block.query_count), row)
