"""The lines of Python that check one guard: a function for each kind (`kinds.py`).

The cheapest form that is sound, by `benchmarks/bench_dispatch.py`: identities before equalities,
one attribute of a tensor before its shape, a method of C code only on objects whose type was
checked.
"""

from __future__ import annotations

from itertools import combinations
from math import copysign
from typing import Final, cast

from anyshape.guards.guard import Guard
from anyshape.guards.path import Path
from anyshape.guards.path_codegen import Walk
from anyshape.guards.values import (
    SIZED,
    contains,
    dictionary_reader,
    keys_match,
    lacks_instance_attribute,
    length_of,
    members_match,
    strictly_equal,
)


def _path(guard: Guard) -> Path:
    assert guard.path is not None, f"a guard of kind {guard.kind.name} looks at a path"
    return guard.path


def _object(walk: Walk, guard: Guard) -> str:
    return walk.variable(_path(guard))


def emit_type(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{walk.name(type)}({_object(walk, guard)}) is not {walk.name(guard.value)}")


def emit_identity(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{_object(walk, guard)} is not {walk.name(guard.value)}")


_SINGLETONS: Final = frozenset((type(None), bool, type(...), type(NotImplemented)))
#: `!=` of two of one such type is the whole comparison
_PLAIN: Final = frozenset((int, str, bytes))


def emit_equals(walk: Walk, guard: Guard) -> None:
    found, value = _object(walk, guard), cast("object", guard.value)
    kind = type(value)
    if kind in _SINGLETONS:
        walk.refuse_if(f"{found} is not {walk.literal(value)}")
    elif kind in _PLAIN:
        differs = f"{found} != {walk.literal(value)}"
        walk.refuse_if(f"{walk.name(type)}({found}) is not {walk.name(kind)} or {differs}")
    elif kind is float:
        differs = _float_differs(walk, found, cast("float", value))
        walk.refuse_if(f"{walk.name(type)}({found}) is not {walk.name(kind)} or {differs}")
    else:
        expected = walk.name(value)
        equal = f"{walk.name(strictly_equal)}({found}, {expected})"
        walk.refuse_if(f"{found} is not {expected} and not {equal}")


def _float_differs(walk: Walk, found: str, value: float) -> str:
    if value != value:
        return f"{found} == {found}"
    if value == 0:
        sign = f"{walk.name(copysign)}(1.0, {found}) != {copysign(1.0, value)}"
        return f"{found} != 0.0 or {sign}"
    return f"{found} != {walk.name(value)}"


def emit_length(walk: Walk, guard: Guard) -> None:
    found = _object(walk, guard)
    if walk.type_at(_path(guard)) not in SIZED:
        walk.refuse_if(f"{walk.name(length_of)}({found}) != {guard.value}")
    elif guard.value == 0:
        walk.refuse_if(found)
    else:
        walk.refuse_if(f"{walk.name(len)}({found}) != {guard.value}")


#: Up to so many keys are taken apart; more are compared by a loop in C, which costs more to start.
_FEW_KEYS: Final = 12


def emit_keys(walk: Walk, guard: Guard) -> None:
    """By the identities of the keys, which are the same strings nearly always; an `==` of tuples
    would ask foreign keys."""
    expected, found = cast("tuple[object, ...]", guard.value), _object(walk, guard)
    match = f"{walk.name(keys_match)}({found}, {walk.name(expected)})"
    if walk.type_at(_path(guard)) is not dict:
        walk.refuse_if(f"not {match}")
    elif not expected:
        walk.refuse_if(found)
    elif len(expected) <= _FEW_KEYS:
        walk.refuse_if(f"{walk.name(len)}({found}) != {len(expected)}")
        names = [walk.fresh() for _ in expected]
        walk.lines.append(f"{', '.join(names)}, = {found}")
        pairs = zip(names, expected, strict=True)
        same = " and ".join(f"{name} is {walk.name(key)}" for name, key in pairs)
        walk.refuse_if(f"not ({same}) and not {match}")
    else:
        same = f"{walk.name(tuple)}({walk.name(map)}({walk.name(id)}, {found}))"
        walk.refuse_if(f"{same} != {walk.name(tuple(map(id, expected)))} and not {match}")


def emit_members(walk: Walk, guard: Guard) -> None:
    match = f"{walk.name(members_match)}({_object(walk, guard)}, {walk.name(guard.value)})"
    walk.refuse_if(f"not {match}")


def emit_contains(walk: Walk, guard: Guard) -> None:
    key, present = cast("tuple[object, bool]", guard.value)
    found = _object(walk, guard)
    if walk.type_at(_path(guard)) in (dict, set, frozenset):
        walk.refuse_if(f"{walk.literal(key)} {'not in' if present else 'in'} {found}")
    else:
        there = f"{walk.name(contains)}({found}, {walk.literal(key)})"
        walk.refuse_if(f"{there} is not {present}")


def emit_no_instance_attribute(walk: Walk, guard: Guard) -> None:
    path, name = _path(guard), guard.value
    kind = walk.type_at(path)
    if kind is None:
        lacks = f"{walk.name(lacks_instance_attribute)}({_object(walk, guard)}, {name!r})"
        walk.refuse_if(f"not {lacks}")
    elif dictionary_reader(kind) is not None:
        walk.refuse_if(f"{name!r} in {walk.dictionary(path)}")


def emit_no_attribute(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{walk.name(hasattr)}({_object(walk, guard)}, {guard.value!r})")


def emit_truth(walk: Walk, guard: Guard) -> None:
    found = _object(walk, guard)
    if walk.type_at(_path(guard)) not in SIZED:
        found = f"{walk.name(length_of)}({found})"
    walk.refuse_if(f"not {found}" if guard.value else found)


def emit_predicate(walk: Walk, guard: Guard) -> None:
    found = "" if guard.path is None else _object(walk, guard)
    walk.refuse_if(f"not {walk.name(guard.value)}({found})")


# -- guards about several paths: written when all others are ------------------------------------


def emit_same_object(walk: Walk, guard: Guard) -> None:
    other = walk.at(guard.value)
    walk.refuse_if(f"{walk.at(_path(guard))} is not {other}")


_FEW: Final = 4


def emit_distinct(walk: Walk, guard: Guard) -> None:
    names = [walk.at(path) for path in dict.fromkeys(cast("tuple[Path, ...]", guard.value))]
    if len(names) <= _FEW:
        for one, other in combinations(names, 2):
            walk.refuse_if(f"{one} is {other}")
    else:
        identities = ", ".join(f"{walk.name(id)}({name})" for name in names)
        walk.refuse_if(f"{walk.name(len)}({{{identities}}}) != {len(names)}")


def emit_sizes(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"not ({walk.arithmetic(guard.value)})")


def emit_state(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{walk.state} != {walk.name(guard.value)}")
