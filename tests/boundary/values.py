"""Types whose values native code reads: two values of each, which a program must tell apart.

A row is a name, a function that makes the first value and one that makes the second. Values that
reading uses up (iterators) are marked: each call gets a fresh one. `turn` changes a first value in
place into one like the second.
"""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import io
import ipaddress
import itertools
import operator
import pathlib
import queue
import random
import re
import string
import struct
import threading
import time
import types
import typing
import uuid
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Row:
    """A type by two values of it."""

    name: str
    first: Callable[[], Any]
    second: Callable[[], Any]
    #: reading uses it up
    once: bool = False
    turn: Callable[[Any], Any] | None = None


def row(
    name: str,
    first: Callable[[], Any],
    second: Callable[[], Any],
    turn: Callable[[Any], Any] | None = None,
) -> Row:
    return Row(name, first, second, turn=turn)


def once(name: str, first: Callable[[], Any], second: Callable[[], Any]) -> Row:
    return Row(name, first, second, once=True)


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Word(enum.StrEnum):
    ONE = "1"
    TWO = "2"


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyComplex(complex):
    pass


class MyStr(str):
    pass


class MyBytes(bytes):
    pass


class MyList(list[Any]):
    pass


class MyTuple(tuple[Any, ...]):
    pass


class MyDict(dict[Any, Any]):
    pass


class MySet(set[Any]):
    pass


class MyFrozenset(frozenset[Any]):
    pass


class MyDeque(collections.deque[Any]):
    pass


class MyDecimal(decimal.Decimal):
    pass


class MyDate(datetime.date):
    pass


class MyArray(np.ndarray[Any, Any]):
    pass


class Plain:
    """An object of Python code alone, which native code can only ask for its identity."""

    def __init__(self, n: int) -> None:
        self.n = n

    def method(self, *args: Any) -> int:
        return self.n


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


class Numeric:
    """An object whose number slots are Python code."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __int__(self) -> int:
        return self.n

    def __index__(self) -> int:
        return self.n

    def __float__(self) -> float:
        return float(self.n)

    def __complex__(self) -> complex:
        return complex(self.n)

    def __bool__(self) -> bool:
        return self.n > 1

    def __round__(self, digits: int = 0) -> int:
        return self.n

    def __abs__(self) -> int:
        return self.n

    def __neg__(self) -> int:
        return -self.n

    def __hash__(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        return self.n == getattr(other, "n", other)

    def __lt__(self, other: object) -> bool:
        return self.n < getattr(other, "n", 1)

    def __add__(self, other: object) -> int:
        return self.n

    def __radd__(self, other: object) -> int:
        return self.n

    def __str__(self) -> str:
        return f"<{self.n}>"

    def __format__(self, spec: str) -> str:
        return f"<{self.n}>"

    def __reduce__(self) -> Any:
        return Numeric, (self.n,)


class Sequence:
    """An object whose sequence slots are Python code."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __contains__(self, item: Any) -> bool:
        return item in self.items

    def __call__(self, *args: Any) -> Any:
        return len(self.items)


class IntStructure(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int),)


class Pair(typing.NamedTuple):
    a: Any
    b: Any


Point = collections.namedtuple("Point", "a b")
Missing = types.SimpleNamespace
KEPT: list[Any] = []


def kept(value: Any) -> Any:
    """What a weak reference refers to has to live."""
    KEPT.append(value)
    return value


def generator(*items: Any) -> Any:
    yield from items


def put(made: Any, *items: Any) -> Any:
    for item in items:
        made.put(item)
    return made


def cell(value: Any) -> Any:
    return types.CellType(value)


def closure(n: int) -> Any:
    return lambda *args: n


@functools.cache
def cached_one(*args: Any) -> int:
    return 1


@functools.cache
def cached_two(*args: Any) -> int:
    return 2


def traceback_of(n: int) -> Any:
    try:
        _ = [][n]
    except IndexError as error:
        return error.__traceback__


def _store(key: Any, value: Any) -> Callable[[Any], Any]:
    return lambda container: container.__setitem__(key, value)


NUMBERS = [
    row("int", lambda: 2, lambda: 3),
    row("int of many digits", lambda: 10**30, lambda: 10**30 + 1),
    row("int 0 and 1", lambda: 0, lambda: 1),
    row("bool", lambda: True, lambda: False),
    row("int and bool", lambda: 1, lambda: True),
    row("float", lambda: 1.5, lambda: 2.5),
    row("float 0", lambda: 0.0, lambda: -0.0),
    row("float nan", lambda: float("nan"), lambda: 1.0),
    row("complex", lambda: 1 + 2j, lambda: 1 - 2j),
    row("Decimal", lambda: decimal.Decimal("1"), lambda: decimal.Decimal("2")),
    row("Decimal digits", lambda: decimal.Decimal("1.0"), lambda: decimal.Decimal("1.00")),
    row("Fraction", lambda: fractions.Fraction(1, 2), lambda: fractions.Fraction(2, 1)),
    row("MyInt", lambda: MyInt(1), lambda: MyInt(2)),
    row("MyFloat", lambda: MyFloat(1.5), lambda: MyFloat(2.5)),
    row("MyComplex", lambda: MyComplex(1), lambda: MyComplex(2)),
    row("MyDecimal", lambda: MyDecimal(1), lambda: MyDecimal(2)),
    row("IntEnum", lambda: Level.LOW, lambda: Level.HIGH),
    row("Enum", lambda: Color.RED, lambda: Color.GREEN),
    row("Flag", lambda: Permission.READ, lambda: Permission.WRITE),
    row("IntFlag", lambda: Bits.ONE, lambda: Bits.TWO),
    row("StrEnum", lambda: Word.ONE, lambda: Word.TWO),
    row("Numeric", lambda: Numeric(1), lambda: Numeric(2), lambda v: setattr(v, "n", 2)),
    row(
        "c_int",
        lambda: ctypes.c_int(1),
        lambda: ctypes.c_int(2),
        lambda v: setattr(v, "value", 2),
    ),
    row("None", lambda: None, lambda: 0),
    row("Ellipsis", lambda: ..., lambda: NotImplemented),
]

TEXTS = [
    row("str", lambda: "1", lambda: "2"),
    row("str of words", lambda: "abc", lambda: "b"),
    row("bytes", lambda: b"1", lambda: b"2"),
    row("bytearray", lambda: bytearray(b"1"), lambda: bytearray(b"23"), _store(0, 50)),
    row("MyStr", lambda: MyStr("1"), lambda: MyStr("2")),
    row("MyBytes", lambda: MyBytes(b"1"), lambda: MyBytes(b"2")),
    row("memoryview", lambda: memoryview(b"12"), lambda: memoryview(b"34")),
    row(
        "memoryview that changes",
        lambda: memoryview(bytearray(b"12")),
        lambda: memoryview(bytearray(b"34")),
        _store(0, 51),
    ),
    row("UserString", lambda: collections.UserString("1"), lambda: collections.UserString("2")),
    row("Template", lambda: string.Template("$a"), lambda: string.Template("$b")),
    once("StringIO", lambda: io.StringIO("1\n"), lambda: io.StringIO("2\n")),
    once("BytesIO", lambda: io.BytesIO(b"1\n"), lambda: io.BytesIO(b"2\n")),
    row("PurePosixPath", lambda: pathlib.PurePosixPath("a"), lambda: pathlib.PurePosixPath("b")),
]

CONTAINERS = [
    row("list", lambda: [1, 2], lambda: [3], lambda v: v.append(5)),
    row("list of one", lambda: [1], lambda: [2], _store(0, 2)),
    row("list and none", lambda: [1], list, lambda v: v.clear()),
    row("list of tuples", lambda: [("a", 1)], lambda: [("a", 2)], _store(0, ("b", 1))),
    row("list of nan", lambda: [float("nan")], lambda: [1.0], _store(0, 1.0)),
    row("list of Decimal", lambda: [decimal.Decimal(1)], lambda: [decimal.Decimal(2)]),
    row("list of objects", lambda: [Numeric(1)], lambda: [Numeric(2)]),
    row("tuple", lambda: (1, 2), lambda: (3,)),
    row("tuple and none", lambda: (1,), lambda: ()),
    row("tuple of slices", lambda: (slice(0, 1),), lambda: (slice(1, 2),)),
    row("tuple of np.int64", lambda: (np.int64(0),), lambda: (np.int64(1),)),
    row("dict", lambda: {"a": 1}, lambda: {"a": 2}, _store("a", 2)),
    row("dict of keys", lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    row("dict and none", lambda: {"a": 1}, dict, lambda v: v.clear()),
    row("dict of Decimal", lambda: {"a": decimal.Decimal(1)}, lambda: {"a": decimal.Decimal(2)}),
    row("set", lambda: {1, 2}, lambda: {3}, lambda v: v.add(9)),
    row("frozenset", lambda: frozenset({1}), lambda: frozenset({2})),
    row("deque", lambda: collections.deque([1]), lambda: collections.deque([2]), _store(0, 2)),
    row(
        "deque maxlen",
        lambda: collections.deque([1], maxlen=1),
        lambda: collections.deque([1], maxlen=2),
    ),
    row(
        "OrderedDict",
        lambda: collections.OrderedDict(a=1, b=2),
        lambda: collections.OrderedDict(b=2, a=1),
        lambda v: v.move_to_end("a"),
    ),
    row(
        "defaultdict",
        lambda: collections.defaultdict(int, a=1),
        lambda: collections.defaultdict(list, a=1),
        _store("a", 2),
    ),
    row(
        "Counter",
        lambda: collections.Counter(a=1),
        lambda: collections.Counter(a=2),
        _store("a", 2),
    ),
    row(
        "ChainMap",
        lambda: collections.ChainMap({"a": 1}),
        lambda: collections.ChainMap({"a": 2}),
        _store("a", 2),
    ),
    row("UserDict", lambda: collections.UserDict(a=1), lambda: collections.UserDict(a=2)),
    row("UserList", lambda: collections.UserList([1]), lambda: collections.UserList([2])),
    row("namedtuple", lambda: Point(1, 2), lambda: Point(3, 4)),
    row("NamedTuple", lambda: Pair(1, 2), lambda: Pair(1, 3)),
    row("MyList", lambda: MyList([1]), lambda: MyList([2]), _store(0, 2)),
    row("MyTuple", lambda: MyTuple([1]), lambda: MyTuple([2])),
    row("MyDict", lambda: MyDict(a=1), lambda: MyDict(a=2), _store("a", 2)),
    row("MySet", lambda: MySet([1]), lambda: MySet([2]), lambda v: v.add(2)),
    row("MyFrozenset", lambda: MyFrozenset([1]), lambda: MyFrozenset([2])),
    row("MyDeque", lambda: MyDeque([1]), lambda: MyDeque([2]), _store(0, 2)),
    row("keys", lambda: {"a": 1}.keys(), lambda: {"b": 1}.keys()),
    row("values", lambda: {"a": 1}.values(), lambda: {"a": 2}.values()),
    row("items", lambda: {"a": 1}.items(), lambda: {"a": 2}.items()),
    row("keys and none", lambda: {"a": 1}.keys(), lambda: {}.keys()),
    row("values and none", lambda: {"a": 1}.values(), lambda: {}.values()),
    row(
        "odict_keys",
        lambda: collections.OrderedDict(a=1).keys(),
        lambda: collections.OrderedDict(b=1).keys(),
    ),
    row(
        "odict_values",
        lambda: collections.OrderedDict(a=1).values(),
        lambda: collections.OrderedDict(a=2).values(),
    ),
    row(
        "odict_items",
        lambda: collections.OrderedDict(a=1).items(),
        lambda: collections.OrderedDict(a=2).items(),
    ),
    row(
        "mappingproxy",
        lambda: types.MappingProxyType({"a": 1}),
        lambda: types.MappingProxyType({"a": 2}),
    ),
    row("range", lambda: range(3), lambda: range(1, 2)),
    row("slice", lambda: slice(1), lambda: slice(2)),
    row("slice of three", lambda: slice(0, 2, 1), lambda: slice(1, 2, 1)),
    row("slice step", lambda: slice(None, None, 2), lambda: slice(None, None, 1)),
    row("slice of np.int64", lambda: slice(np.int64(1)), lambda: slice(np.int64(2))),
    row("slice of None", lambda: slice(None), lambda: slice(1, None)),
    row("slice of str", lambda: slice("a", "b"), lambda: slice("a", "c")),
    row("array", lambda: array.array("i", [1]), lambda: array.array("i", [2]), _store(0, 2)),
    row(
        "array of float",
        lambda: array.array("d", [1.0, 2.0]),
        lambda: array.array("d", [2.0]),
        _store(0, 3.0),
    ),
    row("Sequence", lambda: Sequence(1), lambda: Sequence(2, 3)),
    row(
        "c_int array",
        lambda: (ctypes.c_int * 2)(1, 2),
        lambda: (ctypes.c_int * 2)(3, 4),
        _store(0, 9),
    ),
    row(
        "Structure", lambda: IntStructure(1), lambda: IntStructure(2), lambda v: setattr(v, "n", 2)
    ),
    row("struct_time", lambda: time.gmtime(0), lambda: time.gmtime(10**8)),
    row("queue", lambda: put(queue.SimpleQueue(), 1), lambda: queue.SimpleQueue()),
    row(
        "WeakSet",
        lambda: weakref.WeakSet([kept(Plain(1))]),
        lambda: weakref.WeakSet[Any](),
    ),
]

ITERATORS = [
    once("list iterator", lambda: iter([1, 2]), lambda: iter([3])),
    once("tuple iterator", lambda: iter((1, 2)), lambda: iter((3,))),
    once("dict iterator", lambda: iter({"a": 1}), lambda: iter({"b": 1})),
    once("items iterator", lambda: iter({"a": 1}.items()), lambda: iter({"a": 2}.items())),
    once("set iterator", lambda: iter({1}), lambda: iter({2})),
    once("str iterator", lambda: iter("1"), lambda: iter("2")),
    once("bytes iterator", lambda: iter(b"1"), lambda: iter(b"2")),
    once("range iterator", lambda: iter(range(2)), lambda: iter(range(1, 2))),
    once("enumerate", lambda: enumerate([1]), lambda: enumerate([2])),
    once("zip", lambda: zip("a", "b", strict=True), lambda: zip("a", "c", strict=True)),
    once("map", lambda: map(str, [1]), lambda: map(str, [2])),
    once("filter", lambda: filter(None, [1]), lambda: filter(None, [0])),
    once("reversed", lambda: reversed([1]), lambda: reversed([2])),
    once("generator", lambda: generator(1, 2), lambda: generator(3)),
    once("iter of function", lambda: iter(lambda: 1, 1), lambda: iter([2].pop, 3)),
    once("count", lambda: itertools.count(1), lambda: itertools.count(2)),
    once("repeat", lambda: itertools.repeat(1, 2), lambda: itertools.repeat(2, 2)),
    once("cycle", lambda: itertools.cycle([1]), lambda: itertools.cycle([2])),
    once("chain", lambda: itertools.chain([1]), lambda: itertools.chain([2])),
    once("islice", lambda: itertools.islice([1], 1), lambda: itertools.islice([2], 1)),
    once("product", lambda: itertools.product([1]), lambda: itertools.product([2])),
    once("accumulate", lambda: itertools.accumulate([1]), lambda: itertools.accumulate([2])),
    once("starmap", lambda: itertools.starmap(max, [(1, 2)]), lambda: itertools.starmap(max, [])),
    once(
        "takewhile", lambda: itertools.takewhile(bool, [1]), lambda: itertools.takewhile(bool, [])
    ),
    once("groupby", lambda: itertools.groupby([1]), lambda: itertools.groupby([2])),
    once("pairwise", lambda: itertools.pairwise([1, 2]), lambda: itertools.pairwise([3, 4])),
    once("permutations", lambda: itertools.permutations([1]), lambda: itertools.permutations([2])),
    once(
        "combinations",
        lambda: itertools.combinations("a", 1),
        lambda: itertools.combinations("b", 1),
    ),
    once(
        "deque iterator", lambda: iter(collections.deque([1])), lambda: iter(collections.deque([2]))
    ),
    once(
        "array iterator", lambda: iter(array.array("i", [1])), lambda: iter(array.array("i", [2]))
    ),
    once("re iterator", lambda: re.finditer("a", "a"), lambda: re.finditer("a", "b")),
    once("np iterator", lambda: iter(np.array([1])), lambda: iter(np.array([2]))),
    once("flatiter", lambda: np.array([1]).flat, lambda: np.array([2]).flat),
]

DATES = [
    row("date", lambda: datetime.date(2020, 1, 1), lambda: datetime.date(2020, 1, 2)),
    row("time", lambda: datetime.time(1), lambda: datetime.time(2)),
    row("time fold", lambda: datetime.time(1), lambda: datetime.time(1, fold=1)),
    row("datetime", lambda: datetime.datetime(2020, 1, 1), lambda: datetime.datetime(2020, 1, 2)),
    row(
        "datetime zone",
        lambda: datetime.datetime(2020, 1, 1, 1, tzinfo=datetime.UTC),
        lambda: datetime.datetime(
            2020, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))
        ),
    ),
    row("timedelta", lambda: datetime.timedelta(1), lambda: datetime.timedelta(2)),
    row(
        "timezone",
        lambda: datetime.timezone(datetime.timedelta(hours=1)),
        lambda: datetime.timezone(datetime.timedelta(hours=2)),
    ),
    row("MyDate", lambda: MyDate(2020, 1, 1), lambda: MyDate(2020, 1, 2)),
    row("UUID", lambda: uuid.UUID(int=1), lambda: uuid.UUID(int=2)),
    row("IPv4Address", lambda: ipaddress.IPv4Address(1), lambda: ipaddress.IPv4Address(2)),
]

FUNCTIONS = [
    row("function", lambda: closure, lambda: kept),
    row("lambda", lambda: closure(1), lambda: closure(2)),
    row("builtin", lambda: max, lambda: min),
    row("class", lambda: int, lambda: float),
    row("class of Python", lambda: Plain, lambda: Slotted),
    row("method", lambda: Plain(1).method, lambda: Plain(2).method),
    row("bound method of list", lambda: [1].index, lambda: [2, 1].index),
    row("bound method of dict", lambda: {1: 2}.get, lambda: {1: 3}.get),
    row("bound method of str", lambda: "1".upper, lambda: "2".upper),
    row("bound method of set", lambda: {1}.isdisjoint, lambda: {2}.isdisjoint),
    row("method-wrapper", lambda: [1].__len__, lambda: [1, 2].__len__),
    row("method descriptor", lambda: list.index, lambda: list.count),
    row("wrapper descriptor", lambda: int.__add__, lambda: int.__sub__),
    row("getset descriptor", lambda: vars(type)["__mro__"], lambda: vars(type)["__dict__"]),
    row("member descriptor", lambda: vars(slice)["start"], lambda: vars(slice)["stop"]),
    row("partial", lambda: functools.partial(max, 1), lambda: functools.partial(max, 2)),
    row(
        "partial of closure",
        lambda: functools.partial(closure(1)),
        lambda: functools.partial(closure(2)),
    ),
    row("lru_cache", lambda: cached_one, lambda: cached_two),
    row("itemgetter", lambda: operator.itemgetter(0), lambda: operator.itemgetter(1)),
    row("attrgetter", lambda: operator.attrgetter("real"), lambda: operator.attrgetter("imag")),
    row(
        "methodcaller",
        lambda: operator.methodcaller("upper"),
        lambda: operator.methodcaller("lower"),
    ),
    row("staticmethod", lambda: staticmethod(closure(1)), lambda: staticmethod(closure(2))),
    row("classmethod", lambda: classmethod(closure(1)), lambda: classmethod(closure(2))),
    row("property", lambda: property(closure(1)), lambda: property(closure(2))),
    row(
        "cmp_to_key",
        lambda: functools.cmp_to_key(closure(1))(1),
        lambda: functools.cmp_to_key(closure(-1))(1),
    ),
    row("code", lambda: closure.__code__, lambda: kept.__code__),
    row("cell", lambda: cell(1), lambda: cell(2), lambda v: setattr(v, "cell_contents", 2)),
    row("module", lambda: operator, lambda: itertools),
    row("super", lambda: super(MyInt, MyInt(1)), lambda: super(MyInt, MyInt(2))),
    row("np.ufunc", lambda: np.add, lambda: np.subtract),
    row("torch function", lambda: torch.neg, lambda: torch.abs),
    row("OpOverload", lambda: torch.ops.aten.neg.default, lambda: torch.ops.aten.abs.default),
    row("Tensor method", lambda: torch.Tensor.neg, lambda: torch.Tensor.abs),
    row("method of a tensor", lambda: torch.ones(1).neg, lambda: torch.zeros(1).neg),
]

OBJECTS = [
    row("object", lambda: object(), lambda: object()),
    row("Plain", lambda: Plain(1), lambda: Plain(2), lambda v: setattr(v, "n", 2)),
    row("Slotted", lambda: Slotted(1), lambda: Slotted(2), lambda v: setattr(v, "n", 2)),
    row(
        "SimpleNamespace",
        lambda: types.SimpleNamespace(a=1),
        lambda: types.SimpleNamespace(a=2),
        lambda v: setattr(v, "a", 2),
    ),
    row("Pattern", lambda: re.compile("a"), lambda: re.compile("b")),
    row("Pattern flags", lambda: re.compile("a"), lambda: re.compile("a", re.IGNORECASE)),
    row("Match", lambda: re.match("a", "a"), lambda: re.match("b", "b")),
    row("Struct", lambda: struct.Struct("i"), lambda: struct.Struct("h")),
    row("ref", lambda: weakref.ref(kept(Plain(1))), lambda: weakref.ref(kept(Plain(2)))),
    row("proxy", lambda: weakref.proxy(kept(Plain(1))), lambda: weakref.proxy(kept(Plain(2)))),
    row(
        "exception",
        lambda: ValueError(1),
        lambda: ValueError(2),
        lambda v: setattr(v, "args", (2,)),
    ),
    row("OSError", lambda: OSError(1, "a"), lambda: OSError(2, "b")),
    row("StopIteration", lambda: StopIteration(1), lambda: StopIteration(2)),
    row("GenericAlias", lambda: list[int], lambda: list[str]),
    row("UnionType", lambda: int | str, lambda: int | None),
    row("typing.List", lambda: typing.List[int], lambda: typing.List[str]),  # noqa: UP006
    row("TypeVar", lambda: typing.TypeVar("A"), lambda: typing.TypeVar("B")),
    row("ForwardRef", lambda: typing.ForwardRef("A"), lambda: typing.ForwardRef("B")),
    row(
        "ContextVar",
        lambda: contextvars.ContextVar("a", default=1),
        lambda: contextvars.ContextVar("b", default=2),
    ),
    row("Context", lambda: contextvars.Context(), lambda: contextvars.copy_context()),
    row("Lock", lambda: threading.Lock(), lambda: threading.Lock()),
    row("RLock", lambda: threading.RLock(), lambda: threading.RLock()),
    row("Event", lambda: threading.Event(), lambda: set_(threading.Event())),
    row("local", lambda: local(1), lambda: local(2)),
    row("Random", lambda: random.Random(1), lambda: random.Random(2), lambda v: v.seed(2)),
    row(
        "sha256",
        lambda: hashlib.sha256(b"1"),
        lambda: hashlib.sha256(b"2"),
        lambda v: v.update(b"2"),
    ),
    row("compressobj", lambda: zlib.compressobj(1), lambda: zlib.compressobj(9)),
    row("Context of decimal", lambda: decimal.Context(3), lambda: decimal.Context(4)),
    row("traceback", lambda: traceback_of(0), lambda: traceback_of(1)),
    row("version_info", lambda: time.localtime, lambda: time.gmtime),
]


def set_(event: Any) -> Any:
    event.set()
    return event


def local(n: int) -> Any:
    made = threading.local()
    made.a = n
    return made


_DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128"),
)


def _scalar(name: str) -> Row:
    kind = getattr(np, name)
    return row(f"np.{name}", lambda: kind(1), lambda: kind(2))


def _array_0(name: str) -> Row:
    return row(
        f"np.{name} 0-d",
        lambda: np.array(1, dtype=name),
        lambda: np.array(2, dtype=name),
        _store((), 2),
    )


def _record(n: int) -> Any:
    return np.array([(n,)], dtype=[("a", "i4")]).view(np.recarray)


NUMPY = [
    *map(_scalar, _DTYPES),
    row("np.bool", lambda: np.bool_(True), lambda: np.bool_(False)),
    row("np.int64 0 and 1", lambda: np.int64(0), lambda: np.int64(1)),
    row("np.float32 0", lambda: np.float32(0.0), lambda: np.float32(-0.0)),
    row("np.str_", lambda: np.str_("1"), lambda: np.str_("2")),
    row("np.bytes_", lambda: np.bytes_(b"1"), lambda: np.bytes_(b"2")),
    row("np.datetime64", lambda: np.datetime64("2020-01-01"), lambda: np.datetime64("2020-01-02")),
    row("np.datetime64 unit", lambda: np.datetime64(0, "s"), lambda: np.datetime64(0, "D")),
    row("np.timedelta64", lambda: np.timedelta64(1, "s"), lambda: np.timedelta64(2, "s")),
    row(
        "np.void",
        lambda: np.array([(1,)], dtype=[("a", "i4")])[0],
        lambda: np.array([(2,)], dtype=[("a", "i4")])[0],
        _store("a", 2),
    ),
    *map(_array_0, ("int64", "float32", "bool", "uint8", "complex64")),
    row("np.array", lambda: np.array([1, 2]), lambda: np.array([3, 4]), _store(0, 3)),
    row("np.array of one", lambda: np.array([1]), lambda: np.array([2]), _store(0, 2)),
    row("np.array of float", lambda: np.array([1.5]), lambda: np.array([2.5]), _store(0, 2.5)),
    row("np.array of bool", lambda: np.array([True]), lambda: np.array([False]), _store(0, False)),
    row(
        "np.array shapes",
        lambda: np.ones((1, 2)),
        lambda: np.ones((2, 1)),
        lambda v: v.resize((2, 1), refcheck=False),
    ),
    row("np.array of str", lambda: np.array(["1"]), lambda: np.array(["2"]), _store(0, "2")),
    row(
        "np.array of object",
        lambda: np.array([1], dtype=object),
        lambda: np.array(["a"], dtype=object),
    ),
    row("np.recarray", lambda: _record(1), lambda: _record(2)),
    row("np.ma", lambda: np.ma.array([1], mask=[False]), lambda: np.ma.array([1], mask=[True])),
    row("MyArray", lambda: np.array([1]).view(MyArray), lambda: np.array([2]).view(MyArray)),
    row("np.dtype", lambda: np.dtype("int8"), lambda: np.dtype("int16")),
    row(
        "np.dtype of fields",
        lambda: np.dtype([("a", "i4")]),
        lambda: np.dtype([("b", "i4")]),
        lambda v: setattr(v, "names", ("b",)),
    ),
    row("np scalar type", lambda: np.int8, lambda: np.int16),
    row("np.finfo", lambda: np.finfo(np.float32), lambda: np.finfo(np.float64)),
    row("np.iinfo", lambda: np.iinfo(np.int8), lambda: np.iinfo(np.int16)),
    row("np.Generator", lambda: np.random.default_rng(1), lambda: np.random.default_rng(2)),
    row("np.RandomState", lambda: np.random.RandomState(1), lambda: np.random.RandomState(2)),
    row("np.poly1d", lambda: np.poly1d([1]), lambda: np.poly1d([2])),
    once("np.broadcast", lambda: np.broadcast([1], [2]), lambda: np.broadcast([1, 2], [2])),
    once("np.nditer", lambda: np.nditer(np.array([1])), lambda: np.nditer(np.array([2]))),
    once(
        "np.ndenumerate",
        lambda: np.ndenumerate(np.array([1])),
        lambda: np.ndenumerate(np.array([2])),
    ),
]

TORCH = [
    row("Size", lambda: torch.Size([1]), lambda: torch.Size([2])),
    row("Size of two", lambda: torch.Size([1, 2]), lambda: torch.Size([2, 1])),
    row("Size and none", lambda: torch.Size([1]), lambda: torch.Size([])),
    row("dtype", lambda: torch.float32, lambda: torch.float64),
    row("device", lambda: torch.device("cpu"), lambda: torch.device("meta")),
    row("layout", lambda: torch.strided, lambda: torch.sparse_coo),
    row("memory_format", lambda: torch.contiguous_format, lambda: torch.channels_last),
    row("finfo", lambda: torch.finfo(torch.float32), lambda: torch.finfo(torch.float64)),
    row("iinfo", lambda: torch.iinfo(torch.int8), lambda: torch.iinfo(torch.int16)),
    row("qscheme", lambda: torch.per_tensor_affine, lambda: torch.per_channel_affine),
    row(
        "Generator",
        lambda: torch.Generator().manual_seed(1),
        lambda: torch.Generator().manual_seed(2),
        lambda v: v.manual_seed(2),
    ),
    row(
        "UntypedStorage",
        lambda: torch.ones(1).untyped_storage(),
        lambda: torch.zeros(1).untyped_storage(),
    ),
    row("return type", lambda: torch.ones(1, 1).max(0), lambda: torch.zeros(1, 1).max(0)),
    row("tensor", lambda: torch.tensor(1), lambda: torch.tensor(2), lambda v: v.fill_(2)),
    row(
        "tensor of float",
        lambda: torch.tensor([1.0]),
        lambda: torch.tensor([2.0]),
        lambda v: v.fill_(2),
    ),
    row(
        "tensor of bool",
        lambda: torch.tensor(True),
        lambda: torch.tensor(False),
        lambda v: v.fill_(False),
    ),
    row("tensor of no elements", lambda: torch.ones(1), lambda: torch.ones(0)),
    row(
        "Parameter",
        lambda: torch.nn.Parameter(torch.ones(1)),
        lambda: torch.nn.Parameter(torch.zeros(1)),
    ),
    row("Module", lambda: torch.nn.Linear(1, 2), lambda: torch.nn.Linear(1, 3)),
    row("Sequential", lambda: torch.nn.Sequential(torch.nn.ReLU()), lambda: torch.nn.Sequential()),
    row(
        "ParameterDict",
        lambda: torch.nn.ParameterDict({"a": torch.ones(1)}),
        lambda: torch.nn.ParameterDict(),
    ),
    row(
        "ModuleList", lambda: torch.nn.ModuleList([torch.nn.ReLU()]), lambda: torch.nn.ModuleList()
    ),
    row("Tag", lambda: torch.Tag.pointwise, lambda: torch.Tag.core),
]

ROWS: list[Row] = [
    *(*NUMBERS, *TEXTS, *CONTAINERS, *ITERATORS, *DATES, *FUNCTIONS, *OBJECTS, *NUMPY, *TORCH)
]
