"""Whether what was read and guarded below one path holds below another: one small function each.

They are given the objects that were found below the other path, by the numbers of their paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from anyshape.guards.guard import Guard, Kind
from anyshape.guards.kinds import HOLDS
from anyshape.guards.path import STEPS, Access
from anyshape.guards.values import strictly_equal

Objects = list[Any]
Check = Callable[[Objects], bool]

#: What may go wrong where the other module is built otherwise.
MISSING: Final = (AttributeError, IndexError, KeyError, TypeError)

#: How paths below a module may go on.
REPLAYED_STEPS: Final = frozenset({Access.ATTRIBUTE, Access.INSTANCE, Access.ITEM})


def step(to: int, start: int, access: Access, key: object) -> Check:
    go = STEPS[access]

    def found(objects: Objects) -> bool:
        objects[to] = go(objects[start], key)
        return True

    return found


def is_that(at: int, value: object) -> Check:
    return lambda objects: objects[at] is value


def is_same(at: int, other: int) -> Check:
    return lambda objects: objects[at] is objects[other]


def is_kind(at: int, kind: object) -> Check:
    return lambda objects: type(objects[at]) is kind


def is_equal(at: int, value: object) -> Check:
    return lambda objects: strictly_equal(objects[at], value)


#: Guards of other kinds are not replayed. A tensor is compared where it becomes an input, and an
#: object that is found at two places where it is read.
_REPLAYED: Final = frozenset(
    {
        *(Kind.TYPE, Kind.EQUALS, Kind.IDENTITY, Kind.LENGTH, Kind.TRUTH, Kind.KEYS),
        *(Kind.CONTAINS, Kind.NO_INSTANCE_ATTRIBUTE),
    }
)


def check_of(guard: Guard, at: int) -> Check | None:
    """Whether a guard holds of the object with this number; None if nobody can say."""
    if guard.kind not in _REPLAYED:
        return None
    holds, value = HOLDS[guard.kind], guard.value
    return lambda objects: holds(objects[at], value)
