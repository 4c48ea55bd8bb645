"""Running folds: within a vector by shifting lanes, from vector to vector by a carry."""

from __future__ import annotations

from anyshape.codegen.ir_builder import REGISTER, constant, vector
from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.reductions import neutral, operate
from anyshape.loops.expr import Dtype
from anyshape.loops.kernels import Scan
from anyshape.support.lazy_dataclass import dataclass


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
        text = cast(e, e.widen(value), value.dtype, self.dtype, True)
        if self.lanes:
            total = self._operate(e, carry, text)
            return total, self._result(e, total)
        return self._within(e, carry, text)

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
        return last, self._result(e, total)

    def _operate(self, e: Emitter, a: str, b: str) -> str:
        return operate(e, self.scan.fold, self.dtype, e.lanes, a, b)

    def _result(self, e: Emitter, text: str) -> IrValue:
        return IrValue(cast(e, text, self.dtype, self.scan.dtype, True), self.scan.dtype, True)
