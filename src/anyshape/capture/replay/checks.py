"""Whether what was read and guarded below one path holds below another: one small function each.

They are given the objects that were found below the other path, by the numbers of their paths.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Access
from anyshape.guards.values import strictly_equal

Objects = list[Any]
Check = Callable[[Objects], bool]

#: What may go wrong where the other module is built otherwise.
MISSING: Final = (AttributeError, IndexError, KeyError, TypeError)

_DICTS: Final = frozenset({dict, OrderedDict})
_SEQUENCES: Final = frozenset({list, tuple})


# -- going on from an object -----------------------------------------------------------------------


def _attribute(parent: Any, name: Any) -> Any:
    return getattr(parent, name)


def _instance(parent: Any, name: Any) -> Any:
    return object.__getattribute__(parent, "__dict__")[name]


def _item(parent: Any, key: Any) -> Any:
    kind = type(parent)
    if kind in _DICTS or kind in _SEQUENCES:
        return parent[key]
    if isinstance(parent, dict):
        return dict.__getitem__(parent, key)
    if isinstance(parent, list):
        return list.__getitem__(parent, key)
    return tuple.__getitem__(parent, key)


STEPS: Final[dict[Access, Callable[[Any, Any], Any]]] = {
    Access.ATTRIBUTE: _attribute,
    Access.INSTANCE: _instance,
    Access.ITEM: _item,
}


def step(to: int, start: int, access: Access, key: object) -> Check:
    go = STEPS[access]

    def found(objects: Objects) -> bool:
        objects[to] = go(objects[start], key)
        return True

    return found


# -- comparing -------------------------------------------------------------------------------------


def is_that(at: int, value: object) -> Check:
    return lambda objects: objects[at] is value


def is_same(at: int, other: int) -> Check:
    return lambda objects: objects[at] is objects[other]


def is_kind(at: int, kind: object) -> Check:
    return lambda objects: type(objects[at]) is kind


def is_equal(at: int, value: object) -> Check:
    return lambda objects: strictly_equal(objects[at], value)


def _has_length(at: int, value: object) -> Check:
    return lambda objects: _length(objects[at]) == value


def _length(container: Any) -> int:
    base: Any = next((base for base in (dict, list, tuple) if isinstance(container, base)), None)
    if base is None:
        raise TypeError
    return base.__len__(container)


def _has_truth(at: int, value: object) -> Check:
    return lambda objects: (_length(objects[at]) != 0) is value


def _has_keys(at: int, value: object) -> Check:
    return lambda objects: strictly_equal(tuple(dict.keys(objects[at])), value)


def _contains(at: int, value: Any) -> Check:
    key, there = value
    return lambda objects: dict.__contains__(objects[at], key) is there


def _lacks(at: int, value: Any) -> Check:
    def check(objects: Objects) -> bool:
        try:
            held = object.__getattribute__(objects[at], "__dict__")
        except AttributeError:
            return True
        return value not in held

    return check


#: Guards of other kinds are not replayed. A tensor is compared where it becomes an input, and an
#: object that is found at two places where it is read.
_BY_KIND: Final[dict[Kind, Callable[[int, Any], Check]]] = {
    Kind.TYPE: is_kind,
    Kind.EQUALS: is_equal,
    Kind.IDENTITY: is_that,
    Kind.LENGTH: _has_length,
    Kind.TRUTH: _has_truth,
    Kind.KEYS: _has_keys,
    Kind.CONTAINS: _contains,
    Kind.NO_INSTANCE_ATTRIBUTE: _lacks,
}


def check_of(guard: Guard, at: int) -> Check | None:
    """Whether a guard holds of the object with this number; None if nobody can say."""
    make = _BY_KIND.get(guard.kind)
    return None if make is None else make(at, guard.value)
