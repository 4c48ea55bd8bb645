"""Changes of dictionaries, counted: every way to change one is seen, whoever does it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from anyshape.guards.fast_path import dict_watcher, memory_watch, watching
from anyshape.guards.fast_path.dict_watcher import new_watcher
from anyshape.guards.fast_path.memory_watch import (
    SUPPORTED,
    Unwatchable,
    Watch,
    dictionary_of_class,
)
from tests.guards.verdicts import X

FREE_THREADED = "t" in sys.abiflags
MACHINE = os.uname().machine
HERE = sys.platform == "linux" and MACHINE in dict_watcher.CODE and not FREE_THREADED
WATCHES = HERE and sys.version_info >= (3, 12)

needs_watcher = pytest.mark.skipif(not WATCHES, reason="no dictionary watchers here")
needs_versions = pytest.mark.skipif(not SUPPORTED, reason="dictionaries cannot be watched here")


def test_where_there_is_fast_checking():
    """On the interpreters it was made for it works: a silent full check would be slow."""
    known = (3, 11) <= sys.version_info[:2] <= (3, 14)
    assert SUPPORTED or not (HERE and known and sys.implementation.name == "cpython")


# -- the function -------------------------------------------------------------------------------


@pytest.mark.skipif(not HERE, reason="code for other machines")
@pytest.mark.parametrize("bits", [1, 7, 17])
def test_the_code_counts_where_python_looks(bits: int):
    """For any address, and nothing else changes; it answers 0: no exception."""
    table = (ctypes.c_uint64 * (1 << bits))()
    code = dict_watcher.CODE[MACHINE](ctypes.addressof(table), dict_watcher._FACTOR, 64 - bits)
    address = dict_watcher._executable(code)
    assert address is not None
    words = [ctypes.c_void_p] * 3
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *words)(address)
    expected = [0] * len(table)
    dictionaries = [id(object()) ^ n * 0x7F3_0010 for n in range(400)]
    for event, dictionary in enumerate([*dictionaries, 0, 16, 2**64 - 16]):
        assert function(event % 6, dictionary, event, event + 1) == 0
        expected[dict_watcher.place_of(dictionary, 64 - bits)] += 1
    assert [*table] == expected


def test_the_code_of_each_machine_holds_its_numbers():
    for code in dict_watcher.CODE.values():
        made = code(0x1122334455667788, 0x99AABBCCDDEEFF01, 47)
        for number in (0x1122334455667788, 0x99AABBCCDDEEFF01):
            assert made.count(number.to_bytes(8, "little")) == 1


def test_neighbours_have_places_of_their_own():
    """Dictionaries lie side by side; a thousand of them share hardly a word."""
    for apart in (16, 48, 64, 4096):
        places = {dict_watcher.place_of(0xFFFF_8000_0000 + n * apart, 64 - 17) for n in range(1000)}
        assert len(places) >= 990


# -- where there is none ------------------------------------------------------------------------


def test_other_systems(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    assert new_watcher() is None
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert new_watcher() is None
    monkeypatch.undo()
    monkeypatch.setattr(sys, "abiflags", "t")
    assert new_watcher() is None


@pytest.mark.parametrize("name", ["_pages", "_executable"])
def test_no_memory(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dict_watcher, name, lambda argument: None)
    assert new_watcher() is None


_ALL_TAKEN = """
from anyshape.guards.fast_path import dict_watcher as watcher
made = []
while (one := watcher.new_watcher()) is not None:
    made.append(one)
print(len(made))
from anyshape.guards.fast_path import memory_watch as memory
print(memory.SUPPORTED)
"""


@needs_watcher
def test_all_watchers_are_taken():
    """An interpreter has room for a handful: then there is the full check."""
    done = subprocess.run(
        [sys.executable, "-c", _ALL_TAKEN], capture_output=True, text=True, check=True
    )
    count, supported = done.stdout.split()
    assert 4 <= int(count) <= 8
    assert supported == str(sys.version_info < (3, 13))


_AT_THE_END = """
from anyshape.guards.fast_path import dict_watcher as watcher
one = watcher.new_watcher()
import sys, types
class Thing: pass
for names in (globals(), sys.__dict__, sys.modules, Thing().__dict__, types.__dict__):
    one.count_of(names)
class Late:
    def __del__(self):
        names["late"] = 1
        sys.other = 2
late = Late()
"""


@needs_watcher
def test_dictionaries_change_until_the_end():
    """After modules are gone, the function that counts is still there."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_END], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


# -- every way to change a dictionary -----------------------------------------------------------


class Plain:
    pass


class Sub(dict[Any, Any]):
    pass


api: Any = ctypes.PyDLL(None)


def _api(name: str, *arguments: Any) -> Callable[[Any], object]:
    """A change by a function of C, as extensions make them."""
    function = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.py_object, *(ctypes.py_object for _ in arguments)
    )((name, api))
    return lambda names: function(names, *arguments)


def _merge(names: Any) -> object:
    kinds = (ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int)
    return ctypes.PYFUNCTYPE(*kinds)(("PyDict_Merge", api))(names, {"a": 9, "n": 8}, 1)


def _clear(names: Any) -> object:
    return ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyDict_Clear", api))(names)


def _fill_from_another(names: Any) -> None:
    names.clear()
    kept = {f"k{n}": n for n in range(50)}
    names.update(kept)


#: Of a dictionary that has "a" and "b" at least.
CHANGES: dict[str, Callable[[Any], object]] = {
    "item": lambda d: d.__setitem__("a", 9),
    "new item": lambda d: d.__setitem__("new", 9),
    "new key that is no text": lambda d: d.__setitem__(3, 9),
    "del": lambda d: d.__delitem__("a"),
    "pop": lambda d: d.pop("b"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "update": lambda d: d.update(a=9),
    "update from pairs": lambda d: d.update([("a", 9)]),
    "setdefault": lambda d: d.setdefault("z", 9),
    "or": lambda d: d.__ior__({"a": 9}),
    "init": lambda d: d.__init__(a=9),
    "cleared and cloned": _fill_from_another,
    "PyDict_SetItem": _api("PyDict_SetItem", "a", "by C"),
    "PyDict_DelItem": _api("PyDict_DelItem", "a"),
    "PyDict_Update": _api("PyDict_Update", {"a": "by C"}),
    "PyDict_Merge": _merge,
    "PyDict_Clear": _clear,
}


def _of_instance() -> Any:
    thing: Any = Plain()
    thing.a, thing.b = 1, 2
    KEPT.append(thing)
    return memory_watch.dictionary_of_instance(thing)


def _of_instance_without_values() -> Any:
    names = _of_instance()
    names[0] = 1
    del names[0]
    return names


def _of_class() -> Any:
    return dictionary_of_class(type("Made", (), {"a": 1, "b": 2}))


def _of_module() -> Any:
    module: Any = ModuleType("made")
    module.a, module.b = 1, 2
    return module.__dict__


KEPT: list[object] = []
DICTIONARIES: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"a": 1, "b": 2},
    "with other keys": lambda: {1: 0, "a": 1, "b": 2},
    "large": lambda: {"a": 1, "b": 2, **{f"k{n}": n for n in range(500)}},
    "OrderedDict": lambda: OrderedDict(a=1, b=2),
    "defaultdict": lambda: defaultdict(list, a=1, b=2),
    "Counter": lambda: Counter(a=1, b=2),
    "a subclass": lambda: Sub(a=1, b=2),
    "of an instance": _of_instance,
    "of an instance, general": _of_instance_without_values,
    "of a class": _of_class,
    "of a module": _of_module,
}


@needs_versions
@pytest.mark.parametrize("kind", DICTIONARIES)
def test_every_change_is_seen(kind: str):
    for name, change in CHANGES.items():
        made = DICTIONARIES[kind]()
        watch = Watch([memory_watch.address_of_version(made)])
        assert (made.get("a"), made["b"], "z" in made, bool(made)) == (1, 2, False, True)
        assert [*made], len(made)
        copies = (dict(made), made.copy(), made == made.copy())
        assert watch.holds(), name
        change(made)
        assert not watch.holds(), (name, copies)
        KEPT.clear()


@needs_versions
def test_what_an_object_does_to_its_dictionary():
    """Stored, deleted and made anew by attribute, often enough for the interpreter's quick paths,
    and with more attributes than an object has room for."""
    thing: Any = Plain()
    thing.a = 0
    names = memory_watch.dictionary_of_instance(thing)

    def changes() -> Any:
        for n in range(60):
            yield lambda n=n: setattr(thing, "a", [n])
            yield lambda n=n: setattr(thing, f"b{n}", n)
            yield lambda: delattr(thing, "a")
            yield lambda n=n: object.__setattr__(thing, "a", n)
            yield lambda n=n: names.__setitem__("a", [n])

    def store(value: object) -> None:
        thing.a = value

    for change in changes():
        watch = Watch([memory_watch.address_of_version(names)])
        change()
        assert not watch.holds()
        assert thing.__dict__ is names
        watch = Watch([memory_watch.address_of_version(names)])
        store([1])
        assert not watch.holds()
        assert names["a"] == [1]


@needs_versions
def test_a_dictionary_that_is_somebody_s():
    """It shows the attributes of an object, but was not reached through it."""
    thing: Any = Plain()
    thing.a = 1
    names = thing.__dict__
    try:
        watch = Watch([memory_watch.address_of_version(names)])
    except Unwatchable:
        assert sys.version_info[:3] == (3, 13, 0), "only there nothing tells of such changes"
        watch = Watch([memory_watch.address_of_version(memory_watch.dictionary_of_instance(thing))])
    assert watch.holds()
    thing.a = 2
    assert not watch.holds()


@needs_versions
@pytest.mark.parametrize("slots", [False, True])
def test_an_object_keeps_its_state_when_watched(slots: bool):
    class Base:
        __slots__ = ("s",) if slots else ()

    class Thing(Base):
        def __init__(self) -> None:
            for n in range(5):
                setattr(self, f"a{n}", [n])

    thing: Any = Thing()
    before = dict(thing.__dict__)
    names = memory_watch.dictionary_of_instance(thing)
    assert thing.__dict__ is names
    assert names == before
    assert [*names] == [*before]
    thing.a1 = 7
    del thing.a0
    assert names == {"a1": 7, **{f"a{n}": [n] for n in range(2, 5)}} == vars(thing)
    del thing
    assert names["a1"] == 7


# -- shared words, threads ----------------------------------------------------------------------


@needs_watcher
def test_many_dictionaries_with_two_words():
    """A change of one looks like a change of others, and a count is never what it was."""
    crowded: Any = new_watcher(bits=1)
    if crowded is None:
        pytest.skip("all watchers are taken")
    names: list[dict[str, int]] = [{} for _ in range(50)]
    addresses = [crowded.count_of(each) for each in names]
    assert len({*addresses}) == 2
    for each, address in zip(names, addresses, strict=True):
        watch = Watch([address])
        assert watch.holds()
        each["a"] = 1
        assert not watch.holds()


@needs_versions
def test_dictionaries_that_share_a_word_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    """If a stamp has to look at entries of one, it looks at those of the other as well."""
    quiet, restless, keys = {"a": 1}, {"b": 2}, {"c": 3}
    shared, own = 64, 128
    monkeypatch.setattr(watching, "address_of_version", lambda d: own if d is keys else shared)
    walk: Any = watching.Watching(X, None, None)
    walk.note_entry(quiet, "a")
    walk.note_entry(restless, "b")
    walk.note_entry(restless, "z")
    walk.note_all(keys)
    assert walk.addresses == {shared: None, own: None}
    entries = walk.without_versions({shared, own})
    assert walk.addresses == {own: None}
    assert [*map(id, entries.dictionaries)] == [id(quiet), id(restless), id(restless)]
    assert entries.keys == ["a", "b", "z"]
    assert watching.entries_hold(entries)
    quiet["a"] = 5
    assert not watching.entries_hold(entries)


@needs_versions
def test_a_word_is_kept_for_a_dictionary_that_was_read_in_full(monkeypatch: pytest.MonkeyPatch):
    one: dict[str, int] = {"a": 1}
    other: dict[str, int] = {"b": 2}
    monkeypatch.setattr(watching, "address_of_version", lambda d: 64)
    walk: Any = watching.Watching(X, None, None)
    walk.note_all(other)
    walk.note_entry(one, "a")
    assert walk.without_versions({64}) is None
    assert walk.addresses == {64: None}


@needs_versions
def test_changes_by_other_threads():
    names: dict[str, object] = {"a": 0}
    watch = Watch([memory_watch.address_of_version(names)])
    thread = threading.Thread(target=names.__setitem__, args=("a", 1))
    thread.start()
    thread.join()
    assert not watch.holds()
