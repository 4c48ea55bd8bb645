"""Where the buffers of a plan lie in the workspace, computed when it runs.

A number is an `int` where it is known, else the operand to write for it. Sums and maxima are
shared: equal layers have equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.codegen.host.ir_builder import FunctionBody
from anyshape.codegen.host.sizes import Sizes
from anyshape.loops.memory_plan import ALIGNMENT, MemoryPlan
from anyshape.symbolic import Expr, Size

Number = int | str


def offsets(
    lines: FunctionBody, sizes: Sizes, plan: MemoryPlan
) -> tuple[dict[str, Number], Number]:
    """Where each buffer begins, and the bytes of the whole, which are some."""
    numbers = _Numbers(lines, sizes)
    starts: dict[str, Number] = {}
    ends: dict[str, Number] = {}
    for name, size in plan.sizes.items():
        starts[name] = numbers.greatest(ends[other] for other in plan.below[name])
        ends[name] = numbers.sum(starts[name], numbers.rounded(size))
    # Nothing at all is asked for as one line: a null would look like a failure.
    return starts, numbers.greatest([*ends.values(), ALIGNMENT])


class _Numbers:
    """None of them is negative."""

    def __init__(self, lines: FunctionBody, sizes: Sizes) -> None:
        self._lines = lines
        self._sizes = sizes
        self._rounded: dict[Expr, str] = {}
        self._made: dict[tuple[str, str, str], str] = {}

    def sum(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._let("add i64 {}, {}", a, b)

    def greatest(self, numbers: Iterable[Number]) -> Number:
        found = set(numbers)
        result: Number = max((each for each in found if isinstance(each, int)), default=0)
        for each in sorted(each for each in found if isinstance(each, str)):
            result = (
                each
                if result == 0
                else self._let("call i64 @llvm.smax.i64(i64 {}, i64 {})", result, each)
            )
        return result

    def _let(self, text: str, a: Number, b: Number) -> str:
        key = (text, str(a), str(b))
        if key not in self._made:
            self._made[key] = self._lines.let(text.format(a, b))
        return self._made[key]

    def rounded(self, size: Size) -> Number:
        """To whole lines."""
        if isinstance(size, int):
            return -(-max(size, 0) // ALIGNMENT) * ALIGNMENT
        if size not in self._rounded:
            lines = self._lines
            value = self._sizes.of(size)
            natural = lines.let(f"call i64 @llvm.smax.i64(i64 {value}, i64 0)")
            # Beyond this nobody has memory, and sums of such numbers overflow.
            bounded = lines.let(f"call i64 @llvm.smin.i64(i64 {natural}, i64 {2**48})")
            more = lines.let(f"add i64 {bounded}, {ALIGNMENT - 1}")
            self._rounded[size] = lines.let(f"and i64 {more}, {-ALIGNMENT}")
        return self._rounded[size]
