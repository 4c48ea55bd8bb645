"""State that code without hooks reads: C functions, dunder methods called by C, the interpreter.

Each case is a function of a tensor and of a `Thing`, whose number, tensor and containers change
between the calls, in place and by replacement; so does the global `NUMBER`. The compiled function
must see every change. Cases with effects also return or leave what they changed.
"""

# The cases are what users write, not what we would.
# ruff: noqa: E741, RUF015, UP030, UP031, UP032
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOperatorIssue=false

from __future__ import annotations

import array
import bisect
import collections
import contextvars
import copy
import ctypes
import dataclasses
import functools
import heapq
import importlib
import inspect
import io
import itertools
import json
import math
import operator
import os
import pickle
import random
import re
import string
import struct
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests import devices
from tests.api.twins import World, check

NUMBER = 2
CONTEXT: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=1)
LOCAL = threading.local()
LOCAL.number = 1


@dataclasses.dataclass
class Plain:
    tensor: Tensor
    number: int = 2


@dataclasses.dataclass(order=True)
class Ordered:
    number: int


class Doubled:
    """A descriptor that C's attribute lookup calls."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else instance.number * 2


class Meta(type):
    shared = 1

    @property
    def twice(cls) -> int:
        return cls.shared * 2


class Thing(metaclass=Meta):
    """Everything that Python or C may call by itself, each answering with `number`."""

    doubled = Doubled()

    def __init__(self, tensor: Tensor, number: int) -> None:
        self.set(tensor, number)

    def set(self, tensor: Tensor, number: int) -> Thing:
        self.tensor, self.number = tensor, number
        self.items = list(range(number + 1))
        self.mapping = {"number": number, "tensor": tensor}
        self.array = np.arange(number + 1, dtype=np.float32)
        self.text = "a" * number
        self.plain = Plain(tensor, number)
        self.iterator = iter(range(number, number + 50))
        self.buffer = bytearray([number, number + 1])
        self.queue = collections.deque([number, 1])
        self.counts = collections.Counter("a" * number)
        self.function: Callable[[int], int] = lambda k, m=number: k + m
        return self

    @property
    def halved(self) -> float:
        return self.number / 2

    @functools.cached_property
    def cached(self) -> int:
        return self.number + 1

    @staticmethod
    def read(thing: Thing) -> int:
        return thing.number

    @classmethod
    def shared_plus(cls, k: int) -> int:
        return cls.shared + k

    def method(self, k: int = 0, other: int = 0) -> int:
        return self.number + k + other

    def __getattr__(self, name: str) -> int:
        if name.startswith("dyn_"):
            return self.number + len(name)
        raise AttributeError(name)

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)

    def __add__(self, other: Any) -> Tensor:
        return self.tensor * self.number

    def __radd__(self, other: Any) -> int:
        return self.number + other

    def __iadd__(self, other: int) -> Thing:
        self.number += other
        return self

    def __sub__(self, other: Any) -> int:
        return self.number - 1

    def __mul__(self, other: Any) -> int:
        return self.number * 3

    def __matmul__(self, other: Any) -> int:
        return self.number * 4

    def __neg__(self) -> int:
        return -self.number

    def __invert__(self) -> int:
        return self.number + 7

    def __abs__(self) -> int:
        return self.number

    def __divmod__(self, other: int) -> tuple[int, int]:
        return divmod(self.number, other)

    def __pow__(self, other: int, modulo: int | None = None) -> int:
        return self.number**other

    def __round__(self, digits: int | None = None) -> int:
        return self.number

    def __floor__(self) -> int:
        return self.number

    def __trunc__(self) -> int:
        return self.number

    def __int__(self) -> int:
        return self.number

    def __float__(self) -> float:
        return float(self.number)

    def __complex__(self) -> complex:
        return complex(self.number)

    def __index__(self) -> int:
        return self.number

    def __bool__(self) -> bool:
        return self.number > 2

    def __len__(self) -> int:
        return self.number

    def __length_hint__(self) -> int:
        return self.number

    def __sizeof__(self) -> int:
        return self.number

    def __lt__(self, other: Thing) -> bool:
        return self.number < other.number

    def __gt__(self, other: Thing) -> bool:
        return self.number > other.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and self.number == other.number

    def __hash__(self) -> int:
        return self.number

    def __str__(self) -> str:
        return str(self.number)

    def __repr__(self) -> str:
        return f"Thing({self.number})"

    def __format__(self, spec: str) -> str:
        return format(self.number, spec)

    def __bytes__(self) -> bytes:
        return bytes([self.number])

    def __fspath__(self) -> str:
        return "a" * self.number

    def __dir__(self) -> list[str]:
        return ["a"] * self.number

    def __contains__(self, k: object) -> bool:
        return k == self.number

    def __iter__(self) -> Iterator[int]:
        yield self.number
        yield self.number + 1

    def __reversed__(self) -> Iterator[int]:
        return iter([self.number])

    def __getitem__(self, key: Any) -> Any:
        return self.number if isinstance(key, str) else self.items[key]

    def keys(self) -> list[str]:
        return ["k"]

    def __call__(self, k: int) -> int:
        return self.number + k

    def __enter__(self) -> int:
        return self.number

    def __exit__(self, *error: object) -> bool:
        return self.number > 2

    def __copy__(self) -> Thing:
        return Other(self.tensor, self.number)

    def __deepcopy__(self, memo: Any) -> Thing:
        return Other(self.tensor, self.number)

    def __reduce__(self) -> Any:
        return Thing, (self.tensor, self.number)

    def __instancecheck__(self, other: object) -> bool:
        return self.number > 2

    @classmethod
    def __torch_function__(cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        thing, other = args if isinstance(args[0], cls) else args[::-1]
        return other * thing.number


class Other(Thing):
    """A light one, to compare with: the case alone decides what is compiled."""

    def __init__(self, tensor: Tensor, number: int) -> None:
        self.tensor, self.number = tensor, number


@functools.lru_cache(maxsize=8)
def remembered(k: int) -> int:
    return k * 10


@functools.singledispatch
def dispatched(value: Any) -> int:
    return 1


@dispatched.register
def _(value: Thing) -> int:
    return value.number


class Missing(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return len(key) + len(self)


_SOURCELESS: dict[str, Any] = {}
exec("def sourceless(thing, k=1):\n    thing.number\n    return thing.number * k", _SOURCELESS)
sourceless: Callable[..., int] = _SOURCELESS["sourceless"]


def reads_frame(x: Tensor, v: Thing) -> Tensor:
    return x * sys._getframe().f_globals["NUMBER"] + sys._getframe().f_locals["v"].number


def reads_locals(x: Tensor, v: Thing) -> Tensor:
    number = v.number
    return x * locals()["number"] + number


def with_statement(x: Tensor, v: Thing) -> Tensor:
    with v as k:
        x = x * k
        raise ValueError(f"left with {v.number}")
    return x


def set_native(x: Tensor, v: Thing) -> Tensor:
    setattr(v, "number", v.number + 1)  # noqa: B010
    operator.setitem(vars(v), "extra", v.number)
    object.__setattr__(v, "more", v.number)
    return x * v.number


def del_native(x: Tensor, v: Thing) -> Tensor:
    v.temporary = 1  # pyright: ignore[reportAttributeAccessIssue] because an attribute is made
    delattr(v, "temporary")
    return x + hasattr(v, "temporary")


def in_place_number(x: Tensor, v: Thing) -> Tensor:
    v += 2
    return x * v.number


def list_methods(x: Tensor, v: Thing) -> Tensor:
    v.items.append(5)
    v.items.extend([v.number, 3])
    v.items.insert(0, 9)
    v.items.sort(key=lambda k: -k)
    v.items.remove(3)
    v.items.reverse()
    return x + v.items.pop() + v.items.index(5) + len(v.items)


def dict_methods(x: Tensor, v: Thing) -> Tensor:
    v.mapping.update(k=v.number)
    v.mapping |= {"l": 2}
    v.mapping.setdefault("m", []).append(v.number)
    v.mapping.pop("tensor")
    return x + v.mapping["k"] + len(v.mapping) + sum(map(len, v.mapping))


def heap_and_bisect(x: Tensor, v: Thing) -> Tensor:
    heapq.heappush(v.items, -v.number)
    bisect.insort(v.items, v.number)
    return x + heapq.heappop(v.items) + len(v.items)


def numpy_in_place(x: Tensor, v: Thing) -> Tensor:
    v.array += 1
    v.array[0] = v.number
    np.add(v.array, 2, out=v.array)
    return x + float(v.array.sum())


def tensor_attribute_in_place(x: Tensor, v: Thing) -> Tensor:
    v.tensor.add_(1)
    v.tensor.data.mul_(2)
    v.mapping["tensor"][:1] = v.number
    return x[:0].sum() + v.tensor


def io_of_it(x: Tensor, v: Thing) -> Tensor:
    out = io.StringIO()
    print(v, v.number, file=out)
    return x + len(out.getvalue().split())


def printed(x: Tensor, v: Thing) -> Tensor:
    print(v, v.number, f"{v:03d}", x.shape, sep="|")
    sys.stdout.write(f"{v.number}\n")
    return x


def closure_of_thing(x: Tensor, v: Thing) -> Tensor:
    def inner() -> int:
        return v.number

    return x * inner.__closure__[0].cell_contents.number  # pyright: ignore[reportOptionalSubscript] because it closes over v


def environment(x: Tensor, v: Thing) -> Tensor:
    return x + int(os.environ.get("ANYSHAPE_TEST_NUMBER", "9"))


Case = Callable[[Tensor, Any], Any]

CALLED_BY_C: dict[str, Case] = {
    "operator": lambda x, v: v + v,
    "operators": lambda x, v: x * (v - 1) + v * 2 + v @ 1,
    "reflected": lambda x, v: x + (1 + v),
    "sum": lambda x, v: x + sum([v]),
    "unary": lambda x, v: x * -v + ~v,
    "abs": lambda x, v: x + abs(v),
    "divmod": lambda x, v: x + divmod(v, 2)[0],
    "pow": lambda x, v: x + pow(v, 2) + v**3,
    "round, floor, trunc": lambda x, v: x + round(v) + math.floor(v) + math.trunc(v),
    "int": lambda x, v: x * int(v),
    "float": lambda x, v: x * float(v) + math.sqrt(v),
    "complex": lambda x, v: x * complex(v).real,
    "index": lambda x, v: x * [1, 2, 3, 4, 5, 6][v],
    "operator.index": lambda x, v: x * operator.index(v),
    "range": lambda x, v: x + len(range(v)),
    "slice": lambda x, v: x[:, :v],
    "list slice": lambda x, v: x + len([1, 2, 3, 4][:v]),
    "repeat": lambda x, v: x + len([0] * v) + len("ab" * v),
    "hex": lambda x, v: x + len(hex(v) + bin(v)),
    "truth": lambda x, v: x * 2 if v else x * 3,
    "not": lambda x, v: x + (not v),
    "and": lambda x, v: x + ((v and 5) or 6).__add__(1),
    "filter None": lambda x, v: x + len(list(filter(None, [v]))),
    "any": lambda x, v: x + any([v]) + all([v]),
    "len": lambda x, v: x * len(v),
    "length_hint": lambda x, v: x * operator.length_hint(v),
    "getsizeof": lambda x, v: x + sys.getsizeof(v) % 64,
    "sort": lambda x, v: x * sorted([v, Other(x, 3)])[0].number,
    "list.sort": lambda x, v: (lambda l: (l.sort(), x * l[0].number)[1])([v, Other(x, 3)]),
    "min": lambda x, v: x * min([v, Other(x, 3)]).number,
    "heapq": lambda x, v: x * heapq.nsmallest(1, [v, Other(x, 3)])[0].number,
    "bisect": lambda x, v: x + bisect.bisect([Other(x, 1), Other(x, 3)], v),
    "hash and eq": lambda x, v: x * {v: 2}.get(Other(x, 2), 5),
    "set": lambda x, v: x * len({v, Other(x, 2)}),
    "in a list": lambda x, v: x * (Other(x, 2) in [v]),
    "list.index": lambda x, v: x * [Other(x, 4), Other(x, 2), v].index(v),
    "list.count": lambda x, v: x * [Other(x, 4), v].count(Other(x, 4)),
    "tuples equal": lambda x, v: x * ((v, 1) == (Other(x, 2), 1)),
    "dicts equal": lambda x, v: x * ({"a": v} == {"a": Other(x, 2)}),
    "hash": lambda x, v: x * hash(v) + hash((v,)) % 5,
    "ordered dataclass": lambda x, v: x * (Ordered(v.number) < Ordered(3)),
    "f-string": lambda x, v: x * int(f"{v}") + int(f"{v:02d}") + len(f"{v!r}{v!s}"),
    "str": lambda x, v: x * int(str(v)) + len(repr([v])),
    "percent": lambda x, v: x * int("%s" % v) + len("%r" % [v]),
    "str.format": lambda x, v: x * int("{}".format(v)) + int("{0.number}".format(v)),
    "str.format item": lambda x, v: x * int("{0[k]}".format(v)),
    "format": lambda x, v: x * int(format(v, "d")),
    "join": lambda x, v: x + len(",".join(map(str, [v, v]))),
    "bytes": lambda x, v: x * bytes(v)[0],
    "fspath": lambda x, v: x * len(os.fspath(v)),
    "dir": lambda x, v: x * len(dir(v)),
    "reversed": lambda x, v: x * next(iter(reversed(v))),
    "list": lambda x, v: x * list(v)[1] + tuple(v)[0],
    "unpack": lambda x, v: x * (lambda a, b: a * b)(*v),
    "assignment unpack": lambda x, v: [a + b for a, b in [v]][0] * x,
    "keywords unpack": lambda x, v: x * (lambda k: k)(**v),
    "dict of it": lambda x, v: x * dict(v)["k"],
    "zip": lambda x, v: x * next(zip(v, v, strict=True))[0],
    "enumerate": lambda x, v: x * next(enumerate(v))[1],
    "max of it": lambda x, v: x * max(v),
    "in": lambda x, v: x * (2 in v) + (4 not in v),
    "item": lambda x, v: x * v["number"] + v[0],
    "call": lambda x, v: x * v(3),
    "map it": lambda x, v: x * sum(map(v, [1, 2])),
    "with": with_statement,
    "isinstance": lambda x, v: x * isinstance(3, v),
    "in torch": lambda x, v: torch.add(x, v),
    "tensor times it": lambda x, v: torch.mul(v, x),
    "tensor of it": lambda x, v: torch.zeros(v, 2),
    "np.array of it": lambda x, v: x + float(np.array(list(v)).sum()),
    "__getattr__": lambda x, v: x * v.dyn_abc + getattr(v, "dyn_d", 1),
    "no attribute": lambda x, v: x * getattr(v, "missing", 9) + hasattr(v, "other"),
    "missing attribute": lambda x, v: x * v.missing,
    "__missing__": lambda x, v: x * Missing(a=v.number)["abc"],
}

READ_BY_C: dict[str, Case] = {
    "attrgetter": lambda x, v: x * operator.attrgetter("number")(v),
    "attrgetter dotted": lambda x, v: x * operator.attrgetter("plain.number")(v),
    "attrgetter of a tensor": lambda x, v: x[:0].sum() + operator.attrgetter("tensor")(v),
    "itemgetter": lambda x, v: x * operator.itemgetter("number")(v.mapping),
    "methodcaller": lambda x, v: x * operator.methodcaller("method", 2)(v),
    "map attrgetter": lambda x, v: x * list(map(operator.attrgetter("number"), [v]))[0],
    "map static": lambda x, v: x * list(map(Thing.read, [v]))[0],
    "map bound method": lambda x, v: x * sum(map(v.method, [1, 2])),
    "filter": lambda x, v: x * len(list(filter(v.items.__contains__, [0, 1, 3]))),
    "key": lambda x, v: x * min([v], key=lambda thing: thing.number).number,
    "key attrgetter": lambda x, v: (
        x * max([v, Other(x, 3)], key=operator.attrgetter("number")).number
    ),
    "cmp_to_key": lambda x, v: (
        x * sorted([v, Other(x, 3)], key=functools.cmp_to_key(lambda a, b: b.number - a.number))[0]
    ),
    "reduce": lambda x, v: x * functools.reduce(lambda a, k: a + v.number, range(3), 0),
    "partial": lambda x, v: x * functools.partial(v.method, 1)(other=v.number),
    "vars": lambda x, v: x * vars(v)["number"],
    "__dict__": lambda x, v: x * v.__dict__["number"],
    "__dict__ values": lambda x, v: x + len([k for k in v.__dict__.values() if k == 2]),
    "getattr": lambda x, v: x * getattr(v, "number"),  # noqa: B009
    "getattr by computed name": lambda x, v: x * getattr(v, "num" + "ber"),
    "object.__getattribute__": lambda x, v: x * object.__getattribute__(v, "number"),
    "property fget": lambda x, v: x * Thing.halved.fget(v),
    "property": lambda x, v: x * v.halved,
    "descriptor": lambda x, v: x * v.doubled,
    "descriptor by hand": lambda x, v: x * Thing.__dict__["doubled"].__get__(v, Thing),
    "cached_property": lambda x, v: x * v.cached,
    "getattr_static": lambda x, v: x * inspect.getattr_static(v, "number"),
    "class attribute": lambda x, v: x * v.shared_plus(1) + Thing.twice + type(v).shared,
    "signature default": lambda x, v: x * inspect.signature(v.function).parameters["m"].default,
    "function default": lambda x, v: x * v.function(1) + v.function.__defaults__[0],
    "copy": lambda x, v: x * copy.copy(v).number,
    "deepcopy": lambda x, v: x * copy.deepcopy(v).number,
    "copy of a list": lambda x, v: x * len(copy.copy(v.items)) + len(v.items[:]),
    "deepcopy of a dict": lambda x, v: x * copy.deepcopy(v.mapping)["number"],
    "copy.replace": lambda x, v: x * dataclasses.replace(v.plain, number=v.number).number,
    "replace keeps": lambda x, v: x * dataclasses.replace(v.plain, tensor=x).number,
    "asdict": lambda x, v: x * dataclasses.asdict(v.plain)["number"],
    "astuple": lambda x, v: x * dataclasses.astuple(v.plain)[1],
    "dataclass repr": lambda x, v: x * len(repr(Ordered(v.number)) * v.number),
    "fields": lambda x, v: x * getattr(v.plain, dataclasses.fields(v.plain)[1].name),
    "pickle": lambda x, v: x * pickle.loads(pickle.dumps(v.items))[-1],
    "pickle of it": lambda x, v: x * pickle.loads(pickle.dumps(v)).number,
    "json": lambda x, v: x * json.loads(json.dumps({"k": v.items}))["k"][-1],
    "eval": lambda x, v: x * eval("v.number", {"v": v}),
    "eval of a global": lambda x, v: x * eval("NUMBER"),
    "exec": lambda x, v: (lambda names: (exec("k = v.number", names), x * names["k"])[1])({"v": v}),
    "without source": lambda x, v: x * sourceless(v),
    "without source, keyword": lambda x, v: x * sourceless(v, k=v.number),
    "chain": lambda x, v: x * next(itertools.chain([v])).number,
    "islice": lambda x, v: x * sum(itertools.islice(v, 2)),
    "accumulate": lambda x, v: x * list(itertools.accumulate(v.items))[-1],
    "starmap": lambda x, v: x * sum(itertools.starmap(v.method, [(1, 2), (3, 4)])),
    "groupby": lambda x, v: x * len(list(itertools.groupby(v.items, key=lambda k: k % 2))),
    "sum of a list": lambda x, v: x * sum(v.items) + max(v.items) + len(v.items),
    "list equality": lambda x, v: x * (v.items == [0, 1, 2]),
    "list in": lambda x, v: x * (4 in v.items),
    "list as argument": lambda x, v: x * max(*v.items, 2),
    "join": lambda x, v: x * len("-".join(map(str, v.items))),
    "Counter": lambda x, v: x * v.counts["a"] + collections.Counter(v.items).total(),
    "ChainMap": lambda x, v: x * collections.ChainMap({}, v.mapping)["number"],
    "deque": lambda x, v: x * v.queue[0] + len(v.queue),
    "OrderedDict": lambda x, v: x * collections.OrderedDict(v.mapping)["number"],
    "MappingProxy": lambda x, v: x * types.MappingProxyType(v.mapping)["number"],
    "dict views": lambda x, v: x * len(v.mapping.keys() & {"number", "k"}) + len(v.mapping.items()),
    "SimpleNamespace": lambda x, v: x * types.SimpleNamespace(**v.mapping).number,
    "weakref": lambda x, v: x * weakref.ref(v)().number,
    "weakref proxy": lambda x, v: x * weakref.proxy(v).number,
    "struct": lambda x, v: x * struct.unpack("<BB", v.buffer)[0],
    "bytearray": lambda x, v: x * v.buffer[0] + memoryview(v.buffer)[1],
    "array": lambda x, v: x * sum(array.array("i", v.items)),
    "ctypes": lambda x, v: x * ctypes.c_int(v.number).value,
    "re": lambda x, v: x * len(re.sub("a", "bb", v.text)) + re.match("a*", v.text).end(),
    "str methods": lambda x, v: x * len(v.text.upper().replace("A", "cc")) + v.text.count("a"),
    "template": lambda x, v: x * int(string.Template("$number").substitute(v.mapping)),
    "lru_cache": lambda x, v: x * remembered(v.number),
    "singledispatch": lambda x, v: x * dispatched(v),
    "context variable": lambda x, v: x * CONTEXT.get(),
    "thread local": lambda x, v: x * LOCAL.number,
    "random": lambda x, v: x * random.random() + random.choice(v.items),
    "global": lambda x, v: x * NUMBER,
    "globals()": lambda x, v: x * globals()["NUMBER"],
    "sys.modules": lambda x, v: x * sys.modules[__name__].NUMBER,
    "import_module": lambda x, v: x * importlib.import_module(__name__).NUMBER,
    "frame": reads_frame,
    "locals()": reads_locals,
    "closure cell": closure_of_thing,
    "environment": environment,
    "numpy array": lambda x, v: x * float(v.array.sum()),
    "from_numpy": lambda x, v: torch.from_numpy(v.array) * 2,
    "as_tensor of an array": lambda x, v: torch.as_tensor(v.array) + 1,
    "tensor of an array": lambda x, v: torch.tensor(v.array) + 1,
    "tensor of a list": lambda x, v: torch.tensor(v.items),
    "tensor of a number": lambda x, v: x * torch.tensor(v.number) + torch.full((1,), v.number),
    "Tensor of a list": lambda x, v: torch.Tensor(v.items),
    "new_tensor": lambda x, v: x.new_tensor(v.items),
    "Parameter": lambda x, v: nn.Parameter(v.tensor) * 2,
    "tensor.data": lambda x, v: x[:0].sum() + v.tensor.data,
    "tensor.tolist": lambda x, v: x * len(v.tensor.tolist()),
    "tensor.item": lambda x, v: x * v.tensor.sum().item(),
    "tensor.numpy": lambda x, v: x * float(v.tensor.numpy().sum()),
    "tensor in a dict": lambda x, v: x[:0].sum() + v.mapping["tensor"],
    "stack of list": lambda x, v: torch.stack([v.tensor, v.plain.tensor]),
    "string as key": lambda x, v: x * {"aa": 1, "aaaa": 2}.get(v.text, 3),
    "type name": lambda x, v: x * len(type(v).__name__),
}

CHANGES: dict[str, Case] = {
    "next of an iterator": lambda x, v: x * next(v.iterator),
    "two of an iterator": lambda x, v: x * sum(itertools.islice(v.iterator, 2)),
    "zip takes from an iterator": lambda x, v: x * next(zip(v.iterator, [1], strict=False))[0],
    "setattr": set_native,
    "delattr": del_native,
    "in-place operator": in_place_number,
    "list methods": list_methods,
    "dict methods": dict_methods,
    "heap and bisect": heap_and_bisect,
    "deque methods": lambda x, v: x * (v.queue.append(3), v.queue.popleft())[1],
    "Counter update": lambda x, v: x * (v.counts.update("ab"), v.counts["b"])[1],
    "bytearray": lambda x, v: x * (v.buffer.append(v.number), len(v.buffer))[1],
    "slice assignment": lambda x, v: x * (v.items.__setitem__(slice(0, 1), [7, 8]), v.items[1])[1],
    "list.clear": lambda x, v: x * (v.items.clear(), len(v.items))[1],
    "map that appends": lambda x, v: x * len(list(map(v.items.append, [1, 2]))) + len(v.items),
    "sort with a key that counts": lambda x, v: (
        x * sorted([3, 1], key=lambda k: (v.items.append(k), k)[1])[0] + len(v.items)
    ),
    "numpy in place": numpy_in_place,
    "tensor in place": tensor_attribute_in_place,
    "print": printed,
    "print to a buffer": io_of_it,
    "random.shuffle": lambda x, v: x * (random.shuffle(v.items), v.items[0])[1],
}


def changing_thing(case: Case) -> World:
    """The number goes 2, 4, 2, ..; the thing is changed in place, and replaced at every third."""
    numbers = (2, 4, 2, 3, 1, 4, 0, 2)
    state = {"thing": Thing(torch.ones(3), 2), "step": 0}

    def before(step: int) -> None:
        generator = devices.generator(step)
        tensor = torch.randn(3 + step // 4, generator=generator)
        if step % 3 == 2:
            state["thing"] = Thing(tensor, numbers[step])
        else:
            state["thing"].__dict__.pop("cached", None)
            state["thing"].set(tensor, numbers[step])
        globals()["NUMBER"] = LOCAL.number = Meta.shared = numbers[step] + 1
        os.environ["ANYSHAPE_TEST_NUMBER"] = str(numbers[step])
        CONTEXT.set(numbers[step])

    return World(
        case,
        lambda x: (x, state["thing"]),
        before=before,
        watch=lambda: state["thing"],
        globals={"NUMBER": 2},
        sizes=(3, 3, 3, 5, 1, 5, 0, 3),
    )


def thing_in_closure(case: Case) -> World:
    """The same, with the thing in a closure cell instead of an argument."""
    world = changing_thing(case)
    state = world.watch

    def of_the_tensor(x: Tensor) -> Any:
        return case(x, thing)

    def before(step: int) -> None:
        nonlocal thing
        change(step)
        thing = state()

    thing, change = state(), world.before
    return dataclasses.replace(
        world, function=of_the_tensor, arguments=lambda x: (x,), before=before
    )


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", CALLED_BY_C)
def test_method_called_by_c(case: str, dynamic: bool | None) -> None:
    check(lambda: changing_thing(CALLED_BY_C[case]), dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", READ_BY_C)
def test_state_read_by_c(case: str, dynamic: bool | None) -> None:
    check(lambda: changing_thing(READ_BY_C[case]), dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", CHANGES)
def test_state_changed_by_c(case: str, dynamic: bool | None) -> None:
    check(lambda: changing_thing(CHANGES[case]), dynamic)


@pytest.mark.parametrize("case", READ_BY_C)
def test_state_in_a_closure(case: str) -> None:
    check(lambda: thing_in_closure(READ_BY_C[case]), True)
