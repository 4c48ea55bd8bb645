"""One round of steps that come again and again, as a function.

    i64 part(ptr buffers, ptr tensors, ptr workspace, ptr adopted, ptr handles, ptr sizes,
             ptr numbers, ptr row)

`row` has the numbers of this round's buffers: in `buffers` and `tensors`, in `workspace` (an
address each), or in `adopted` and `handles` (the data and the handle of what a C function gave).
`sizes` and `numbers` are the same for all rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.codegen.host.error_codes import Reasons
from anyshape.codegen.host.ir_builder import FunctionBody
from anyshape.codegen.host.loop_rolling import RolledLoop
from anyshape.codegen.host.steps import KernelCode, Steps
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Buffer, Launch, Step
from anyshape.symbolic import Expr, Size

_ARRAYS = ("buffers", "tensors", "workspace", "adopted", "handles", "sizes", "numbers")


class LoopBody:
    """`sizes`: what the caller has to put into the array of that name."""

    def __init__(
        self,
        name: str,
        rounds: RolledLoop,
        steps: Sequence[Step],
        scratch: Mapping[int, str],
        buffers: Mapping[str, Buffer],
        numbers: Sequence[str],
        dtypes: Mapping[str, int],
        kernels: Mapping[Kernel, KernelCode],
        why: Reasons,
    ) -> None:
        self._name = name
        self._rounds = rounds
        self._lines = lines = FunctionBody()
        self._kinds = dict(rounds.roles)
        self._places = {name: place for place, (name, _) in enumerate(rounds.roles)}
        self._indices: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._sizes = _Loaded(lines)
        self._handles: dict[str, str] = {}
        given = {n: self._index(n) for n, kind in rounds.roles if kind == "given"}
        first, length = rounds.first, rounds.length
        own = steps[first : first + length]
        used = {n for step in own if isinstance(step, Launch) for n in step.numbers}
        values = {
            n: lines.let_at_start(
                f"load double, ptr {lines.element_at_start('%numbers', str(k), 'double')}"
            )
            for k, n in enumerate(numbers)
            if n in used or any(not isinstance(step, Launch) for step in own)
        }
        self._steps = writing = Steps(
            name, lines, self._sizes, values, self._pointer, buffers, given, dtypes, kernels, why
        )
        for n, kind in rounds.roles:
            if kind == "adopted":
                data, handle = (
                    lines.element_at_start(array, self._index(n), "ptr")
                    for array in ("%adopted", "%handles")
                )
                self._pointers[n] = data
                self._handles[n] = handle
                writing.calls.adopt(n, data, handle)
        for place, step in enumerate(own):
            if isinstance(step, Launch):
                memory = scratch.get(first + place)
                writing.launch(step, None if memory is None else self._pointer(memory))
            else:
                writing.call(step)
            for n in rounds.ends.get(place, ()):
                writing.calls.give_up(n)
        writing.end()
        writing.give()

    @property
    def sizes(self) -> Sequence[Expr]:
        return list(self._sizes.places)

    def text(self) -> str:
        rounds = self._rounds
        width = len(rounds.roles)
        rows = ", ".join(
            f"[{width} x i32] [{', '.join(f'i32 {number}' for number in row)}]"
            for row in rounds.table
        )
        table = (
            f"@{self._name}.rows = private constant [{rounds.rounds} x [{width} x i32]] [{rows}]"
        )
        arguments = ", ".join(f"ptr %{array}" for array in (*_ARRAYS, "row"))
        head = f"define private i64 @{self._name}({arguments}) nounwind {{"
        return "\n".join([*self._steps.calls.globals(), table, head, self._lines.text(), "}"])

    def call(self, lines: FunctionBody, arrays: Mapping[str, str], steps: Steps) -> None:
        """All rounds, in the text of the caller."""
        counter = lines.stack("i64", hint="round")
        head, body, done = lines.new("head"), lines.new("body"), lines.new("done")
        lines.do(f"store i64 0, ptr {counter}")
        lines.do(f"br label {head}")
        lines.label(head)
        at = lines.let(f"load i64, ptr {counter}")
        more = lines.let(f"icmp slt i64 {at}, {self._rounds.rounds}")
        lines.do(f"br i1 {more}, label {body}, label {done}")
        lines.label(body)
        width = len(self._rounds.roles)
        row = lines.let(f"getelementptr [{width} x i32], ptr @{self._name}.rows, i64 {at}")
        given = ", ".join(f"ptr {array}" for array in (*(arrays[a] for a in _ARRAYS), row))
        reason = lines.let(f"call i64 @{self._name}({given})")
        steps.stop_if(lines.let(f"icmp ne i64 {reason}, 0"), reason)
        lines.do(f"store i64 {lines.let(f'add i64 {at}, 1')}, ptr {counter}")
        lines.do(f"br label {head}")
        lines.label(done)

    def _index(self, name: str) -> str:
        found = self._indices.get(name)
        if found is None:
            lines = self._lines
            place = lines.element_at_start("%row", str(self._places[name]), "i32")
            number = lines.let_at_start(f"load i32, ptr {place}")
            found = self._indices[name] = lines.let_at_start(f"sext i32 {number} to i64", "i")
        return found

    def _pointer(self, name: str) -> str:
        kind = self._kinds[name]
        if kind == "adopted":
            return self._lines.let(f"load ptr, ptr {self._pointers[name]}", "b")
        found = self._pointers.get(name)
        if found is None:
            array = "%buffers" if kind == "given" else "%workspace"
            place = self._lines.element_at_start(array, self._index(name), "ptr")
            found = self._pointers[name] = self._lines.let_at_start(f"load ptr, ptr {place}", "b")
        return found


class _Loaded:
    """Sizes that the caller has computed."""

    def __init__(self, lines: FunctionBody) -> None:
        self._lines = lines
        self._values: dict[Expr, str] = {}
        self.places: dict[Expr, int] = {}

    def of(self, size: Size) -> str:
        if not isinstance(size, Expr):
            return str(int(size))
        found = self._values.get(size)
        if found is None:
            place = self.places.setdefault(size, len(self.places))
            at = self._lines.element_at_start("%sizes", str(place), "i64")
            found = self._values[size] = self._lines.let_at_start(f"load i64, ptr {at}", "s")
        return found
