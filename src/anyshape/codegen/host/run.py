"""The steps of a segment as one native function.

    i64 run(ptr buffers, ptr tensors, ptr symbols, ptr numbers)

`buffers`: the data of the inputs, then of the outputs, null for an output that is to be the tensor
which a C function gives; it is put there. `tensors`: their handles for torch's C
functions; null where they are not known, and then handles are made as they are needed. Sizes are
computed first, then memory for all temporaries is taken at once, then the steps run. Returns 0 or
the number of a reason. It needs no Python and holds no lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.codegen.host.abi import HostAbi, HostUnsupported, Reasons
from anyshape.codegen.host.externs import adopted_buffers, handed_over, results_of
from anyshape.codegen.host.loop_rolling import LoopBody, RoleKind, find_rounds
from anyshape.codegen.host.movable_results import movable_results
from anyshape.codegen.host.products import ExternCalls
from anyshape.codegen.host.sizes import Sizes, offsets
from anyshape.codegen.host.steps import KernelCode, Known, Steps
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.loops.expr import WIDTH
from anyshape.loops.kernels import Kernel
from anyshape.loops.memory_plan import (
    ALIGNMENT,
    Life,
    MemoryPlan,
    in_place,
    lives_of,
    merged,
    plan_memory,
)
from anyshape.loops.program import Area, Launch, Segment
from anyshape.symbolic import Size, Symbol, as_symbol, substitute, symbol
from anyshape.symbolic.expr import symbols_of

#: Up to so many bytes the workspace is on the stack, if its size is known.
_MOST_ON_STACK: Final = 16384

#: In sizes of memory: how many threads a kernel may have. Not a name that programs use.
_THREADS: Final = symbol("anyshape_threads")

DECLARATIONS: Final = "\n".join(
    [
        "declare i32 @anyshape_num_threads()",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    ]
)


class Run:
    """The function `name`."""

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
        self._lines = FunctionBody()
        buffers = (*segment.inputs, *segment.temporaries, *segment.outputs)
        by_name = {buffer.name: buffer for buffer in buffers}
        if len(by_name) != len(buffers):
            raise HostUnsupported("two buffers have one name")
        self._known = Known(by_name, kernels, abi, why)
        self._given = {
            buffer.name: k for k, buffer in enumerate((*segment.inputs, *segment.outputs))
        }
        self._handed = {name: self._given[name] for name in handed_over(segment)}
        #: of what is in the workspace, and of inputs and outputs
        self._pointers: dict[str, str] = {}
        self._loaded: dict[str, str] = {}
        #: buffers that take the place of others
        self._in_place: dict[str, str] = {}
        #: buffers that may be in the place of others of their kind, and all that is in theirs
        self._movable: Mapping[str, Sequence[str]] = {}
        #: buffers that are what a C function gave, in the order of their places in two arrays: of
        #: the addresses of their data, and of their handles
        self._adopted = {name: k for k, name in enumerate(adopted_buffers(segment))}
        self._data = self._handles = "null"
        if self._adopted:
            array = f"[{len(self._adopted)} x ptr]"
            self._data = self._lines.stack(array, hint="adopted")
            self._handles = self._lines.stack(array, hint="handles")
            size = 8 * len(self._adopted)
            self._lines.at_start(
                f"call void @llvm.memset.p0.i64(ptr {self._handles}, i8 0, i64 {size}, i1 false)"
            )
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
        # The values of sizes are needed by all steps, so they are all computed here.
        lives = self._lives()
        widths = {buffer.name: WIDTH[buffer.dtype] for buffer in segment.temporaries}
        self._in_place = in_place(lives, segment.steps, widths)
        lives = merged(lives, self._in_place)
        if self._known.abi.products:
            lives, self._movable = movable_results(
                segment, self._known.buffers, lives, self._in_place
            )
        plan = plan_memory(lives)
        for size in self._all_sizes(plan):
            self._sizes.of(size)
        trouble = self._sizes.trouble()
        self._stop_at_once_if(trouble, self._why.number("a size is beyond 64 bits or undefined"))
        workspace = self._place(plan)
        known, name = self._known, self._name
        given, handed = self._given, self._handed
        steps = Steps(known, name, lines, self._sizes, self._numbers, self._pointer, given, handed)
        scratch = {
            number: own
            for number in range(len(segment.steps))
            if (own := _scratch_name(number)) in self._pointers
        }
        ends = self._ends()
        rounds = find_rounds(
            segment.repeated, segment.steps, known.buffers, self._places(), scratch, ends
        )
        part: LoopBody | None = None
        borders: tuple[int, ...] = ()
        if rounds is not None:
            borders = rounds.first, rounds.first + rounds.length * rounds.rounds
        calls = ExternCalls(steps, segment.steps, known, self._movable, borders)
        number = 0
        while number < len(segment.steps):
            if rounds is not None and number == rounds.first:
                own, numbers = f"{name}.part", segment.numbers
                part = LoopBody(known, own, rounds, segment.steps, scratch, numbers, self._movable)
                part.call(lines, self._arrays(part), steps)
                number += rounds.length * rounds.rounds
                continue
            step = segment.steps[number]
            if isinstance(step, Launch):
                memory = scratch.get(number)
                steps.launch(step, None if memory is None else self._pointers[memory])
            else:
                for area in results_of(step):
                    self._adopt(area.buffer, steps)
                calls.call(number)
            for buffer in ends.get(number, ()):
                self._adopt(buffer, steps)
                steps.give_up(buffer)
            number += 1
        assert self._sizes.trouble() == trouble, "a size was computed after the check of all"
        steps.end()
        if self._adopted:
            # What an error has left.
            count = len(self._adopted)
            lines.do(f"call void @anyshape_host_delete(ptr {self._handles}, i64 {count})")
        if workspace is not None:
            lines.do(f"call void @anyshape_host_release(ptr {workspace})")
        steps.give()
        arguments = "ptr %buffers, ptr %tensors, ptr %symbols, ptr %numbers"
        head = f"define i64 @{name}({arguments}) nounwind {{"
        before = [] if part is None else [part.text()]
        return "\n".join([*before, *steps.globals, head, lines.text(), "}"])

    # -- rounds ----------------------------------------------------------------------------------

    def _places(self) -> dict[str, tuple[RoleKind, int]]:
        """What each buffer is, and its number among those."""
        found: dict[str, tuple[RoleKind, int]] = {}
        found |= {name: ("given", k) for name, k in self._given.items()}
        found |= {name: ("adopted", k) for name, k in self._adopted.items()}
        places: dict[str, int] = {}
        for name, pointer in self._pointers.items():
            found[name] = "workspace", places.setdefault(pointer, len(places))
        return found

    def _arrays(self, part: LoopBody) -> dict[str, str]:
        lines = self._lines
        places = list(dict.fromkeys(self._pointers.values()))
        return {
            **{name: f"%{name}" for name in ("buffers", "tensors", "numbers")},
            "workspace": lines.array("ptr", places, "places"),
            "sizes": lines.array("i64", [self._sizes.of(size) for size in part.sizes], "sizes"),
            "adopted": self._data,
            "handles": self._handles,
        }

    def _load_symbols(self) -> Sizes:
        lines = self._lines
        values: dict[Symbol, str] = {}
        for k, name in enumerate(self._segment.symbols):
            place = lines.element("%symbols", k)
            values[name] = lines.let(f"load i64, ptr {place}", "s")
        launches = any(isinstance(step, Launch) for step in self._segment.steps)
        if launches and not self._known.abi.is_launched:
            # Also where no kernel has memory of its own: torch sets up its threads by this.
            threads = lines.let("call i32 @anyshape_num_threads()", "t")
            values[as_symbol(_THREADS)] = lines.let(f"sext i32 {threads} to i64", "t")
        return Sizes(lines, values)

    # -- memory ----------------------------------------------------------------------------------

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

    def _ends(self) -> dict[int, list[str]]:
        """By number of a step, what C functions gave and is not needed after it."""
        ours = [buffer for buffer in self._segment.temporaries if buffer.name in self._adopted]
        found: dict[int, list[str]] = {}
        for life in lives_of(ours, self._segment.steps):
            found.setdefault(life.last, []).append(life.name)
        return found

    def _all_sizes(self, plan: MemoryPlan) -> list[Size]:
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

    def _place(self, plan: MemoryPlan) -> str | None:
        """Take the workspace and say where buffers lie in it. Returns where it is kept that has to
        be given back."""
        if not plan.sizes:
            return None
        lines = self._lines
        starts, total = offsets(lines, self._sizes, plan)
        workspace: str | None = None
        is_known = isinstance(total, int) and not self._known.abi.is_launched
        if is_known and int(total) <= _MOST_ON_STACK:
            base = lines.stack(f"[{max(total, 1)} x i8]", ALIGNMENT, "workspace")
        else:
            workspace = lines.stack("[2 x ptr]", hint="held")
            base = lines.let(
                f"call ptr @anyshape_host_workspace(i64 {total}, ptr {workspace})", "workspace"
            )
            missing = lines.let(f"icmp eq ptr {base}, null")
            whose = "torch has " if self._known.abi.is_launched else ""
            self._stop_at_once_if(missing, self._why.number(f"{whose}no memory for temporaries"))
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
        lines = self._lines
        place = self._adopted.get(name)
        if place is not None:
            data = lines.element(self._data, place, "ptr")
            return lines.let(f"load ptr, ptr {data}", "b")
        place = self._handed.get(name)
        if place is not None:
            # It is there as soon as the call is back.
            return lines.let(f"load ptr, ptr {lines.element('%buffers', place, 'ptr')}", "b")
        found = self._pointers.get(name)
        if found is None:
            place = self._given.get(name)
            if place is None:
                raise HostUnsupported(f"a step uses {name}, which is no buffer of the segment")
            found = self._loaded.get(name)
            if found is None:
                at = lines.element_at_start("%buffers", place, "ptr")
                found = self._loaded[name] = lines.let_at_start(f"load ptr, ptr {at}", "b")
        return found

    def _adopt(self, name: str, steps: Steps) -> None:
        """Tell where a tensor of a C function is kept."""
        place = self._adopted.get(name)
        if place is not None:
            data, handle = (
                self._lines.element(array, place, "ptr") for array in (self._data, self._handles)
            )
            steps.adopt(name, data, handle)

    def _stop_at_once_if(self, condition: str, reason: int) -> None:
        """Return this reason: there is nothing to clean up yet."""
        with self._lines.only_if(condition):
            self._lines.do(f"ret i64 {reason}")


def _scratch_name(step: int) -> str:
    return f"scratch of step {step}"
