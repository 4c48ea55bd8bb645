"""The fold of `loops/online_sums.py`: what is largest so far, and the sum of exponentials below it.

Lanes have no states of their own: those of a round are added below one maximum, so that scaling
what was there before is one exponential for a vector. Below an infinite maximum there is nothing to
be computed: exponentials are taken of the elements as they are, and are 0, or infinite in sum.
"""

from __future__ import annotations

import math
from functools import reduce

from anyshape.codegen.ir_builder import REGISTER, constant, vector
from anyshape.codegen.llvm.arithmetic import OperationCall
from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.emitter import Emitter, IrValue, States
from anyshape.codegen.llvm.reductions import Folding
from anyshape.loops.expr import Dtype
from anyshape.loops.online_sums import EXPSUM
from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OnlineSum(Folding):
    @property
    def cascades(self) -> bool:
        return self.dtype == "f32" and not self.in_one

    @property
    def first_dtypes(self) -> list[Dtype]:
        return [self.dtype, self.dtype]

    @property
    def dtypes(self) -> list[Dtype]:
        return [self.dtype, "f64"]

    def types(self, lanes: int) -> list[str]:
        return [REGISTER[dtype] for dtype in self.dtypes]

    def first_types(self, lanes: int) -> list[str]:
        return [REGISTER[dtype] for dtype in self.first_dtypes]

    def _start(self, dtypes: list[Dtype], lanes: int) -> States:
        return [constant(-math.inf, dtypes[0], 0), constant(0, dtypes[1], 0)]

    def update(self, e: Emitter, states: States, value: str, position: str, lanes: int) -> States:
        number, element = OperationCall(e, self.dtype, 0, ()), REGISTER[self.dtype]
        if lanes:
            type_ = vector(element, lanes)
            if e.mask is not None:
                nothing = constant(-math.inf, self.dtype, lanes)
                value = e.select(vector("i1", lanes), e.mask, type_, value, nothing)
            values = [e.let(f"extractelement {type_} {value}, i64 {n}") for n in range(lanes)]
        else:
            values = [value]
        largest = reduce(lambda a, b: _larger(number, a, b), (states[0], *values))
        below = _finite(number, largest)
        powers = [self._power(e, text, below) for text in (states[0], *values)]
        scaled = number.op("fmul", states[1], powers[0])
        return [largest, reduce(lambda a, b: number.op("fadd", a, b), powers[1:], scaled)]

    def flush(self, e: Emitter, states: States, first: States, lanes: int) -> States:
        return self.merge(e, states, [first[0], self._widened(e, first[1])], lanes)

    def merge_first(self, e: Emitter, a: States, b: States, lanes: int) -> States:
        return self._joined(e, self.first_dtypes, a, b)

    def merge(self, e: Emitter, a: States, b: States, lanes: int) -> States:
        return self._joined(e, self.dtypes, a, b)

    def across(self, e: Emitter, states: States) -> States:
        return states

    def _joined(self, e: Emitter, dtypes: list[Dtype], a: States, b: States) -> States:
        number, total = (OperationCall(e, dtype, 0, ()) for dtype in dtypes)
        largest = _larger(number, a[0], b[0])
        below = _finite(number, largest)
        parts: list[str] = []
        for own, added in (a, b):
            scale = self._power(e, own, below)
            scale = self._widened(e, scale) if dtypes[1] != self.dtype else scale
            parts.append(total.op("fmul", added, scale))
        return [largest, total.op("fadd", *parts)]

    def _widened(self, e: Emitter, text: str) -> str:
        return text if self.dtype == "f64" else e.let(f"fpext float {text} to double")

    def _power(self, e: Emitter, text: str, below: str) -> str:
        element = REGISTER[self.dtype]
        type_ = vector(element, 1)
        e.functions.add(("exp", self.dtype, 1))
        text = e.let(f"fsub {element} {text}, {below}")
        text = e.let(f"insertelement {type_} poison, {element} {text}, i64 0")
        result = e.let(f"call {type_} @as.exp.{self.dtype}.v1({type_} {text})")
        return e.let(f"extractelement {type_} {result}, i64 0")

    def finish(self, e: Emitter, states: States, wide: bool) -> IrValue:
        number, total = (OperationCall(e, dtype, 0, ()) for dtype in self.dtypes)
        text = states[1]
        if self.fold == EXPSUM:
            # What is infinite is nowhere below itself. Of no elements nobody asks.
            is_infinite = _is_infinite(number, states[0])
            text = total.choose(is_infinite, total.constant(math.nan), text)
        return IrValue(cast(e, text, "f64", self.result, False), self.result, False)


def _larger(number: OperationCall, a: str, b: str) -> str:
    """NaN is not: its exponential tells of it."""
    return number.choose(number.compare("gt", b, a), b, a)


def _is_infinite(number: OperationCall, text: str) -> str:
    return number.compare("eq", number.intrinsic("fabs", text), number.constant(math.inf))


def _finite(number: OperationCall, text: str) -> str:
    return number.choose(_is_infinite(number, text), number.constant(0), text)
