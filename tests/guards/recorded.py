"""A small recorder: the guards that pin down a value completely, as capture would record them."""

from __future__ import annotations

from collections.abc import Iterator

from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Path
from anyshape.guards.values import PRIMITIVES
from tests.guards.cases import Other, Plain
from tests.guards.verdicts import guard


def recorded(path: Path, value: object) -> Iterator[Guard]:
    """Guards that hold for exactly the values that look the same all the way down."""
    kind = type(value)
    if kind in PRIMITIVES:
        yield guard(Kind.EQUALS, path, value)
        return
    yield guard(Kind.TYPE, path, kind)
    if isinstance(value, list | tuple):
        yield guard(Kind.LENGTH, path, len(value))
        for index, item in enumerate(value):
            yield from recorded(path.item(index), item)
    elif isinstance(value, dict):
        yield guard(Kind.KEYS, path, tuple(value))
        for key, item in value.items():
            yield from recorded(path.item(key), item)
    elif isinstance(value, set):
        yield guard(Kind.MEMBERS, path, frozenset(value))
    else:
        assert isinstance(value, Plain)
        names = vars(value)
        for name in "abc":
            if name in names:
                yield from recorded(path.instance(name), names[name])
            else:
                yield guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)


def same(one: object, other: object) -> bool:
    """What the recorded guards should amount to, said without guards."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        assert isinstance(other, list | tuple)
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        assert isinstance(other, dict)
        return same([*one.items()], [*other.items()])
    if isinstance(one, set):
        assert isinstance(other, set)
        return {(type(m), repr(m)) for m in one} == {(type(m), repr(m)) for m in other}
    if isinstance(one, Plain | Other):
        mine, others = vars(one), vars(other)
        return mine.keys() == others.keys() and all(same(mine[k], others[k]) for k in mine)
    return repr(one) == repr(other)
