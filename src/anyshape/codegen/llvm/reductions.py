"""Folds: what is carried from round to round, and how it becomes one value; and running folds.

A fold has two accumulators. The first runs in the innermost loop; now and then it is flushed into
the second, which outlives the loops and is what lanes, copies and threads are merged by. For sums
of f32 the second one is f64 and the flushes are frequent: rounding errors stay as small as those of
a pairwise sum. A running fold goes within a vector by shifting lanes, from vector to vector by a
carry.
"""

from __future__ import annotations

from anyshape.codegen.ir_builder import REGISTER, UNSIGNED, constant, register_bits, vector
from anyshape.codegen.llvm.arithmetic import ROWS, OperationCall
from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.emitter import Emitter, IrValue, States
from anyshape.loops.expr import FLOATS, Dtype
from anyshape.loops.kernels import Scan
from anyshape.support.lazy_dataclass import dataclass

#: rounds of the innermost loop after which a first accumulator is flushed
FLUSH = 256

_OPERATION = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_OPERATION |= {"any": "or", "all": "and", "argmax": "maximum", "argmin": "minimum"}


def neutral(fold: str, dtype: Dtype) -> float | int | bool:
    """What a fold begins with."""
    if fold in ("sum", "any"):
        return 0
    if fold in ("prod", "all"):
        return 1
    is_max = fold in ("max", "argmax")
    if dtype in FLOATS:
        return -float("inf") if is_max else float("inf")
    bits = register_bits(dtype)
    if dtype in UNSIGNED:
        return 0 if is_max else 2**bits - 1
    return -(2 ** (bits - 1)) if is_max else 2 ** (bits - 1) - 1


def operate(e: Emitter, fold: str, dtype: Dtype, lanes: int, a: str, b: str) -> str:
    """One step of a fold; of b1, max and min are or and and."""
    name = _OPERATION[fold]
    if dtype == "b1":
        name = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}.get(name, name)
    return ROWS[name](OperationCall(e, dtype, lanes, (a, b)))


@dataclass(frozen=True, slots=True)
class Folding:
    """One fold of a stage. States are lists of registers, one for each of `dtypes`."""

    fold: str
    #: of the values
    dtype: Dtype
    #: of the result
    result: Dtype
    #: whether so few values are folded one after the other that one accumulator is enough
    in_one: bool = False

    @property
    def has_position(self) -> bool:
        return self.fold in ("argmax", "argmin")

    @property
    def cascades(self) -> bool:
        sums = self.fold == "sum" and self.dtype in FLOATS and self.dtype != "f64"
        return sums and not self.in_one

    @property
    def first_dtypes(self) -> list[Dtype]:
        """Of the accumulators in the innermost loop. Those of f16 and bf16 are not rounded."""
        own: Dtype = "f32" if self.dtype in ("f16", "bf16") else self.dtype
        return [own, "i64"] if self.has_position else [own]

    @property
    def dtypes(self) -> list[Dtype]:
        """Of the accumulators outside of it."""
        return ["f64"] if self.cascades else self.first_dtypes

    def types(self, lanes: int) -> list[str]:
        return [vector(REGISTER[dtype], lanes) for dtype in self.dtypes]

    def first_types(self, lanes: int) -> list[str]:
        return [vector(REGISTER[dtype], lanes) for dtype in self.first_dtypes]

    def start(self, lanes: int) -> States:
        return self._start(self.dtypes, lanes)

    def first_start(self, lanes: int) -> States:
        return self._start(self.first_dtypes, lanes)

    def _start(self, dtypes: list[Dtype], lanes: int) -> States:
        # Where nothing beats the beginning, all values are equal, and the first position is 0.
        values = (neutral(self.fold, self.dtype), 0)
        return [constant(value, d, lanes) for d, value in zip(dtypes, values, strict=False)]

    # -- steps ---------------------------------------------------------------------------------

    def update(self, e: Emitter, states: States, value: str, position: str, lanes: int) -> States:
        """With the value of one round; lanes that do not exist stay as they are."""
        dtype = self.first_dtypes[0]
        if self.has_position:
            better = self._is_better(e, dtype, lanes, value, states[0])
            if e.mask is not None and lanes:
                better = e.let(f"and <{lanes} x i1> {better}, {e.mask}")
            types = self.first_types(lanes)
            return _choose(e, better, vector("i1", lanes), types, [value, position], states)
        if e.mask is not None and lanes:
            type_ = self.first_types(lanes)[0]
            nothing = self.first_start(lanes)[0]
            value = e.select(vector("i1", lanes), e.mask, type_, value, nothing)
        # The new value comes first: NaN is looked for in it alone.
        return [operate(e, self.fold, dtype, lanes, value, states[0])]

    def flush(self, e: Emitter, states: States, first: States, lanes: int) -> States:
        if self.cascades:
            have, want = vector("float", lanes), vector("double", lanes)
            wide = e.let(f"fpext {have} {first[0]} to {want}")
            return [e.let(f"fadd {want} {states[0]}, {wide}")]
        return self.merge(e, states, first, lanes)

    def merge_first(self, e: Emitter, a: States, b: States, lanes: int) -> States:
        """Of two first accumulators."""
        if self.has_position:
            return self.merge(e, a, b, lanes)
        return [operate(e, self.fold, self.first_dtypes[0], lanes, b[0], a[0])]

    def merge(self, e: Emitter, a: States, b: States, lanes: int) -> States:
        dtype = self.dtypes[0]
        if not self.has_position:
            # As in `update`: the first argument's NaN is handed on, and the second's as well.
            return [operate(e, self.fold, dtype, lanes, b[0], a[0])]
        truth = vector("i1", lanes)
        call = OperationCall(e, dtype, lanes, (b[0], a[0]))
        better = self._is_better(e, dtype, lanes, b[0], a[0])
        worse = self._is_better(e, dtype, lanes, a[0], b[0])
        same = e.let(f"xor {truth} {call.both(better, worse, 'or')}, {_true(lanes)}")
        earlier = e.let(f"icmp slt {vector('i64', lanes)} {b[1]}, {a[1]}")
        take = call.both(better, call.both(same, earlier), "or")
        return _choose(e, take, truth, self.types(lanes), b, a)

    def _is_better(self, e: Emitter, dtype: Dtype, lanes: int, a: str, b: str) -> str:
        """Whether `a` replaces `b`: NaN counts as the extreme, and the first NaN stays."""
        sign = "gt" if self.fold == "argmax" else "lt"
        call = OperationCall(e, dtype, lanes, (a, b))
        if dtype not in FLOATS:
            return call.compare(sign)
        beyond = call.op(f"fcmp u{sign}")
        return call.both(beyond, call.op("fcmp ord", b, b))

    def across(self, e: Emitter, states: States) -> States:
        """The fold of all lanes."""
        lanes = e.lanes
        while lanes > 1:
            half = lanes // 2
            parts: list[States] = [[], []]
            for type_, text in zip(self.types(lanes), states, strict=True):
                for part, begin in zip(parts, (0, half), strict=True):
                    part.append(_some_lanes(e, type_, text, begin, half))
            states = self.merge(e, parts[0], parts[1], half)
            lanes = half
        return [
            e.let(f"extractelement {type_} {text}, i64 0")
            for type_, text in zip(self.types(1), states, strict=True)
        ]

    def finish(self, e: Emitter, states: States, wide: bool) -> IrValue:
        if self.has_position:
            return IrValue(states[1], "i64", wide)
        text = cast(e, states[0], self.dtypes[0], self.result, wide)
        return IrValue(text, self.result, wide)


def _choose(
    e: Emitter, condition: str, truth: str, types: list[str], yes: States, no: States
) -> States:
    return [
        e.select(truth, condition, type_, a, b) for type_, a, b in zip(types, yes, no, strict=True)
    ]


def _some_lanes(e: Emitter, type_: str, text: str, begin: int, count: int) -> str:
    order = ", ".join(f"i32 {lane}" for lane in range(begin, begin + count))
    return e.let(f"shufflevector {type_} {text}, {type_} poison, <{count} x i32> <{order}>")


def _true(lanes: int) -> str:
    return "splat (i1 true)" if lanes else "true"


@dataclass(frozen=True, slots=True)
class Scanning:
    scan: Scan
    #: lanes of the carry: with vectors along a parallel axis each lane has its own
    lanes: int

    @property
    def dtype(self) -> Dtype:
        """Eager adds f32 up in f64, and f16 and bf16 in f32."""
        own = self.scan.dtype
        if self.scan.fold in ("sum", "prod"):
            return {"f32": "f64", "f16": "f32", "bf16": "f32"}.get(own, own)  # pyright: ignore[reportReturnType] the values are dtypes
        return own

    @property
    def type(self) -> str:
        return vector(REGISTER[self.dtype], self.lanes)

    @property
    def start(self) -> str:
        return constant(neutral(self.scan.fold, self.dtype), self.dtype, self.lanes)

    def step(self, e: Emitter, carry: str, value: IrValue) -> tuple[str, IrValue]:
        """The carry after a round, and what the round gives."""
        text = self.given(e, value)
        if self.lanes:
            total = self._operate(e, carry, text)
            return total, self.result(e, total)
        return self._within(e, carry, text)

    def given(self, e: Emitter, value: IrValue) -> str:
        """The values of a round, of the carry's dtype."""
        return cast(e, e.widen(value), value.dtype, self.dtype, True)

    def _within(self, e: Emitter, carry: str, text: str) -> tuple[str, IrValue]:
        element = REGISTER[self.dtype]
        type_ = vector(element, e.lanes)
        nothing = constant(neutral(self.scan.fold, self.dtype), self.dtype, e.lanes)
        distance = 1
        while distance < e.lanes:
            # Lane i takes lane i - distance, and nothing where there is none.
            order = ", ".join(f"i32 {e.lanes + lane - distance}" for lane in range(e.lanes))
            shifted = e.let(
                f"shufflevector {type_} {nothing}, {type_} {text}, <{e.lanes} x i32> <{order}>"
            )
            text = self._operate(e, shifted, text)
            distance *= 2
        total = self._operate(e, e.splat(element, carry), text)
        last = e.let(f"extractelement {type_} {total}, i64 {e.lanes - 1}")
        return last, self.result(e, total)

    def _operate(self, e: Emitter, a: str, b: str) -> str:
        return operate(e, self.scan.fold, self.dtype, e.lanes, a, b)

    def result(self, e: Emitter, text: str) -> IrValue:
        """What is stored of a carry for each lane."""
        return IrValue(cast(e, text, self.dtype, self.scan.dtype, True), self.scan.dtype, True)
