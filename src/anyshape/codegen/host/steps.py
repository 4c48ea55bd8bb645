"""Launches and calls in the text of a function that runs steps.

Where one fails, the function goes to its end with the number of a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from anyshape.codegen.host.error_codes import Reasons
from anyshape.codegen.host.extern_calls import ExternCalls, HasSizes
from anyshape.codegen.host.ir_builder import FunctionBody
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Buffer, Extern, Launch
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Size

CLEANUP: Final = "%cleanup"


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The function of a kernel, and how many bytes each of its threads needs to itself."""

    name: str
    scratch: Size = 0


class Steps:
    """`pointer`: where a buffer is. `given`: the places of inputs and outputs in `%tensors`."""

    def __init__(
        self,
        prefix: str,
        lines: FunctionBody,
        sizes: HasSizes,
        numbers: Mapping[str, str],
        pointer: Callable[[str], str],
        buffers: Mapping[str, Buffer],
        given: Mapping[str, int | str],
        dtypes: Mapping[str, int],
        kernels: Mapping[Kernel, KernelCode],
        why: Reasons,
    ) -> None:
        self._lines = lines
        self._sizes = sizes
        self._numbers = numbers
        self._pointer = pointer
        self._kernels = kernels
        self._why = why
        self.status = lines.stack("i64", hint="status")
        self.calls = ExternCalls(
            prefix, lines, sizes, numbers, pointer, buffers, given, dtypes, self.stop_if
        )

    def call(self, step: Extern) -> None:
        self.calls.call(step, self._why)

    def launch(self, step: Launch, scratch: str | None) -> None:
        """`scratch`: memory for the kernel's threads, if it needs some."""
        lines = self._lines
        code = self._kernels[step.kernel]
        arrays = [
            self._array("ptr", [self._pointer(name) for name in step.buffers]),
            self._array("i64", [self._sizes.of(size) for size in step.sizes]),
            self._array("double", [self._numbers[name] for name in step.numbers]),
            scratch or "null",
        ]
        arguments = ", ".join(f"ptr {array}" for array in arrays)
        failed = lines.let(f"call i32 @{code.name}({arguments})")
        messages = [check.message for stage in step.kernel.stages for check in stage.checks]
        if not messages:
            return
        first = self._why.numbers(messages)
        bad = lines.let(f"icmp ne i32 {failed}, 0")
        index = lines.let(f"sext i32 {failed} to i64")
        reason = lines.let(f"add i64 {index}, {first - 1}")
        self.stop_if(bad, reason)

    def _array(self, type_: str, values: list[str]) -> str:
        """On the stack, for one launch."""
        if not values:
            return "null"
        array = self._lines.stack(f"[{len(values)} x {type_}]")
        self._lines.fill(array, values, type_)
        return array

    def stop_if(self, condition: str, reason: int | str) -> None:
        """Go to the end with this reason."""
        lines = self._lines
        stop, on = lines.new("stop"), lines.new("on")
        lines.do(f"br i1 {condition}, label {stop}, label {on}")
        lines.label(stop)
        lines.do(f"store i64 {reason}, ptr {self.status}")
        lines.do(f"br label {CLEANUP}")
        lines.label(on)

    def end(self) -> None:
        """All went well; what comes now is done in any case."""
        self._lines.do(f"store i64 0, ptr {self.status}")
        self._lines.do(f"br label {CLEANUP}")
        self._lines.label(CLEANUP)
        self.calls.clean_up()

    def give(self) -> None:
        """Return the reason, or 0."""
        self._lines.do(f"ret i64 {self._lines.let(f'load i64, ptr {self.status}')}")
