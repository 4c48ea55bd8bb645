"""Many words of memory compared in one step, without native code of our own.

A buffer may have "suboffsets": its elements are then reached through pointers. A `memoryview` over
an array of addresses with such a buffer, compared with an array of expected values, is a loop in C
that reads the word at each address and stops at the first that differs: some 2 ns a word.

    watch = Watch([address_of_version(dictionary)])
    watch.view == watch.expected        True, until the dictionary is changed

On CPython 3.11 and 3.12 every dictionary has a version, a number that is new with each change and
never used again; on 3.13 and 3.14 changes are counted (`dict_watcher.py`). Other addresses of
words are those of objects that someone keeps alive.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from array import array
from collections.abc import Callable, Container, Mapping, Sequence
from types import FunctionType, MappingProxyType, ModuleType
from typing import Final, cast

from anyshape.guards.fast_path.dict_watcher import new_watcher
from anyshape.guards.values import (
    dictionary_descriptor,
    instance_dictionary,
    item_of,
    length_of,
)

_WORD: Final = 8
#: as `array` and `memoryview` write it; a view keeps a pointer to it
_FORMAT: Final = b"Q"
#: `PyObject.ob_type`, `PyVarObject.ob_size`, `PyListObject.ob_item`, `PyCellObject.ob_ref`,
#: `PyDictObject.ma_version_tag`, `PyDictObject.ma_values`; what is read there is checked before it
#: is relied on
_TYPE, _SIZE, _ITEMS, _CELL, _VERSION, _VALUES = 8, 16, 24, 16, 24, 40
#: `Py_TPFLAGS_MANAGED_DICT`: the pointer to the dictionary lies three words before the object
_MANAGED_DICTIONARY: Final = 1 << 4
#: `PyDictValues.embedded`, a byte of its first word
_EMBEDDED: Final = 0xFF << 16


class Unwatchable(Exception):
    """This object's memory does not look as expected: it has to be checked in the ordinary way."""


class _Buffer(ctypes.Structure):
    """`Py_buffer`"""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    )


def _view_function() -> ctypes._FuncPointer | None:  # pyright: ignore[reportPrivateUsage] its only name
    api = getattr(ctypes, "pythonapi", None)
    function = getattr(api, "PyMemoryView_FromBuffer", None)
    if function is not None:
        function.restype = ctypes.py_object
        function.argtypes = [ctypes.POINTER(_Buffer)]
    return function


_view_of: Final = _view_function()


class Watch:
    """Words of memory and what they were when this was made."""

    __slots__ = ("_addresses", "expected", "view")

    def __init__(self, addresses: Sequence[int]) -> None:
        assert _view_of is not None, "watching is not supported here: ask `SUPPORTED` first"
        addresses = addresses or (id(None) + _TYPE,)  # A view needs at least one word.
        count = len(addresses)
        #: the view reads it for as long as it lives
        self._addresses: Final = array("Q", addresses)
        one = ctypes.c_ssize_t * 1
        shape, strides, suboffsets = one(count), one(_WORD), one(0)
        buffer = _Buffer(
            buf=self._addresses.buffer_info()[0],
            len=count * _WORD,
            itemsize=_WORD,
            readonly=1,
            ndim=1,
            format=_FORMAT,
            shape=shape,
            strides=strides,
            suboffsets=suboffsets,
        )
        self.view: Final[memoryview] = _view_of(ctypes.byref(buffer))
        self.expected: Final = memoryview(array("Q", map(word_at, addresses)))

    def holds(self) -> bool:
        return self.view == self.expected

    def changed(self, among: Container[int]) -> list[int]:
        """The addresses, of these, whose words differ. They are all read: the objects they belong
        to have to be alive."""
        pairs = zip(self._addresses, self.expected, strict=True)
        return [at for at, expected in pairs if at in among and word_at(at) != expected]


def word_at(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


# -- addresses ----------------------------------------------------------------------------------


def address_of_type(thing: object) -> int:
    address = id(thing) + _TYPE
    if word_at(address) != id(type(thing)):
        raise Unwatchable
    return address


def _version_in_dictionary(dictionary: object) -> int:
    return id(dictionary) + _VERSION


def _versions() -> Callable[[object], int] | None:
    """How the address of a dictionary's version is found; None where there are no versions."""
    if sys.implementation.name != "cpython" or sys.maxsize != 2**63 - 1:
        return None
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return _version_in_dictionary
    watcher = new_watcher() if sys.version_info[:2] in ((3, 13), (3, 14)) else None
    return None if watcher is None else watcher.count_of


_version_of: Final = _versions()


def address_of_version(dictionary: object) -> int:
    """Of a dictionary, or of an instance of a subclass: a word that is never again what it was
    before a change. Two dictionaries may have one word in common."""
    assert _version_of is not None, "watching is not supported here: ask `SUPPORTED` first"
    if _ATTRIBUTES_UNSEEN and _shows_an_object(dictionary):
        raise Unwatchable
    return _version_of(dictionary)


def _shows_an_object(dictionary: object) -> bool:
    """Whether the values are those in an object, whose `__dict__` this is (from 3.13 on)."""
    values = word_at(id(dictionary) + _VALUES)
    return values != 0 and word_at(values) & _EMBEDDED != 0


def dictionary_of_instance(thing: object) -> dict[object, object]:
    """The instance dictionary. Where assigning an attribute is not seen if the values are in the
    object itself, they are moved to the dictionary, for good: assigning `__dict__` to itself does
    that, in one step, and nothing else."""
    found = cast("dict[object, object]", instance_dictionary(thing))
    if _ATTRIBUTES_UNSEEN and _shows_an_object(found):
        descriptor = dictionary_descriptor(type(thing))
        assert descriptor is not None, "it has just been read"
        descriptor.__set__(thing, found)
    return found


def dictionary_of_class(owner: object) -> dict[object, object]:
    """The dictionary behind the read-only view that a class gives: one for its life."""
    found = gc.get_referents(instance_dictionary(owner))
    if len(found) != 1 or type(found[0]) is not dict:
        raise Unwatchable
    return cast("dict[object, object]", found[0])


def address_of_dictionary(thing: object, dictionary: object) -> int:
    """Where the object keeps the pointer to its instance dictionary."""
    kind = type(thing)
    offset = -3 * _WORD if kind.__flags__ & _MANAGED_DICTIONARY else kind.__dictoffset__
    if offset == 0 or (offset < 0 and not kind.__flags__ & _MANAGED_DICTIONARY):
        raise Unwatchable
    address = id(thing) + offset
    if word_at(address) != id(dictionary):
        raise Unwatchable
    return address


def addresses_of_item(items: object, index: int) -> tuple[int, ...]:
    """Of a list: its length and the place of its items before the item itself. Where these have
    changed, the item is not read any more."""
    length = length_of(items)
    position = index if index >= 0 else index + length
    address = word_at(id(items) + _ITEMS) + position * _WORD
    if not 0 <= position < length or word_at(address) != id(item_of(items, position)):
        raise Unwatchable
    return address_of_length(items), id(items) + _ITEMS, address


def address_of_length(items: object) -> int:
    """Of a list."""
    address = id(items) + _SIZE
    if word_at(address) != length_of(items):
        raise Unwatchable
    return address


def address_of_cell_contents(cell: object, contents: object) -> int:
    address = id(cell) + _CELL
    if word_at(address) != id(contents):
        raise Unwatchable
    return address


def address_of_field(thing: object, name: str, value: object) -> int:
    """Where a function or a class keeps the pointer to what `FIELDS` names."""
    offset = FIELDS.get((field_owner(thing), name))
    if offset is None:
        raise Unwatchable
    address = id(thing) + offset
    if word_at(address) != _pointer_to(value):
        raise Unwatchable
    return address


def field_owner(thing: object) -> type:
    """The built-in type whose fields the object has: a metaclass adds its own behind them."""
    return type if issubclass(type(thing), type) else type(thing)


def _pointer_to(value: object) -> int:
    return 0 if value is None else id(value)


# -- whether all this works here ----------------------------------------------------------------


class _Sample:
    a: object


class _Other:
    pass


def _sample_functions() -> tuple[FunctionType, FunctionType]:
    def one(x: object = _Sample, *, y: object = 1) -> object:
        return x, y

    def other(x: object = _Other, *, y: object = 2) -> object:
        return y, x

    assert type(one) is type(other) is FunctionType
    return one, other


def _field_of_functions(name: str) -> int | None:
    """Where functions have it: a word that changes with it, and with nothing else."""
    one, other = _sample_functions()
    offset = _only_place((one, other), name)
    if offset is None:
        return None
    values = [getattr(other, name), getattr(one, name)]
    if name != "__code__":
        values.append(None)
    for value in values:
        setattr(one, name, value)
        if getattr(one, name) is not value or word_at(id(one) + offset) != _pointer_to(value):
            return None
    return offset


def _order_of_classes() -> int | None:
    class Base:
        pass

    class Derived(Base):
        pass

    offset = _only_place((Base, Derived, _Sample, int, type), "__mro__")
    if offset is None:
        return None
    before = Derived.__mro__
    Derived.__bases__ = (_Other,)
    after = Derived.__mro__
    return offset if after is not before and word_at(id(Derived) + offset) == id(after) else None


def _only_place(things: Sequence[object], name: str) -> int | None:
    size = field_owner(things[0]).__basicsize__
    places = [
        at
        for at in range(_SIZE, size, _WORD)
        if all(word_at(id(thing) + at) == id(getattr(thing, name)) for thing in things)
    ]
    return places[0] if len(places) == 1 else None


def _attributes_are_unseen() -> bool:
    """Whether changes of an object with its values in itself are not changes of its `__dict__`: a
    bug of CPython 3.13.0 alone (gh-125608)."""
    if _version_of is None or sys.version_info[:2] != (3, 13):
        return False
    sample = _Sample()
    sample.a = 1
    watch = Watch([_version_of(sample.__dict__)])
    sample.a = 2
    return watch.holds()


_ATTRIBUTES_UNSEEN: Final = _attributes_are_unseen()


def _is_seen(names: object, change: Callable[[], object]) -> bool:
    watch = Watch([address_of_version(names)])
    change()
    return not watch.holds()


def _versions_change() -> bool:
    """Every way to change a dictionary gives it a new version, and reading it does not."""
    sample = _Sample()
    sample.a = 1
    names = dictionary_of_instance(sample)
    if not Watch([address_of_dictionary(sample, names)]).holds():
        return False

    def attribute() -> None:
        sample.a = len(names) + 1000

    def replaced() -> None:
        sample.a = [1]

    changes = [
        # Often enough for the interpreter to specialise: it stores in quicker ways then.
        *[attribute, replaced] * 20,
        lambda: names.update(b=[2]),
        lambda: names.update(b=[2]),
        lambda: names.__setitem__("c", 3.5),
        lambda: names.setdefault("d", 4),
        lambda: names.pop("b"),
        lambda: names.__delitem__("c"),
        lambda: delattr(sample, "d"),
        lambda: names.__ior__({"e": 5}),
        lambda: names.popitem(),
        lambda: names.clear(),
        *[attribute, replaced] * 20,
        lambda: delattr(sample, "a"),
        lambda: names.update({"f": 6}),
        lambda: names.__init__({"f": 7}),
    ]
    reads = [lambda: names.get("a"), lambda: len(names), lambda: [*names], lambda: "z" in names]
    return all(_is_seen(names, change) for change in changes) and not any(
        _is_seen(names, read) for read in reads
    )


def _versions_of_classes_change() -> bool:
    class Sample:
        a: object = 1

    names = dictionary_of_class(Sample)
    changes = [
        *[lambda: setattr(Sample, "a", [2])] * 4,
        lambda: setattr(Sample, "b", len),
        lambda: setattr(Sample, "__call__", len),
        lambda: delattr(Sample, "a"),
    ]
    return (
        all(_is_seen(names, change) for change in changes)
        and not _is_seen(names, lambda: getattr(Sample, "b"))  # noqa: B009
        and dictionary_of_class(Sample) is names
    )


def _versions_of_modules_change() -> bool:
    module = ModuleType("sample")
    names = module.__dict__
    exec(
        "def store(value):\n    global a\n    a = value\n\ndef drop():\n    global a\n    del a",
        names,
    )
    store, drop = cast("Callable[[object], None]", names["store"]), names["drop"]
    changes = [
        *[lambda: store([1])] * 20,
        *[lambda: setattr(module, "a", [2])] * 20,
        drop,
        lambda: setattr(module, "a", 1),
        lambda: delattr(module, "a"),
    ]
    return all(_is_seen(names, change) for change in changes)


def _supported() -> bool:
    if _version_of is None or _view_of is None:
        return False
    try:
        return (
            _versions_change() and _versions_of_classes_change() and _versions_of_modules_change()
        )
    except Unwatchable:
        return False


#: Not on interpreters that nobody has tried, nor on those without a lock.
SUPPORTED: Final = _supported()


def _fields() -> Mapping[tuple[type, str], int]:
    if not SUPPORTED:
        return {}
    found: dict[tuple[type, str], int | None] = {(type, "__mro__"): _order_of_classes()}
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        found[FunctionType, name] = _field_of_functions(name)
    return {field: offset for field, offset in found.items() if offset is not None}


#: Attributes that are a pointer in the object itself: how many bytes into it, as found out above.
FIELDS: Final = MappingProxyType(_fields())
