"""What a source was seen as, over many calls: a small lattice for each number.

    unset  <  a value  <  many

Merging goes upwards only, so that the order in which calls, runs or ranks come does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from anyshape.support.lazy_dataclass import dataclass, field


class Many(Enum):
    """More than one value was seen."""

    MANY = "?"

    def __str__(self) -> str:
        return self.value


MANY: Final = Many.MANY
Seen = int | Many


@dataclass(frozen=True, slots=True)
class Observation:
    """One source: an integer, a tensor, or now this and now that. None is unset."""

    integer: Seen | None = None
    #: one entry for each dimension; MANY as a whole if the number of dimensions changed
    sizes: tuple[Seen, ...] | Many | None = None
    #: likewise; nothing is decided by them, but people look for them in a profile
    strides: tuple[Seen, ...] | Many | None = None

    def size(self, dim: int) -> Seen | None:
        """What dimension `dim` was seen as; None if the source was never a tensor, or had no such
        dimension."""
        if isinstance(self.sizes, tuple):
            return self.sizes[dim] if dim < len(self.sizes) else None
        return self.sizes

    def __str__(self) -> str:
        if self.integer is None and self.sizes is None:
            return "nothing"
        if self.sizes is None:
            return f"scalar {self.integer}"
        if self.integer is not None or isinstance(self.sizes, Many):
            return "fully dynamic scalar or tensor"
        text = f"tensor size=[{', '.join(map(str, self.sizes))}]"
        if isinstance(self.strides, tuple):
            text += f" stride=[{', '.join(map(str, self.strides))}]"
        return text


def of_int(value: int) -> Observation:
    return Observation(integer=value)


def of_sizes(sizes: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Observation:
    return Observation(sizes=tuple(sizes), strides=strides)


def merge(a: Observation, b: Observation) -> Observation:
    """What both together have seen."""
    integer = _merge_seen(a.integer, b.integer)
    sizes = _merge_sizes(a.sizes, b.sizes)
    if integer is not None and sizes is not None:
        return Observation(MANY, MANY)  # a number here and a tensor there: nothing is certain
    return Observation(integer, sizes, _merge_sizes(a.strides, b.strides))


def _merge_seen(a: Seen | None, b: Seen | None) -> Seen | None:
    if a is None or b is None:
        return b if a is None else a
    return a if a == b else MANY


def _merge_sizes(
    a: tuple[Seen, ...] | Many | None, b: tuple[Seen, ...] | Many | None
) -> tuple[Seen, ...] | Many | None:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Many) or isinstance(b, Many) or len(a) != len(b):
        return MANY
    return tuple(x if x == y else MANY for x, y in zip(a, b, strict=True))


class Observations(dict[str, Observation]):
    """What one function has seen: an observation for each source, by its text (`L['x']`)."""

    def add(self, source: str, observation: Observation) -> None:
        before = self.get(source)
        self[source] = observation if before is None else merge(before, observation)

    def add_all(self, others: Mapping[str, Observation]) -> None:
        for source, observation in others.items():
            self.add(source, observation)


@dataclass(frozen=True, slots=True)
class OtherRanks:
    """By source: what it was seen as on all ranks together, and in words who has seen what, where
    they differ."""

    seen: Mapping[str, Observation] = field(default_factory=dict[str, Observation])
    told: Mapping[str, str] = field(default_factory=dict[str, str])


ALONE: Final = OtherRanks()

_RANK: Final = re.compile(r"\brank \d+")


def ranks_in(told: str) -> str:
    """Who has seen something, out of the words on who has seen what."""
    return " and ".join(dict.fromkeys(_RANK.findall(told)))
