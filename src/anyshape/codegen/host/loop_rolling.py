"""Steps that come again and again, such as those of equal layers: who is who in each round.

In each round the same kernels and functions are called, with other buffers. A role is a buffer as
one round sees it; a table says which one that is: an input or output by its number, or a place in
the workspace, or a tensor that a C function gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from anyshape.loops.program import Area, Buffer, Launch, Repeated, Step

RoleKind = Literal["given", "workspace", "adopted"]

#: Fewer rounds are written out.
_LEAST: Final = 3


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
        found = _Finding(first + skip * length, length, rounds - less, steps, scratch)
        made = found.rounds(buffers, numbers, ends) if rounds - less >= _LEAST else None
        if made is not None:
            return made
    return None


class _Finding:
    def __init__(
        self,
        first: int,
        length: int,
        rounds: int,
        steps: Sequence[Step],
        scratch: Mapping[int, str],
    ) -> None:
        self._first, self._length, self._rounds = first, length, rounds
        self._names = [
            [
                name
                for number in range(first + each * length, first + (each + 1) * length)
                for name in _names(steps[number], scratch.get(number))
            ]
            for each in range(rounds)
        ]

    def rounds(
        self,
        buffers: Mapping[str, Buffer],
        numbers: Mapping[str, tuple[RoleKind, int]],
        ends: Mapping[int, Sequence[str]],
    ) -> RolledLoop | None:
        own = self._names[0]
        roles = tuple(Role(name, numbers[name][0]) for name in dict.fromkeys(own))
        table: list[tuple[int, ...]] = []
        given_up = self._ends(0, ends)
        for each, names in enumerate(self._names):
            known = dict(zip(own, names, strict=False))
            if len(names) != len(own) or [known[name] for name in own] != names:
                return None
            for name, kind in roles:
                if numbers[known[name]][0] != kind or not _same(name, known[name], buffers):
                    return None
            there = self._ends(each, ends)
            if there.keys() != given_up.keys() or any(
                {known[name] for name in given_up[step]} != set(there[step]) for step in given_up
            ):
                return None
            table.append(tuple(numbers[known[name]][1] for name, _ in roles))
        return RolledLoop(self._first, self._length, self._rounds, roles, tuple(table), given_up)

    def _ends(self, each: int, ends: Mapping[int, Sequence[str]]) -> dict[int, tuple[str, ...]]:
        start = self._first + each * self._length
        return {
            step: tuple(ends[start + step]) for step in range(self._length) if start + step in ends
        }


def _names(step: Step, scratch: str | None) -> list[str]:
    if isinstance(step, Launch):
        return [*step.buffers, *([] if scratch is None else [scratch])]
    return [area.buffer for area in step.arguments if isinstance(area, Area)]


def _same(one: str, other: str, buffers: Mapping[str, Buffer]) -> bool:
    if one == other or one not in buffers or other not in buffers:
        return (one in buffers) == (other in buffers)
    a, b = buffers[one], buffers[other]
    return (a.dtype, a.sizes, a.strides) == (b.dtype, b.sizes, b.strides)
