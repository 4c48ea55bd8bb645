"""Attention on a GPU: a block of threads has a tile of queries, and goes through the keys.

Scores are where products of tensor cores leave them: of 16 queries and 8 keys a thread has two
neighbouring keys of the queries `lane / 4` and 8 further. Each is made into a score at its own
coordinates. Of the tiles before it a row keeps its maximum, the sum of its weights, of which each
of four threads has a part, and its weighted values. These are scaled down when the maximum has
grown by much, which it seldom does behind the first tiles: weights may be 256 until then.

Weights of bfloat16 and float32 are divided by a power of two that is larger than the number of
keys: a sum of values is finite where their mean is. (Those of float16 are finite anyway, and would
lose bits.) Tiles of which the mask hides everything are left out, unless a value is infinite or
NaN; of those that it shows as a whole, and of none that ends within the tile, it is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from anyshape.codegen.ir_builder import float_literal, literal
from anyshape.codegen.llvm.arithmetic import ROWS, OperationCall
from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.emitter import IrValue, Loop, States
from anyshape.codegen.nvptx.attention_block import OWN_ROWS, AttentionBlock, Fragments
from anyshape.codegen.nvptx.attention_plan import COLUMNS
from anyshape.codegen.nvptx.block_reduce import shuffled
from anyshape.codegen.nvptx.mask_tiles import MaskTiles
from anyshape.loops.attention import LARGEST, LOGSUMEXP, PRODUCT
from anyshape.loops.expr import Scalar, reached

_LOG2E: Final = literal(math.log2(math.e), "f32")
_LOWEST: Final = float_literal(-math.inf)
_ZERO: Final = float_literal(0.0)
#: Binary digits by which weights may be larger than one.
_PATIENCE: Final = 8
#: Of all threads that have a part of a row.
_QUAD: Final = (1, 2)
EXP2: Final = "as.gpu.exp2"
#: The instruction itself.
EXP2_TEXT: Final = f"""
define internal float @{EXP2}(float %x) alwaysinline nounwind willreturn memory(none) {{
  %y = call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %x)
  ret float %y
}}
"""


class Products(Protocol):
    """How a block multiplies, and what it has in shared memory for that."""

    def begin(self, some: str, tile: str) -> None:
        """Fetch the queries, and the first tile if there is some."""
        ...

    def ready(self, tile: str, following: str, more: str, place: str) -> None:
        """Wait for a tile; begin to fetch the one that follows if there are more. `place`: which
        of the stages it is in."""
        ...

    def scores(self, place: str) -> Fragments: ...

    def weigh(self, weights: Fragments, sums: Fragments, place: str) -> Fragments:
        """The sums and the weighted values of a tile."""
        ...

    def store(self, rows: Sequence[list[str]]) -> None: ...


class AttentionTiles(AttentionBlock):
    """The code for one tile of queries, and all tiles of keys."""

    # -- numbers -------------------------------------------------------------------------------

    def float(self, name: str, *args: str) -> str:
        return self.e.let(f"{name} float {', '.join(args)}")

    def exp2(self, text: str) -> str:
        return self.e.let(f"call float @{EXP2}(float {text})")

    def maximum(self, a: str, b: str) -> str:
        return ROWS["maximum"](OperationCall(self.e, "f32", 0, (a, b)))

    # -- the whole -----------------------------------------------------------------------------

    def write(self, tile: str, products: Callable[[AttentionBlock], Products]) -> None:
        e, shape = self.e, self.shape
        e.takes_rounds = True
        self.set_places(tile)
        self.scope()
        self.set_keys()
        self.share, self.unshared = self._share() if self.has_share else ("", "")
        self._set_unit()
        made = products(self)
        mask = MaskTiles(self)
        first, is_full = mask.next_tile("0")
        some = self.below(first, self.tiles)
        made.begin(some, first)
        rows = OWN_ROWS * shape.fragments
        states = [first, is_full, "0", *[_LOWEST] * rows, *[_ZERO] * rows]
        states += [_ZERO] * (shape.fragments * self.columns * 4)
        types = [self.int, "i1", "i32", *["float"] * (len(states) - 3)]

        def tiles(own: States) -> tuple[States, str]:
            tile, is_full, place = own[:3]
            following, next_full = mask.next_tile(self.plus(tile, 1))
            more = self.below(following, self.tiles)
            made.ready(tile, following, more, place)
            found = self._tile(made, tile, is_full, place, own[3:])
            other = e.let(f"sub i32 {shape.stage_bytes}, {place}") if shape.stages > 1 else "0"
            return [following, next_full, other, *found], more

        ended = e.when(some, states, types, lambda: e.repeat(states, types, tiles))
        self._results(made, ended[3:])
        e.takes_rounds = False

    def _share(self) -> tuple[str, str]:
        """How many bits weights are smaller by, as a float, and what they have to be multiplied by
        to be what they would be."""
        e = self.e
        zeros = e.let(f"call {self.int} @llvm.ctlz.{self.int}({self.int} {self.length}, i1 false)")
        bits = e.let(f"sub {self.int} {int(self.int[1:]) + _PATIENCE}, {zeros}")
        if self.int == "i64":
            bits = e.let(f"trunc i64 {bits} to i32")
        raised = e.let(f"shl i32 {e.let(f'add i32 {bits}, 127')}, 23")
        number = e.let(f"uitofp i32 {bits} to float")
        return number, e.let(f"bitcast i32 {raised} to float")

    def _set_unit(self) -> None:
        """If scores are products times a factor, and it is not more than one, weights are powers of
        another base, and products stay as they are."""
        e = self.e
        self.factor: str | None = None
        self.is_unit = "false"
        unit = float_literal(1.0)
        scalar = self._factor()
        if scalar is not None:
            self.factor = factor = e.value(scalar).text
            above = e.let(f"fcmp ogt float {factor}, {_ZERO}")
            below = e.let(f"fcmp ole float {factor}, {unit}")
            self.is_unit = e.let(f"and i1 {above}, {below}")
            unit = e.let(f"select i1 {self.is_unit}, float {factor}, float {unit}")
        self.unit = unit
        self.base = self.float("fmul", unit, _LOG2E)
        # By how much a maximum grows before sums are scaled down.
        is_asked = any(part.value.data == LARGEST for part in self.stage.stores)
        limit = _ZERO if is_asked else float_literal(float(_PATIENCE))
        self.patience = self.float("fdiv", limit, self.base)

    def _factor(self) -> Scalar | None:
        """What products are multiplied with, the same for all queries and keys, by tensor cores: of
        float32, scores are rounded as the program has them."""
        score, product = self.parts.score, self.parts.product
        if self.shape.halves is None or score.op != "mul" or product.dtype != "f32":
            return None
        others = [arg for arg in score.args if arg is not product]
        if len(others) != 1 or {self.queries.symbol, self.keys.symbol} & others[0].free:
            return None
        return None if product in reached(others) else others[0]

    # -- a tile --------------------------------------------------------------------------------

    def _tile(self, made: Products, tile: str, is_full: str, place: str, states: States) -> States:
        e, shape = self.e, self.shape
        rows = len(self.rows)
        first = e.let(f"mul nuw nsw {self.int} {tile}, {shape.keys}")
        scores = self._masked(self._scored(made.scores(place), first), first, is_full)
        states, weights = self._softmax(scores, states)
        sums = made.weigh(weights, _nested(states[2 * rows :], self.columns), place)
        return [*states[: 2 * rows], *_flat(sums)]

    def _scored(self, products: Fragments, first: str) -> Fragments:
        """What becomes of the products."""
        parts = self.parts
        if parts.score is parts.product:
            return products
        if self.factor is not None:
            flat, types = _flat(products), ["float"] * len(_flat(products))
            odd = self.e.let(f"xor i1 {self.is_unit}, true")
            factor = self.factor
            by_itself = self.e.when(
                odd, flat, types, lambda: [self.float("fmul", each, factor) for each in flat]
            )
            return _nested(by_itself, self.shape.keys // COLUMNS)

        def one(text: str, row: int, inside: str) -> str:
            e = self.e
            value = cast(e, text, "f32", parts.product.dtype, False)
            e.row_levels[PRODUCT] = len(e.levels) - 1
            e.at_hand[parts.product, row] = IrValue(value, parts.product.dtype, False)
            found = e.value(parts.score)
            del e.at_hand[parts.product, row]
            return cast(e, found.text, found.dtype, "f32", False)

        return self._each(products, first, [parts.score], one)

    def _masked(self, scores: Fragments, first: str, is_full: str) -> Fragments:
        e, seen = self.e, self.parts.seen

        def one(text: str, row: int, inside: str) -> str:
            shown = inside
            if seen is not None:
                shown = e.let(f"and i1 {inside}, {e.value(seen).text}")
            return self.e.let(f"select i1 {shown}, float {text}, float {_LOWEST}")

        def masked() -> States:
            return _flat(self._each(scores, first, [] if seen is None else [seen], one))

        flat = _flat(scores)
        partly = e.let(f"xor i1 {is_full}, true")
        found = e.when(partly, flat, ["float"] * len(flat), masked)
        return _nested(found, self.shape.keys // COLUMNS)

    def _each(
        self,
        values: Fragments,
        first: str,
        of: list[Scalar],
        one: Callable[[str, int, str], str],
    ) -> Fragments:
        """Something of each element. `of`: what is asked for there. Keys that do not exist are read
        as the last one."""
        e, symbol = self.e, self.keys.symbol
        reads = any(each.op == "load" and symbol in each.free for each in reached(of))
        reads = reads or any(each in e.positions for scalar in reached(of) for each in scalar.free)
        near = self.plus(first, self.lane_number(e.let(f"shl nuw nsw i32 {self.quad}, 1")))
        last = e.let(f"sub {self.int} {self.length}, 1") if reads else ""
        made: Fragments = [[["" for _ in part] for part in own] for own in values]
        self.scope()
        for number in range(len(values[0])):
            for column in range(2):
                key = self.plus(near, COLUMNS * number + column)
                inside = self.below(key, self.length)
                there = self.coordinate(self.smaller(key, last) if reads else key)
                e.loops[symbol] = Loop(e.enter(), there, self.keys.extent)
                for fragment, own in enumerate(values):
                    for row in range(OWN_ROWS):
                        e.copy = OWN_ROWS * fragment + row
                        n = 2 * row + column
                        made[fragment][number][n] = one(own[number][n], e.copy, inside)
                e.leave()
        e.copy = 0
        del e.loops[symbol]
        self.scope()
        return made

    def _softmax(self, scores: Fragments, states: States) -> tuple[States, Fragments]:
        """What rows have so far, and the weights of a tile: its scores with the maximum subtracted
        that rows had before, unless it has grown by much."""
        e, rows = self.e, len(self.rows)
        before = states[:rows]
        found = [_of_row(scores, number) for number in range(rows)]
        largest = [self._largest(own, most) for own, most in zip(found, before, strict=True)]
        grown = "false"
        for old, new in zip(before, largest, strict=True):
            # True of NaN as well: both may be infinite.
            by = self.float("fsub", new, old)
            grown = e.let(f"or i1 {grown}, {e.let(f'fcmp ugt float {by}, {self.patience}')}")
        types = ["float"] * len(states)
        states = e.when(grown, states, types, lambda: self._scaled_down(states, largest))
        for number, own in enumerate(found):
            powers = self._powers(own, self._finite(states[number]))
            added = self._tree(powers, lambda a, b: self.float("fadd", a, b))
            states[rows + number] = self.float("fadd", states[rows + number], added)
            _set_row(scores, number, powers)
        return states, scores

    def _largest(self, scores: list[str], before: str) -> str:
        most = self._tree(scores, self.maximum)
        for distance in _QUAD:
            most = self.maximum(most, shuffled(self.e, "float", most, "bfly", str(distance)))
        return self.maximum(before, most)

    def _scaled_down(self, states: States, largest: States) -> States:
        """What rows have, by their new maxima."""
        rows = len(largest)
        factors: list[str] = []
        for old, new in zip(states, largest, strict=False):
            off = self.float("fsub", old, self._finite(new))
            factors.append(self.exp2(self.float("fmul", off, self.base)))
        totals = zip(states[rows : 2 * rows], factors, strict=True)
        made = [*largest, *(self.float("fmul", *pair) for pair in totals)]
        for number, text in enumerate(states[2 * rows :]):
            fragment = number // (4 * self.columns)
            factor = factors[OWN_ROWS * fragment + number % 4 // 2]
            made.append(self.float("fmul", text, factor))
        return made

    def _powers(self, scores: list[str], least: str) -> list[str]:
        """Of float32, the difference comes first: scores may be large, and close to each other."""
        if self.shape.halves:
            below = self.float("fmul", least, self.base)
            if self.has_share:
                below = self.float("fadd", below, self.share)
            below = self.e.let(f"fneg float {below}")
            return [self.exp2(self.multiply_add(each, self.base, below)) for each in scores]
        less = self.e.let(f"fneg float {self.share}")
        offs = [self.float("fsub", each, least) for each in scores]
        return [self.exp2(self.multiply_add(each, self.base, less)) for each in offs]

    def _tree(self, values: list[str], combined: Callable[[str, str], str]) -> str:
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            values = [*(combined(a, b) for a, b in pairs), *values[len(values) & ~1 :]]
        return values[0]

    def _finite(self, largest: str) -> str:
        """What is subtracted from scores: nothing if all of them are minus infinity."""
        is_lowest = self.e.let(f"fcmp oeq float {largest}, {_LOWEST}")
        return self.e.let(f"select i1 {is_lowest}, float {_ZERO}, float {largest}")

    # -- behind the keys -----------------------------------------------------------------------

    def _results(self, made: Products, states: States) -> None:
        """A row without a key has a sum of zero."""
        e, shape = self.e, self.shape
        rows = OWN_ROWS * shape.fragments
        largest, totals = states[:rows], states[rows : 2 * rows]
        some = e.let(f"icmp sgt {self.int} {self.length}, 0")
        found: list[list[str]] = []
        sums = _nested(states[2 * rows :], self.columns)
        for number in range(rows):
            for distance in _QUAD:
                other = shuffled(e, "float", totals[number], "bfly", str(distance))
                totals[number] = self.float("fadd", totals[number], other)
            none = e.let(f"fcmp oeq float {totals[number]}, {_ZERO}")
            if not self.parts.is_zero_if_empty:
                # Its softmax is NaN; without any column there is nothing to add up.
                none = e.let(f"and i1 {none}, {e.let(f'xor i1 {some}, true')}")
            one = float_literal(1.0)
            divisor = e.let(f"select i1 {none}, float {one}, float {totals[number]}")
            factor = self.float("fdiv", one, divisor)
            found.append([self.float("fmul", text, factor) for text in _of_row(sums, number)])
        made.store(found)
        leads = e.let(f"icmp eq i32 {self.quad}, 0")
        for part in self.stage.stores:
            if part.value.data in (LARGEST, LOGSUMEXP):
                for number in range(rows):
                    text = largest[number]
                    if part.value.data == LOGSUMEXP:
                        text = self._logsumexp(text, totals[number])
                    elif self.factor is not None:
                        text = self.float("fmul", text, self.unit)
                    exists = self.below(self.rows[number], self.query_count)
                    exists = e.let(f"and i1 {exists}, {leads}")
                    text = cast(e, text, "f32", part.value.dtype, False)
                    value = IrValue(text, part.value.dtype, False)
                    e.copy = number
                    e.run_if(exists, lambda p=part, v=value: self.put(p.buffer, p.address, v))
        e.copy = 0

    def _logsumexp(self, largest: str, total: str) -> str:
        e = self.e
        if self.has_share:
            total = self.float("fmul", total, self.unshared)
        e.functions.add(("log", "f32", 1))
        wide = e.let(f"insertelement <1 x float> poison, float {total}, i64 0")
        log = e.let(f"call <1 x float> @as.log.f32.v1(<1 x float> {wide})")
        log = e.let(f"extractelement <1 x float> {log}, i64 0")
        least = self.float("fmul", self._finite(largest), self.unit)
        found = self.float("fadd", least, log)
        infinite = e.let(f"fcmp oeq float {largest}, {float_literal(math.inf)}")
        return e.let(f"select i1 {infinite}, float {largest}, float {found}")


def _of_row(values: Fragments, number: int) -> list[str]:
    """Elements of a row, of those that a thread has."""
    first = 2 * (number % OWN_ROWS)
    return [part[first + column] for part in values[number // OWN_ROWS] for column in range(2)]


def _set_row(values: Fragments, number: int, row: list[str]) -> None:
    first = 2 * (number % OWN_ROWS)
    for place, text in enumerate(row):
        values[number // OWN_ROWS][place // 2][first + place % 2] = text


def _flat(values: Fragments) -> list[str]:
    return [text for own in values for part in own for text in part]


def _nested(values: list[str], columns: int) -> Fragments:
    parts = [list(values[n : n + 4]) for n in range(0, len(values), 4)]
    return [parts[n : n + columns] for n in range(0, len(parts), columns)]
