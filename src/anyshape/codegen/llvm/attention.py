"""Attention as one kernel: scores are made tile by tile, and never are in memory as a whole.

    kernel attention (i0 < batches, i1 < queries)
      stage (i2 < keys, i3 < depth, i4 < width)
        query, key, value                what is multiplied
        score                            what becomes of a product, `%product`
        seen                             where it counts; elsewhere it is minus infinity
        k3[i1*width + i4] = %mean        values, weighted by the softmax of the scores

Vectors run along the queries: what is said of a key is said of all lanes alike, and the maximum and
the sum of a row of scores need no lanes to be brought together. A tile is one vector of queries and
`TILE` keys. Of the tiles before it a row keeps its maximum, its sum and its weighted values, which
are scaled down when the maximum grows. Weights are divided by a power of two that is larger than
the number of keys: a sum of values is finite where their mean is. Tiles of which the mask hides
everything are left out, unless a value is infinite or NaN: a weight of zero makes NaN of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anyshape.codegen.ir_builder import REGISTER, constant, vector
from anyshape.codegen.llvm.arithmetic import ROWS, OperationCall
from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.emitter import Emitter, IrValue, Loop, StageScope, States
from anyshape.codegen.llvm.loop_nest import set_masks
from anyshape.codegen.llvm.mask_bounds import MaskBounds
from anyshape.codegen.llvm.memory import base, store
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.loops.attention import (
    KEPT_QUERY,
    KEPT_SCORES,
    KEPT_SUMS,
    LARGEST,
    LOGSUMEXP,
    PRODUCT,
    TILE,
    AttentionParts,
    parts_of,
)
from anyshape.loops.expr import WIDTH, Axis, Dtype, Scalar
from anyshape.loops.substitute import Renaming
from anyshape.symbolic.expr import of_atom

#: Rows of accumulators side by side, by the registers that a vector takes.
_FEW_ROWS: Final = 4
_MANY_ROWS: Final = 8
#: A processor with so many values in a register has many registers, too.
_WIDE_REGISTER: Final = 16
#: Of a float: what is added to its exponent, and at which bit it is.
_EXPONENT: Final[dict[Dtype, tuple[int, int]]] = {"f32": (127, 23), "f64": (1023, 52)}


def attention_tiles(e: Emitter, axis: Axis, begin: str, end: str) -> None:
    """A loop over the vectors of a range of queries that is not empty."""
    e.vector_axis = axis.symbol

    def body(variable: str, _: States) -> States:
        e.loops[axis.symbol] = Loop(len(e.levels) - 1, variable, axis.extent)
        set_masks(e, variable, end, 1)
        _Tiles(e, axis).write()
        e.masks = ()
        e.at_hand.clear()
        return []

    e.loop((begin, end, str(e.lanes)), [], [], body)
    e.vector_axis = None


class _Tiles:
    """The code for one vector of queries."""

    def __init__(self, e: Emitter, axis: Axis) -> None:
        self.e = e
        self.axis = axis
        (stage,) = e.kernel.stages
        self.stage = stage
        self.parts: AttentionParts = parts_of(e.kernel)
        self.keys, self.depth, self.width = stage.axes
        self.dtype: Dtype = self.parts.product.dtype
        self.type = vector(REGISTER[self.dtype], e.lanes)
        self.rows = _MANY_ROWS if e.machine.register >= _WIDE_REGISTER else _FEW_ROWS
        self.level = len(e.levels) - 1
        self.written = frozenset(part.buffer for part in stage.stores)

    def write(self) -> None:
        e = self.e
        self._scope()
        self._loop(self.depth, "0", narrow_size(e, self.depth.extent), 1, self._keep_query)
        self._loop(self.width, "0", narrow_size(e, self.width.extent), 1, self._clear_sum)
        length = narrow_size(e, self.keys.extent)
        self.share = self._share_of(length)
        some = e.let(f"icmp sgt i64 {length}, 0")
        first = [self._constant(-float("inf")), self._constant(0.0)]
        largest, total = e.when(
            some,
            first,
            [self.type] * 2,
            lambda: e.loop(("0", length, str(TILE)), first, [self.type] * 2, self._tile),
        )
        self._scope()
        self._results(largest, total, some)

    # -- what all loops need -------------------------------------------------------------------

    def _scope(self) -> None:
        """Loads stand where the vector of queries is known to exist."""
        self.e.stage = StageScope(self.level, self.level, self.written)

    def _loop(
        self,
        axis: Axis,
        begin: str,
        end: str,
        step: int,
        body: Callable[[str], None],
    ) -> None:
        """A loop over an axis that may be empty."""
        e = self.e

        def inside(variable: str, _: States) -> States:
            self._open(axis, variable)
            body(variable)
            return []

        some = e.let(f"icmp slt i64 {begin}, {end}")
        e.run_if(some, lambda: e.loop((begin, end, str(step)), [], [], inside))
        self._close(axis)

    def _open(self, axis: Axis, variable: str) -> None:
        self.e.loops[axis.symbol] = Loop(len(self.e.levels) - 1, variable, axis.extent)
        self._scope()

    def _close(self, axis: Axis) -> None:
        self.e.loops.pop(axis.symbol, None)
        self._scope()

    def _constant(self, value: float) -> str:
        return constant(value, self.dtype, self.e.lanes)

    def _call(self, *args: str) -> OperationCall:
        return OperationCall(self.e, self.dtype, self.e.lanes, args)

    def _row(self, buffer: str, number: str) -> str:
        """Where a vector of private memory is."""
        e = self.e
        return e.let(f"getelementptr {self.type}, ptr {base(e, buffer)}, i64 {number}")

    def _load(self, place: str) -> str:
        return self.e.let(f"load {self.type}, ptr {place}, align {WIDTH[self.dtype]}")

    def _store(self, text: str, place: str) -> None:
        self.e.do(f"store {self.type} {text}, ptr {place}, align {WIDTH[self.dtype]}")

    def _number(self, value: IrValue) -> str:
        """In all lanes, of the dtype of the scores."""
        e = self.e
        text = cast(e, value.text, value.dtype, self.dtype, value.wide)
        return e.widen(IrValue(text, self.dtype, value.wide))

    def _share_of(self, length: str) -> str:
        """A power of two, at most one by so many, in all lanes: products with it are exact."""
        e = self.e
        one = f"i{8 * WIDTH[self.dtype]}"
        zeros = e.let(f"call i64 @llvm.ctlz.i64(i64 {length}, i1 false)")
        bias, place = _EXPONENT[self.dtype]
        exponent = e.let(f"add i64 {zeros}, {bias - 64}")
        bits = e.let(f"shl i64 {exponent}, {place}")
        if one != "i64":
            bits = e.let(f"trunc i64 {bits} to {one}")
        return e.splat(
            REGISTER[self.dtype], e.let(f"bitcast {one} {bits} to {REGISTER[self.dtype]}")
        )

    def _multiply_add(self, a: str, b: str, c: str) -> str:
        return self._call(a, b, c).intrinsic("fmuladd")

    def _function(self, name: str, text: str) -> str:
        e = self.e
        e.functions.add((name, self.dtype, e.lanes))
        return e.let(f"call {self.type} @as.{name}.{self.dtype}.v{e.lanes}({self.type} {text})")

    # -- before and behind the keys ------------------------------------------------------------

    def _keep_query(self, variable: str) -> None:
        value = self.e.value(self.parts.query)
        self._store(self._number(value), self._row(KEPT_QUERY, variable))

    def _clear_sum(self, variable: str) -> None:
        self._store(self._constant(0.0), self._row(KEPT_SUMS, variable))

    def _results(self, largest: str, total: str, some: str) -> None:
        """A row without a key has a sum of zero."""
        e = self.e
        call = self._call(total)
        none = call.compare("eq", total, self._constant(0.0))
        if not self.parts.is_zero_if_empty:
            # Its softmax is NaN; without any column there is nothing to add up.
            empty = e.let(f"xor i1 {some}, true")
            none = call.both(none, e.splat("i1", empty))
        divisor = call.choose(none, self._constant(1.0), total)
        divisor = call.op("fmul", divisor, self.share)
        factor = call.op("fdiv", self._constant(1.0), divisor)
        for part in self.stage.stores:
            if part.value.data == LARGEST:
                self._put(part.address, part.buffer, largest, part.value.dtype)
            elif part.value.data == LOGSUMEXP:
                found = call.op("fadd", self._finite(largest), self._function("log", total))
                infinite = call.compare("eq", largest, self._constant(float("inf")))
                text = call.choose(infinite, largest, found)
                self._put(part.address, part.buffer, text, part.value.dtype)
            else:

                def mean(variable: str, part=part) -> None:
                    text = self._load(self._row(KEPT_SUMS, variable))
                    text = self._call().op("fmul", text, factor)
                    self._put(part.address, part.buffer, text, part.value.dtype)

                self._loop(self.width, "0", narrow_size(e, self.width.extent), 1, mean)

    def _put(self, address: object, buffer: str, text: str, dtype: Dtype) -> None:
        text = cast(self.e, text, self.dtype, dtype, True)
        store(self.e, buffer, address, IrValue(text, dtype, True), "set", None)  # pyright: ignore[reportArgumentType] it is a size

    def _finite(self, largest: str) -> str:
        """What is subtracted from scores: nothing if all of them are minus infinity."""
        lowest = self._constant(-float("inf"))
        call = self._call()
        return call.choose(call.compare("eq", largest, lowest), self._constant(0.0), largest)

    # -- a tile --------------------------------------------------------------------------------

    def _tile(self, first: str, states: States) -> States:
        e = self.e
        length = narrow_size(e, self.keys.extent)
        end = e.let(f"add nuw nsw i64 {first}, {TILE}")
        end = e.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 {length})")
        seen = self.parts.seen
        if seen is None or self.parts.finite is None:
            return self._seen_tile(first, end, states)
        self._scope()
        bounds = MaskBounds(e, self.axis, self.keys, first, end, self.level, self._open)
        may = bounds.may_hold(seen)
        self._close(self.keys)
        if may == "true":
            return self._seen_tile(first, end, states)
        finite = e.value(self.parts.finite).text
        may = e.let(f"or i1 {may}, {e.let(f'xor i1 {finite}, true')}")
        types = [self.type] * 2
        return e.when(may, states, types, lambda: self._seen_tile(first, end, states))

    def _seen_tile(self, first: str, end: str, states: States) -> States:
        before, total = states
        self._products(first, end)
        largest = self._scores(first, end, before)
        least = self._finite(largest)
        call = self._call()
        factor = self._function("exp", call.op("fsub", before, least))
        added = self._powers(first, end, least)
        total = self._multiply_add(total, factor, added)
        self._sums(first, end, factor)
        return [largest, total]

    def _blocks(self, axis: Axis, begin: str, end: str, body: Callable[[str, int], None]) -> None:
        """A loop over an axis by several rows at once, and one by one over the rest."""
        e, rows = self.e, self.rows
        length = e.let(f"sub i64 {end}, {begin}") if begin != "0" else end
        whole = e.let(f"and i64 {length}, {-rows}")
        full = e.let(f"add i64 {begin}, {whole}") if begin != "0" else whole
        self._loop(axis, begin, full, rows, lambda variable: body(variable, rows))
        self._loop(axis, full, end, 1, lambda variable: body(variable, 1))

    def _following(self, scalar: Scalar, axis: Axis, rows: int) -> list[Scalar]:
        """It at so many points of an axis one after the other."""
        symbol = axis.symbol
        return [Renaming({symbol: of_atom(symbol) + row})(scalar) for row in range(rows)]

    def _accumulate(
        self, axis: Axis, bounds: tuple[str, str], left: Callable[[str], str], right: list[Scalar]
    ) -> States:
        """Sums of products over an axis: a vector, and something for all lanes."""
        e = self.e
        types = [self.type] * len(right)
        zeros = [self._constant(0.0)] * len(right)

        def body(variable: str, sums: States) -> States:
            self._open(axis, variable)
            wide = self._load(left(variable))
            numbers = [self._number(e.value(scalar)) for scalar in right]
            pairs = zip(numbers, sums, strict=True)
            return [self._multiply_add(wide, number, own) for number, own in pairs]

        some = e.let(f"icmp slt i64 {bounds[0]}, {bounds[1]}")
        sums = e.when(some, zeros, types, lambda: e.loop((*bounds, "1"), zeros, types, body))
        self._close(axis)
        return sums

    def _products(self, first: str, end: str) -> None:
        e = self.e
        depth = narrow_size(e, self.depth.extent)

        def block(variable: str, rows: int) -> None:
            keys = self._following(self.parts.key, self.keys, rows)
            found = self._accumulate(
                self.depth, ("0", depth), lambda at: self._row(KEPT_QUERY, at), keys
            )
            own = e.let(f"sub nuw nsw i64 {variable}, {first}")
            for row, text in enumerate(found):
                place = own if row == 0 else e.let(f"add nuw nsw i64 {own}, {row}")
                self._store(text, self._row(KEPT_SCORES, place))

        self._blocks(self.keys, first, end, block)

    def _scores(self, first: str, end: str, largest: str) -> str:
        """What becomes of the products, in their place; the maximum of a row so far."""
        e, parts = self.e, self.parts

        def body(variable: str, states: States) -> States:
            self._open(self.keys, variable)
            own = e.let(f"sub nuw nsw i64 {variable}, {first}")
            place = self._row(KEPT_SCORES, own)
            e.row_levels[PRODUCT] = len(e.levels) - 1
            e.at_hand[parts.product, 0] = IrValue(self._load(place), self.dtype, True)
            score = self._number(e.value(parts.score))
            if parts.seen is not None:
                seen = e.value(parts.seen)
                lowest = self._constant(-float("inf"))
                truth = e.type_of("b1", seen.wide)
                score = e.select(truth, seen.text, self.type, score, lowest)
            e.at_hand.clear()
            self._store(score, place)
            return [ROWS["maximum"](self._call(score, states[0]))]

        (found,) = e.loop((first, end, "1"), [largest], [self.type], body)
        self._close(self.keys)
        return found

    def _powers(self, first: str, end: str, least: str) -> str:
        """Weights in the place of scores, and the sum of exponentials."""
        e = self.e
        count = e.let(f"sub nuw nsw i64 {end}, {first}")

        def body(variable: str, states: States) -> States:
            place = self._row(KEPT_SCORES, variable)
            call = self._call()
            power = self._function("exp", call.op("fsub", self._load(place), least))
            self._store(call.op("fmul", power, self.share), place)
            return [call.op("fadd", states[0], power)]

        (found,) = e.loop(("0", count, "1"), [self._constant(0.0)], [self.type], body)
        return found

    def _sums(self, first: str, end: str, factor: str) -> None:
        """The values of the tile, weighted, beside those before it."""
        e = self.e

        def weight(key: str) -> str:
            return self._row(KEPT_SCORES, e.let(f"sub nuw nsw i64 {key}, {first}"))

        def block(variable: str, rows: int) -> None:
            values = self._following(self.parts.value, self.width, rows)
            found = self._accumulate(self.keys, (first, end), weight, values)
            for row, text in enumerate(found):
                at = variable if row == 0 else e.let(f"add nuw nsw i64 {variable}, {row}")
                place = self._row(KEPT_SUMS, at)
                self._store(self._multiply_add(self._load(place), factor, text), place)

        self._blocks(self.width, "0", narrow_size(e, self.width.extent), block)
