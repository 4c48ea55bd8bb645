"""Values compared and containers read as guards mean it: by type as well as value, and without ever
running a method of a user's class.

    strictly_equal(1, True)             False: the types differ
    strictly_equal(nan, nan)            True: the program would do the same
    item_of(defaultdict(list), "a")     KeyError: `__missing__` is user code
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import copysign
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Final, cast

# Taken off `type`, since a metaclass may answer `cls.__mro__` and `cls.__dict__` as it likes.
_bases_of: Final = cast("Callable[[type], tuple[type, ...]]", type.__dict__["__mro__"].__get__)
_names_in: Final = cast(
    "Callable[[type], MappingProxyType[str, object]]", type.__dict__["__dict__"].__get__
)


def _method(base: type, name: str) -> Callable[..., object]:
    return cast("Callable[..., object]", getattr(base, name))


_tuple_items: Final = cast("Callable[[object], Iterable[object]]", _method(tuple, "__iter__"))

#: What a guard takes for a value: comparing two of one such type runs no user code.
PRIMITIVES: Final = frozenset(
    (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))
)


def strictly_equal(one: object, other: object) -> bool:
    """Whether both have the same type and value; NaN equals NaN, and -0.0 is not 0.0.

    An `==` of a class that is not known here is asked only if both are of that class.
    """
    kind = type(one)
    if kind is not type(other):
        return False
    if one is other:
        return True
    compare = _COMPARISONS.get(kind)
    if compare is not None:
        return compare(one, other)
    if issubclass(kind, tuple):  # a named tuple, a size: as tuples, whatever `==` they define
        return _same_tuples(one, other)
    return bool(one == other)


def _same_floats(one: object, other: object) -> bool:
    a, b = cast("float", one), cast("float", other)
    if a == b:
        return a != 0 or copysign(1.0, a) == copysign(1.0, b)
    return a != a and b != b


def _same_complex(one: object, other: object) -> bool:
    a, b = cast("complex", one), cast("complex", other)
    return _same_floats(a.real, b.real) and _same_floats(a.imag, b.imag)


def _same_tuples(one: object, other: object) -> bool:
    left, right = tuple(_tuple_items(one)), tuple(_tuple_items(other))
    return len(left) == len(right) and all(map(strictly_equal, left, right))


def _same_frozensets(one: object, other: object) -> bool:
    return members_match(one, cast("frozenset[object]", other))


def _same_slices(one: object, other: object) -> bool:
    a, b = cast("slice[object]", one), cast("slice[object]", other)
    return (
        strictly_equal(a.start, b.start)
        and strictly_equal(a.stop, b.stop)
        and strictly_equal(a.step, b.step)
    )


def _same_ranges(one: object, other: object) -> bool:
    # `==` of ranges compares what they count, and their ends can be read as well.
    a, b = cast("range", one), cast("range", other)
    return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)


_COMPARISONS: Final[dict[type, Callable[[object, object], bool]]] = {
    float: _same_floats,
    complex: _same_complex,
    tuple: _same_tuples,
    frozenset: _same_frozensets,
    slice: _same_slices,
    range: _same_ranges,
}


def strict_key(value: object) -> object:
    """A dictionary key for a primitive or an immutable container of such; two are equal exactly if
    the values are strictly equal. Anything else is known by its identity."""
    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)  # repr tells -0.0 from 0.0 and knows one NaN
    if kind in PRIMITIVES:
        return kind, value
    if kind is tuple:
        return kind, *map(strict_key, cast("tuple[object, ...]", value))
    if kind is frozenset:
        return kind, frozenset(map(strict_key, cast("frozenset[object]", value)))
    return object, id(value)


def is_dense(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Whether elements lie without gaps, the dimensions in this order from the outermost;
    dimensions of size 1 fit anywhere, and a tensor without elements always fits."""
    if 0 in sizes:
        return True
    inside = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != inside:
            return False
        inside *= sizes[dim]
    return True


def keys_match(mapping: object, expected: tuple[object, ...]) -> bool:
    """Whether the keys of a dictionary are these, in order."""
    keys = keys_of(mapping)
    return len(keys) == len(expected) and all(map(strictly_equal, keys, expected))


def members_match(members: object, expected: frozenset[object]) -> bool:
    """Whether a set has exactly these members. A member that is no primitive or tuple of such is
    matched by identity: asking it would run its `__eq__`."""
    found = _set_of(members)
    return len(found) == len(expected) and set(map(strict_key, found)) == set(
        map(strict_key, expected)
    )


_MEMBERS: Final = {base: _method(base, "__iter__") for base in (set, frozenset)}


def _set_of(members: object) -> tuple[object, ...]:
    for base in _bases_of(type(members)):
        if base in _MEMBERS:
            return tuple(cast("Iterable[object]", _MEMBERS[base](members)))
    raise TypeError(f"not a set: {type(members).__name__}")


_MISSING: Final = object()
_get: Final = _method(dict, "get")


def _item_of_dict(mapping: object, key: object) -> object:
    # `dict.__getitem__` calls `__missing__` of a subclass; `dict.get` does not.
    found = _get(mapping, key, _MISSING)
    if found is _MISSING:
        raise KeyError(key)
    return found


_ITEMS: Final[dict[type, Callable[[object, object], object]]] = {
    list: _method(list, "__getitem__"),
    tuple: _method(tuple, "__getitem__"),
    dict: _item_of_dict,
}
#: Of these very types: a plain dictionary has no `__missing__`.
_EXACT_ITEMS: Final = {**_ITEMS, dict: _method(dict, "__getitem__")}
_SOME: Final[dict[object, object]] = {}
_VIEWS: Final = cast("tuple[object, ...]", (_SOME.keys(), _SOME.values(), _SOME.items()))
#: Types whose length is their own affair: `len` of them runs C code alone.
SIZED: Final = {
    base: cast("Callable[[object], int]", _method(base, "__len__"))
    for base in cast(
        "tuple[type, ...]",
        (
            *(list, tuple, dict, set, frozenset, str, bytes, bytearray, range, deque),
            *(MappingProxyType, *map(type, _VIEWS)),
        ),
    )
}
#: An ordered dictionary has an order besides that of the dictionary it is.
_KEYS: Final = {base: _method(base, "__iter__") for base in (OrderedDict, dict)}
_HAS_KEY: Final = {base: _method(base, "__contains__") for base in (dict, set, frozenset)}


def item_reader(kind: type) -> Callable[[object, object], object] | None:
    """How an item of a list, tuple or dictionary, or of a subclass of one, is read."""
    return next((_ITEMS[base] for base in _bases_of(kind) if base in _ITEMS), None)


def item_of(container: object, key: object) -> object:
    kind = type(container)
    reader = _EXACT_ITEMS.get(kind) or item_reader(kind)
    if reader is None:
        raise TypeError(f"no list, tuple or dictionary: {type(container).__name__}")
    return reader(container, key)


def length_of(container: object) -> int:
    for base in _bases_of(type(container)):
        if base in SIZED:
            return SIZED[base](container)
    raise TypeError(f"no container with a length of its own: {type(container).__name__}")


def keys_of(mapping: object) -> tuple[object, ...]:
    for base in _bases_of(type(mapping)):
        if base in _KEYS:
            return tuple(cast("Iterable[object]", _KEYS[base](mapping)))
    raise TypeError(f"not a dictionary: {type(mapping).__name__}")


def contains(container: object, key: object) -> bool:
    """Of a dictionary or a set, whatever class of its own it has."""
    for base in _bases_of(type(container)):
        if base in _HAS_KEY:
            return _HAS_KEY[base](container, key) is True
    raise TypeError(f"no dictionary, and no set: {type(container).__name__}")


def class_attribute(kind: type, name: object) -> object:
    """What a class or the first of its bases that has the name holds; None if none has it."""
    names = (_names_in(base) for base in _bases_of(kind))
    return next((held[name] for held in names if name in held), None)  # pyright: ignore[reportArgumentType] any key may be asked for


def dictionary_descriptor(kind: type) -> GetSetDescriptorType | MemberDescriptorType | None:
    """What gives objects of this type their instance dictionary, past any property of that name;
    None if there is none."""
    for base in _bases_of(kind):
        found = _names_in(base).get("__dict__")
        if type(found) is GetSetDescriptorType or type(found) is MemberDescriptorType:
            return found
    return None


def dictionary_reader(kind: type) -> Callable[[object], object] | None:
    """How the instance dictionary of an object of this type is read; None if there is none."""
    found = dictionary_descriptor(kind)
    return None if found is None else cast("Callable[[object], object]", found.__get__)


def reads_plainly(kind: type) -> bool:
    """Whether `instance.__dict__` is the instance dictionary: no class says otherwise."""
    for base in _bases_of(kind):
        names = _names_in(base)
        if "__dict__" in names:
            plain = isinstance(names["__dict__"], GetSetDescriptorType | MemberDescriptorType)
            return plain and not _overrides_reading(kind)
    return False


def _overrides_reading(kind: type) -> bool:
    for base in _bases_of(kind):
        if "__getattribute__" in _names_in(base):
            return base not in _READS_AS_USUAL
    return True


#: Their own `__getattribute__` gives `__dict__` as `object` does, or as `type` does for a class.
_READS_AS_USUAL: Final = frozenset((object, type, ModuleType, BaseException))


def instance_dictionary(thing: object) -> Mapping[str, object]:
    """The instance dictionary, a plain one; the read-only view of it for a class.

    A subclass of `dict` put in its place is refused: its methods are user code, and attributes are
    read past them.
    """
    found = _dictionary_of(thing)
    if found is None:
        raise AttributeError(f"{type(thing).__name__} objects have no __dict__")
    return found


def _dictionary_of(thing: object) -> Mapping[str, object] | None:
    descriptor = dictionary_descriptor(type(thing))
    if descriptor is None:
        return None
    found: object = descriptor.__get__(thing)
    if type(found) is dict or type(found) is MappingProxyType:
        return found  # pyright: ignore[reportUnknownVariableType] names and what they hold
    raise TypeError(f"the __dict__ of a {type(thing).__name__} is a {type(found).__name__}")


def lacks_instance_attribute(thing: object, name: str) -> bool:
    """Whether the instance dictionary has no such key; an object without one lacks everything."""
    held = _dictionary_of(thing)
    return held is None or name not in held
