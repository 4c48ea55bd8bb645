"""The steps of a segment as one native function.

    i64 run(ptr buffers, ptr tensors, ptr symbols, ptr numbers)

`buffers`: the data of the inputs, then of the outputs. `tensors`: their handles for torch's C
functions; null where they are not known, and then handles are made as they are needed. Sizes are
computed first, then memory for all temporaries is taken at once, then the steps run. Returns 0 or
the number of a reason. It needs no Python and holds no lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from anyshape.codegen.host.abi import HostAbi, HostUnsupported
from anyshape.codegen.host.extern_calls import ExternCalls, is_whole
from anyshape.codegen.host.externs import EXTERNS
from anyshape.codegen.host.lines import Lines
from anyshape.codegen.host.reasons import Reasons
from anyshape.codegen.host.sizes import Sizes
from anyshape.codegen.host.workspace import offsets
from anyshape.loops.kernels import Kernel
from anyshape.loops.memory_plan import (
    ALIGNMENT,
    Life,
    Plan,
    in_place,
    lives_of,
    merged,
    plan_memory,
)
from anyshape.loops.program import Area, Extern, Launch, Segment, Step
from anyshape.loops.scalars import WIDTH
from anyshape.records import dataclass
from anyshape.symbolic import Size, Symbol, as_symbol, substitute, symbol
from anyshape.symbolic.expr import symbols_of

#: Up to so many bytes the workspace is on the stack, if its size is known.
_MOST_ON_STACK: Final = 16384

#: In sizes of memory: how many threads a kernel may have. Not a name that programs use.
_THREADS: Final = symbol("anyshape_threads")

DECLARATIONS: Final = "\n".join(
    [
        "declare i32 @anyshape_num_threads()",
        "declare noalias ptr @aligned_alloc(i64, i64)",
        "declare void @free(ptr)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    ]
)


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The function of a kernel, and how many bytes each of its threads needs to itself."""

    name: str
    scratch: Size = 0


def run_function(
    segment: Segment, name: str, kernels: Mapping[Kernel, KernelCode], abi: HostAbi, why: Reasons
) -> str:
    return _Run(segment, name, kernels, abi, why).text()


class _Run:
    def __init__(
        self,
        segment: Segment,
        name: str,
        kernels: Mapping[Kernel, KernelCode],
        abi: HostAbi,
        why: Reasons,
    ) -> None:
        self._segment = segment
        self._name = name
        self._kernels = kernels
        self._why = why
        self._lines = Lines()
        self._dtypes = abi.dtypes
        self._status = self._lines.stack("i64", hint="status")
        self._cleanup = "%cleanup"
        buffers = (*segment.inputs, *segment.temporaries, *segment.outputs)
        self._buffers = {buffer.name: buffer for buffer in buffers}
        if len(self._buffers) != len(buffers):
            raise HostUnsupported("two buffers have one name")
        self._pointers: dict[str, str] = {}
        #: buffers that take the place of others
        self._in_place: dict[str, str] = {}
        #: buffers that are what a C function gave: where the data's address is kept
        self._adopted = self._find_adopted()
        self._sizes = self._load_symbols()
        self._numbers = {
            number: self._lines.let(
                f"load double, ptr {self._lines.element('%numbers', k, 'double')}"
            )
            for k, number in enumerate(segment.numbers)
        }

    def text(self) -> str:
        lines = self._lines
        segment = self._segment
        for k, buffer in enumerate((*segment.inputs, *segment.outputs)):
            pointer = lines.let(f"load ptr, ptr {lines.element('%buffers', k, 'ptr')}", "b")
            self._pointers[buffer.name] = pointer
        # The values of sizes are needed by all steps, so they are all computed here.
        lives = self._lives()
        widths = {buffer.name: WIDTH[buffer.dtype] for buffer in segment.temporaries}
        self._in_place = in_place(lives, segment.steps, widths)
        plan = plan_memory(merged(lives, self._in_place))
        for size in self._all_sizes(plan):
            self._sizes.of(size)
        trouble = self._sizes.trouble()
        self._stop_at_once_if(trouble, self._why.number("a size is beyond 64 bits or undefined"))
        workspace = self._place(plan)
        calls = ExternCalls(
            self._name,
            lines,
            self._sizes,
            self._numbers,
            self._pointer,
            self._buffers,
            {buffer.name: k for k, buffer in enumerate((*segment.inputs, *segment.outputs))},
            self._dtypes,
            self._stop_if,
        )
        for buffer_name, slot in self._adopted.items():
            calls.adopt(buffer_name, slot)
        last = self._last_uses()
        for number, step in enumerate(segment.steps):
            if isinstance(step, Launch):
                self._launch(number, step, plan)
            else:
                calls.call(step, self._why)
            for buffer_name in self._adopted:
                if last.get(buffer_name) == number:
                    calls.give_up(buffer_name)
        assert self._sizes.trouble() == trouble, "a size was computed after the check of all"
        lines.do(f"store i64 0, ptr {self._status}")
        lines.do(f"br label {self._cleanup}")
        lines.label(self._cleanup)
        calls.clean_up()
        if workspace is not None:
            lines.do(f"call void @free(ptr {workspace})")
        result = lines.let(f"load i64, ptr {self._status}")
        lines.do(f"ret i64 {result}")
        arguments = "ptr %buffers, ptr %tensors, ptr %symbols, ptr %numbers"
        head = f"define i64 @{self._name}({arguments}) nounwind {{"
        return "\n".join([*calls.globals(), head, self._lines.text(), "}"])

    def _load_symbols(self) -> Sizes:
        lines = self._lines
        values: dict[Symbol, str] = {}
        for k, name in enumerate(self._segment.symbols):
            place = lines.element("%symbols", k)
            values[name] = lines.let(f"load i64, ptr {place}", "s")
        if any(isinstance(step, Launch) for step in self._segment.steps):
            # Also where no kernel has memory of its own: torch sets up its threads by this.
            threads = lines.let("call i32 @anyshape_num_threads()", "t")
            values[as_symbol(_THREADS)] = lines.let(f"sext i32 {threads} to i64", "t")
        return Sizes(lines, values)

    # -- memory ----------------------------------------------------------------------------------

    def _find_adopted(self) -> dict[str, str]:
        """Temporaries that a C function fills whole, before anybody else touches them."""
        temporaries = {buffer.name for buffer in self._segment.temporaries}
        seen: set[str] = set()
        found: dict[str, str] = {}
        # A buffer that two calls give would have to lose the first tensor at the second: it is
        # copied to instead.
        given = Counter(area.buffer for step in self._segment.steps for area in _results(step))
        for step in self._segment.steps:
            if isinstance(step, Extern):
                for area in _results(step):
                    first = area.buffer not in seen and given[area.buffer] == 1
                    if (
                        first
                        and area.buffer in temporaries
                        and is_whole(area, self._buffers[area.buffer])
                    ):
                        found[area.buffer] = self._lines.stack("ptr", hint="adopted")
                seen |= {area.buffer for area in step.arguments if isinstance(area, Area)}
            else:
                seen |= set(step.buffers)
        return found

    def _lives(self) -> list[Life]:
        """Of all that lies in the workspace: temporaries, and what threads have to themselves."""
        ours = [buffer for buffer in self._segment.temporaries if buffer.name not in self._adopted]
        lives = lives_of(ours, self._segment.steps)
        for number, step in enumerate(self._segment.steps):
            if isinstance(step, Launch):
                scratch = self._scratch(step)
                if scratch != 0:
                    lives.append(Life(_scratch_name(number), scratch, number, number))
        return lives

    def _scratch(self, step: Launch) -> Size:
        per_thread = self._kernels[step.kernel].scratch
        values = {
            name: step.sizes[int(name.name[1:])]
            for name in symbols_of(per_thread)
            if name.name[:1] == "n" and name.name[1:].isdigit()
        }
        return substitute(per_thread, values) * _THREADS

    def _last_uses(self) -> dict[str, int]:
        temporaries = self._segment.temporaries
        return {life.name: life.last for life in lives_of(temporaries, self._segment.steps)}

    def _all_sizes(self, plan: Plan) -> list[Size]:
        found: list[Size] = [*plan.sizes.values()]
        for step in self._segment.steps:
            if isinstance(step, Launch):
                found += step.sizes
                continue
            for argument in step.arguments:
                if isinstance(argument, Area):
                    found += [*argument.sizes, *argument.strides, argument.offset]
                elif isinstance(argument, tuple):
                    found += argument
                elif not isinstance(argument, float | str | bool | None):
                    found.append(argument)
        return found

    def _place(self, plan: Plan) -> str | None:
        """Take the workspace and say where buffers lie in it. Returns what has to be freed."""
        if not plan.sizes:
            return None
        lines = self._lines
        starts, total = offsets(lines, self._sizes, plan)
        workspace: str | None = None
        if isinstance(total, int) and total <= _MOST_ON_STACK:
            base = lines.stack(f"[{max(total, 1)} x i8]", ALIGNMENT, "workspace")
        else:
            base = workspace = lines.let(
                f"call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {total})", "workspace"
            )
            missing = lines.let(f"icmp eq ptr {base}, null")
            self._stop_at_once_if(missing, self._why.number("no memory for temporaries"))
        places: dict[int | str, str] = {}
        for name, start in starts.items():
            if start not in places:
                places[start] = lines.let(f"getelementptr i8, ptr {base}, i64 {start}", "w")
            self._pointers[name] = places[start]
        # In the order of the steps: what is in the place of another may be another's.
        for name, old in self._in_place.items():
            self._pointers[name] = self._pointers[old]
        return workspace

    # -- steps -----------------------------------------------------------------------------------

    def _pointer(self, name: str) -> str:
        slot = self._adopted.get(name)
        if slot is not None:
            return self._lines.let(f"load ptr, ptr {slot}", "b")
        found = self._pointers.get(name)
        if found is None:
            raise HostUnsupported(f"a step uses {name}, which is no buffer of the segment")
        return found

    def _launch(self, number: int, step: Launch, plan: Plan) -> None:
        lines = self._lines
        code = self._kernels[step.kernel]
        arrays = [
            self._array("ptr", [self._pointer(name) for name in step.buffers]),
            self._array("i64", [self._sizes.of(size) for size in step.sizes]),
            self._array("double", [self._numbers[name] for name in step.numbers]),
            self._pointers.get(_scratch_name(number), "null"),
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
        self._stop_if(bad, reason)

    def _array(self, type_: str, values: list[str]) -> str:
        """On the stack, for one launch."""
        if not values:
            return "null"
        array = self._lines.stack(f"[{len(values)} x {type_}]")
        self._lines.fill(array, values, type_)
        return array

    def _stop_if(self, condition: str, reason: int | str) -> None:
        """Go to the end with this reason."""
        lines = self._lines
        stop, on = lines.new("stop"), lines.new("on")
        lines.do(f"br i1 {condition}, label {stop}, label {on}")
        lines.label(stop)
        lines.do(f"store i64 {reason}, ptr {self._status}")
        lines.do(f"br label {self._cleanup}")
        lines.label(on)

    def _stop_at_once_if(self, condition: str, reason: int) -> None:
        """Return this reason: there is nothing to clean up yet."""
        lines = self._lines
        stop, on = lines.new("stop"), lines.new("on")
        lines.do(f"br i1 {condition}, label {stop}, label {on}")
        lines.label(stop)
        lines.do(f"ret i64 {reason}")
        lines.label(on)


def _results(step: Step) -> list[Area]:
    """The areas that a C function gives tensors for."""
    if not isinstance(step, Extern):
        return []
    row = EXTERNS.get(step.function)
    if row is None:
        raise HostUnsupported(f"there is no C function {step.function}")
    return [area for area in step.arguments[: row.results] if isinstance(area, Area)]


def _scratch_name(step: int) -> str:
    return f"scratch of step {step}"
