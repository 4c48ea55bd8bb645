"""Steps that come again and again, such as those of equal layers, as a loop over one function.

In each round the same kernels and functions are called, with other buffers. A role is a buffer as
one round sees it; a table says which one that is: an input or output by its number, or a place in
the workspace, or a tensor that a C function gives. One round is a function:

    i64 part(ptr buffers, ptr tensors, ptr workspace, ptr adopted, ptr handles, ptr sizes,
             ptr numbers, ptr row)

`row` has the numbers of this round's buffers: in `buffers` and `tensors`, in `workspace` (an
address each), or in `adopted` and `handles` (the data and the handle of what a C function gave).
`sizes` and `numbers` are the same for all rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from anyshape.codegen.host.products import ExternCalls
from anyshape.codegen.host.steps import Known, Steps
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.loops.program import Buffer, Launch, Repeated, Step, buffers_of
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size

RoleKind = Literal["given", "workspace", "adopted"]

#: Fewer rounds are written out.
_LEAST: Final = 3

_ARRAYS: Final = ("buffers", "tensors", "workspace", "adopted", "handles", "sizes", "numbers")


class Role(NamedTuple):
    """The name of the buffer in the first round, and what is looked up in the table."""

    name: str
    kind: RoleKind


class RolledLoop(NamedTuple):
    """`table`: of each round, the number of the buffer for each role. `ends`: after which step of a
    round tensors of C functions are given up, and the names of these in the first."""

    first: int
    length: int
    rounds: int
    roles: tuple[Role, ...]
    table: tuple[tuple[int, ...], ...]
    ends: Mapping[int, tuple[str, ...]]


def find_rounds(
    repeated: Repeated | None,
    steps: Sequence[Step],
    buffers: Mapping[str, Buffer],
    numbers: Mapping[str, tuple[RoleKind, int]],
    scratch: Mapping[int, str],
    ends: Mapping[int, Sequence[str]],
) -> RolledLoop | None:
    """The most rounds that can be the same code. `numbers`: what each buffer is, and its number;
    `scratch`: by number of a step, the name of memory that its threads need; `ends`: by number of a
    step, what is given up after it."""
    if repeated is None:
        return None
    first, length, rounds = repeated
    # The first and the last round may see what others do not.
    for skip, less in ((0, 0), (1, 1), (0, 1), (1, 2)):
        if rounds - less < _LEAST:
            continue
        part = Repeated(first + skip * length, length, rounds - less)
        made = _rolled(part, steps, buffers, numbers, scratch, ends)
        if made is not None:
            return made
    return None


def _rolled(
    repeated: Repeated,
    steps: Sequence[Step],
    buffers: Mapping[str, Buffer],
    numbers: Mapping[str, tuple[RoleKind, int]],
    scratch: Mapping[int, str],
    ends: Mapping[int, Sequence[str]],
) -> RolledLoop | None:
    """These rounds, if they are the same code."""
    first, length, rounds = repeated
    own: list[str] = []
    roles: tuple[Role, ...] = ()
    given_up: dict[int, tuple[str, ...]] = {}
    table: list[tuple[int, ...]] = []
    for start in range(first, first + rounds * length, length):
        names: list[str] = []
        for number in range(start, start + length):
            names += buffers_of(steps[number])
            names += [scratch[number]] if number in scratch else []
        there = {n: tuple(ends[start + n]) for n in range(length) if start + n in ends}
        if start == first:
            own, given_up = names, there
            roles = tuple(Role(name, numbers[name][0]) for name in dict.fromkeys(own))
        known = dict(zip(own, names, strict=False))
        if len(names) != len(own) or [known[name] for name in own] != names:
            return None
        for name, kind in roles:
            if numbers[known[name]][0] != kind or not _same(name, known[name], buffers):
                return None
        if there.keys() != given_up.keys() or any(
            {known[name] for name in given_up[step]} != set(there[step]) for step in given_up
        ):
            return None
        table.append(tuple(numbers[known[name]][1] for name, _ in roles))
    return RolledLoop(first, length, rounds, roles, tuple(table), given_up)


def _same(one: str, other: str, buffers: Mapping[str, Buffer]) -> bool:
    if one == other or one not in buffers or other not in buffers:
        return (one in buffers) == (other in buffers)
    return replace(buffers[one], name=other, role=buffers[other].role) == buffers[other]


class LoopBody:
    """The function of one round. `sizes`: what the caller has to put into that array."""

    def __init__(
        self,
        known: Known,
        name: str,
        rounds: RolledLoop,
        steps: Sequence[Step],
        scratch: Mapping[int, str],
        numbers: Sequence[str],
        movable: Mapping[str, Sequence[str]],
    ) -> None:
        self._name = name
        self._rounds = rounds
        self._lines = lines = FunctionBody()
        self._kinds = dict(rounds.roles)
        self._places = {name: place for place, (name, _) in enumerate(rounds.roles)}
        self._indices: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._sizes = _Loaded(lines)
        given = {n: self._index(n) for n, kind in rounds.roles if kind == "given"}
        first, length = rounds.first, rounds.length
        own = steps[first : first + length]
        used = {n for step in own if isinstance(step, Launch) for n in step.numbers}
        values = {
            n: lines.let_at_start(
                f"load double, ptr {lines.element_at_start('%numbers', k, 'double')}"
            )
            for k, n in enumerate(numbers)
            if n in used or any(not isinstance(step, Launch) for step in own)
        }
        self._steps = writing = Steps(known, name, lines, self._sizes, values, self._pointer, given)
        for n, kind in rounds.roles:
            if kind == "adopted":
                data, handle = (
                    lines.element_at_start(array, self._index(n), "ptr")
                    for array in ("%adopted", "%handles")
                )
                self._pointers[n] = data
                writing.adopt(n, data, handle)
        calls = ExternCalls(writing, own, known, movable)
        for place, step in enumerate(own):
            if isinstance(step, Launch):
                memory = scratch.get(first + place)
                writing.launch(step, None if memory is None else self._pointer(memory))
            else:
                calls.call(place)
            for n in rounds.ends.get(place, ()):
                writing.give_up(n)
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
        return "\n".join([*self._steps.globals, table, head, self._lines.text(), "}"])

    def call(self, lines: FunctionBody, arrays: Mapping[str, str], steps: Steps) -> None:
        """All rounds, in the text of the caller."""
        at, counter, head, done = lines.counting(self._rounds.rounds, "round")
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
            place = lines.element_at_start("%row", self._places[name], "i32")
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
            at = self._lines.element_at_start("%sizes", place)
            found = self._values[size] = self._lines.let_at_start(f"load i64, ptr {at}", "s")
        return found
