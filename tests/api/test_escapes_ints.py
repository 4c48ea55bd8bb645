"""Sizes and int arguments that Python, the standard library, numpy or torch consume natively.

Each case is a function of a tensor and an int. It runs twice: with the int as `x.shape[0]`, and as
an argument of its own. Whatever the case does with the int, a later call with another one must give
eager's answer.
"""

# The cases are what users write, not what we would.
# ruff: noqa: C417, E741, RUF005, UP031, UP032
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import array
import bisect
import collections
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import heapq
import itertools
import json
import math
import numbers
import operator
import pickle
import random
import statistics
import string
import struct
import textwrap
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.api.twins import World, check

THREE = 3
LETTERS = list("abcdefgh")
COUNTS = {0: 7, 1: 8, 3: 9, 5: 10}


class Pair(NamedTuple):
    number: int
    other: int


@dataclasses.dataclass
class Box:
    number: int


class Colour(enum.IntEnum):
    NONE = 0
    RED = 1
    GREEN = 3
    BLUE = 5


@functools.lru_cache(maxsize=16)
def tenfold(n: int) -> int:
    return n * 10


def countdown(n: int) -> Iterator[int]:
    while n > 0:
        yield n
        n -= 1


def factorial(n: int) -> int:
    return 1 if n <= 1 else n * factorial(n - 1)


def matched(x: Tensor, n: int) -> Tensor:
    match n:
        case 3:
            return x + 1
        case 4 | 5:
            return x + 2
        case k if k > 5:
            return x + k
        case _:
            return x + 3


def matched_shape(x: Tensor, n: int) -> Tensor:
    match tuple(x.shape):
        case [3, _]:
            return x + 1
        case [_, 4]:
            return x + 2
    return x


def halves(x: Tensor, n: int) -> Tensor:
    while n > 1:
        x, n = x * 2, n // 2
    return x + n


def branches(x: Tensor, n: int) -> Tensor:
    if n % 2 == 0:
        return x * 2
    if n > 4:
        return x * 3
    return x * 4 if n == 1 else x * 5


def looked_up(x: Tensor, n: int) -> Tensor:
    try:
        return x + ord(LETTERS[n * 2])
    except IndexError:
        return x - 1


def for_else(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i == 4:
            break
        x = x + i
    else:
        x = x * 2
    return x


def stored_in_list(x: Tensor, n: int) -> Tensor:
    kept = [n, n + 1]
    kept.append(n * 2)
    return x * kept[-1] + kept.index(n) + sum(kept)


def stored_in_object(x: Tensor, n: int) -> Tensor:
    box = Box(n)
    box.number += 1
    return x * box.number


def closed_over(x: Tensor, n: int) -> Tensor:
    def inner(y: Tensor) -> Tensor:
        return y * n

    return inner(x) + (lambda y, k=n: y * k)(x)


def swapped(x: Tensor, n: int) -> Tensor:
    a, b = n, 2
    a, b = b, a
    return x * b - a


def sorted_with_key(x: Tensor, n: int) -> Tensor:
    return x + sorted([4, n, 2], key=lambda k: -k)[0]


def exec_reads_it(x: Tensor, n: int) -> Tensor:
    names: dict[str, Any] = {"n": n}
    exec("m = n + 1", names)
    return x * names["m"]


def asserted(x: Tensor, n: int) -> Tensor:
    assert n != 5, f"five is not allowed, got {n}"
    return x * n


def raised(x: Tensor, n: int) -> Tensor:
    if n == 4:
        raise ValueError(f"no {n}, {x.shape}")
    return x


def accumulated(x: Tensor, n: int) -> Tensor:
    total = 0
    for size in x.shape:
        total += size
    total *= n
    total -= 1
    total //= 2
    return x + total


def walrus(x: Tensor, n: int) -> Tensor:
    return x * half if (half := n // 2) > 1 else x - half


def in_f_string_key(x: Tensor, n: int) -> Tensor:
    return x + {"k3": 1, "k5": 2, "k1": 3}.get(f"k{n}", 4)


def numpy_shape(x: Tensor, n: int) -> Tensor:
    return x + np.zeros((n, 2)).shape[0] + np.arange(n).size


Case = Callable[[Tensor, Any], Any]

PYTHON: dict[str, Case] = {
    # sequences and mappings
    "tuple repeat": lambda x, n: x + len((1,) * n),
    "list repeat": lambda x, n: x + len([0] * n),
    "reflected repeat": lambda x, n: x + len(n * [0, 0]),
    "str repeat": lambda x, n: x + len("a" * n),
    "bytes repeat": lambda x, n: x + len(b"ab" * n),
    "list index": lambda x, n: x + [10, 20, 30, 40, 50, 60, 70, 80][n],
    "negative list index": lambda x, n: x + [10, 20, 30, 40, 50, 60, 70, 80][-n],
    "string index": lambda x, n: x + ord("abcdefgh"[n]),
    "bytes index": lambda x, n: x + b"abcdefgh"[n],
    "range index": lambda x, n: x + range(10, 90, 10)[n],
    "out of range": lambda x, n: x + [1, 2, 3, 4][n],
    "dict index": lambda x, n: x + {3: 1.0, 5: 2.0}[n],
    "dict get": lambda x, n: x + COUNTS.get(n, -1),
    "dict as key and back": lambda x, n: x + {n: 5, 3: 6}[n],
    "dict comprehension": lambda x, n: x + len({i: i for i in range(n)}),
    "dict from keys": lambda x, n: x + len(dict.fromkeys(range(n))),
    "set member": lambda x, n: x + (1 if n in {3, 4} else 2),
    "frozenset member": lambda x, n: x + (1 if n in frozenset((3, 4)) else 2),
    "tuple member": lambda x, n: x + (1 if n in (3, 4) else 2),
    "list member": lambda x, n: x + (1 if n in [3, 5] else 2),
    "range member": lambda x, n: x + (1 if n in range(2, 4) else 2),
    "not member": lambda x, n: x + (1 if n not in COUNTS else 2),
    "set of sizes": lambda x, n: x + len({n, 3, *x.shape}),
    "list slice": lambda x, n: x + len([1, 2, 3, 4, 5, 6][:n]),
    "list slice from": lambda x, n: x + sum([1, 2, 3, 4, 5, 6][n:]),
    "list slice step": lambda x, n: x + sum([1, 2, 3, 4, 5, 6][::n]),
    "list pop": lambda x, n: x + [1, 2, 3, 4, 5, 6, 7, 8].pop(n),
    "list insert": lambda x, n: x + (lambda l: (l.insert(n, 9), l.index(9))[1])([1, 2, 3, 4]),
    "list count": lambda x, n: x + [3, 3, 5].count(n),
    "list equal": lambda x, n: x + (1 if [n, 4] == [3, 4] else 2),
    "tuple less": lambda x, n: x + (1 if (n, 0) < (4, 1) else 2),
    "slice indices": lambda x, n: x + sum(slice(1, n).indices(5)),
    "unpacked": lambda x, n: x + (lambda *a: len(a))(*range(n)),
    "starred": lambda x, n: x + (lambda first, *rest: len(rest))(0, *[1] * n),
    # builtins
    "len of range": lambda x, n: x + len(range(n)),
    "sum of range": lambda x, n: x + sum(range(n)),
    "sum": lambda x, n: x + sum(x.shape),
    "sum with start": lambda x, n: x + sum([1, 2], n),
    "max": lambda x, n: x + max(x.shape),
    "max of three": lambda x, n: x + max(n, 4, 6),
    "min": lambda x, n: x * min(n, 4),
    "max with key": lambda x, n: x + max([n, 4], key=lambda k: -k),
    "max with default": lambda x, n: x + max(range(n), default=9),
    "sorted": lambda x, n: x + sorted(x.shape)[0],
    "sorted reversed": lambda x, n: x + sorted([n, 4, 2], reverse=True)[0],
    "sorted with key": sorted_with_key,
    "any": lambda x, n: x + any(i > 3 for i in range(n)),
    "all": lambda x, n: x + all(range(n)),
    "bool": lambda x, n: x * 2 if n else x,
    "bool call": lambda x, n: x + bool(n),
    "not": lambda x, n: x + (not n),
    "and or": lambda x, n: x + ((n and 2) or 5),
    "abs": lambda x, n: x + abs(n - 4),
    "divmod": lambda x, n: x + divmod(n, 2)[1],
    "divmod reflected": lambda x, n: x + divmod(17, n + 1)[0],
    "pow": lambda x, n: x + pow(n, 2),
    "pow modulo": lambda x, n: x + pow(n, 2, 7),
    "round": lambda x, n: x + round(n / 2),
    "round to tens": lambda x, n: x + round(n, -1),
    "int": lambda x, n: x + int(n * 1.5),
    "int of itself": lambda x, n: x * int(n),
    "float": lambda x, n: x + float(n),
    "complex": lambda x, n: x + complex(n, 1).real,
    "str": lambda x, n: x + float(str(n)),
    "repr": lambda x, n: x + len(repr((n, "a" * n))),
    "format": lambda x, n: x + len(format(n, "05d")),
    "hash": lambda x, n: x + hash(n),
    "hash of a tuple": lambda x, n: x + hash((n,)) % 7,
    "chr": lambda x, n: x + len(chr(65 + n) * n),
    "hex, oct, bin": lambda x, n: x + len(hex(n) + oct(n) + bin(n)),
    "bytes": lambda x, n: x + len(bytes(n)),
    "bytearray": lambda x, n: x + len(bytearray(n)),
    "bytes of": lambda x, n: x + bytes([n])[0],
    "enumerate start": lambda x, n: x + next(iter(enumerate("ab", n)))[0],
    "enumerate rows": lambda x, n: sum((row * i for i, row in enumerate(x)), torch.zeros(4)),
    "zip": lambda x, n: x + len(list(zip(range(n), LETTERS, strict=False))),
    "map": lambda x, n: x + sum(map(lambda i: i * 2, range(n))),
    "map str": lambda x, n: x + len(",".join(map(str, x.shape))),
    "filter": lambda x, n: x + len(list(filter(lambda i: i % 2, range(n)))),
    "reversed": lambda x, n: x + next(reversed(range(n)), 9),
    "iter and next": lambda x, n: x + next(iter((n, 1))),
    "isinstance": lambda x, n: x + (1 if isinstance(n, int) and not isinstance(n, bool) else 2),
    "isinstance of a number": lambda x, n: x + isinstance(n, numbers.Integral),
    "type is": lambda x, n: x + (1 if type(n) is int else 2),
    "type call": lambda x, n: x + type(n)(3),
    "type as key": lambda x, n: x + {int: 1, float: 2}[type(n)],
    "class": lambda x, n: x + (n.__class__ is int),
    "is": lambda x, n: x + (1 if n is THREE else 2),
    "is itself": lambda x, n: x + (1 if n is n else 2),
    "eval": lambda x, n: x + eval("n + 1", {"n": n}),
    "eval of text": lambda x, n: x + eval(f"{n} + 1"),
    "exec": exec_reads_it,
    "getattr": lambda x, n: x + getattr(n, "real") + n.numerator + n.imag,  # noqa: B009
    # operators
    "negative": lambda x, n: x * -n,
    "positive, invert": lambda x, n: x + +n + ~n,
    "shifts": lambda x, n: x + (n << 2) + (n >> 1) + (1 << n),
    "bits": lambda x, n: x + (n & 3) + (n | 8) + (n ^ 5),
    "true division": lambda x, n: x + n / 2 + 1 / (n + 1),
    "floor division": lambda x, n: x + n // 2 - -n // 2 + 7 // (n + 1),
    "modulo": lambda x, n: x + n % 3 + 17 % (n + 1) - -n % 4,
    "power": lambda x, n: x * n**2 + 2**n,
    "power of a float": lambda x, n: x * (n + 1) ** -0.5,
    "chained comparison": lambda x, n: x + (1 if 2 < n <= 5 else 2),
    "equal to a float": lambda x, n: x + (n == 3.0) + (n < 4.5),
    "compare with a string": lambda x, n: x + (n == "3") + (n != None),  # noqa: E711
    "methods": lambda x, n: x + n.bit_length() + n.bit_count() + n.conjugate(),
    "to_bytes": lambda x, n: x + n.to_bytes(2, "big")[1],
    "as_integer_ratio": lambda x, n: x + sum(n.as_integer_ratio()),
    "unbound method": lambda x, n: x + int.__add__(n, 1) + int.__mul__(2, n),
    "operator module": lambda x, n: x + operator.add(n, 1) * operator.index(n),
    # text
    "f-string": lambda x, n: x + len(f"{'a' * n}{n}"),
    "f-string with spec": lambda x, n: x + int(f"{n:03d}") + len(f"{n:>5}{n!r}"),
    "f-string width": lambda x, n: x + len(f"{1:{n + 1}d}"),
    "f-string of a shape": lambda x, n: x + len(f"{x.shape}{tuple(x.shape)}") + int(f"{n}"),
    "percent": lambda x, n: x + int("%d" % n),
    "percent width": lambda x, n: x + len("%*d" % (n, 1)),
    "percent of a dict": lambda x, n: x + int("%(n)s" % {"n": n}),
    "str.format": lambda x, n: x + int("{}".format(n)),
    "str.format_map": lambda x, n: x + int("{n}".format_map({"n": n})),
    "ljust, zfill": lambda x, n: x + len("a".ljust(n)) + len("7".zfill(n)),
    "split at most": lambda x, n: x + len("a b c d e f g h".split(" ", n)),
    "template": lambda x, n: x + int(string.Template("$n").substitute(n=n)),
    "textwrap": lambda x, n: x + len(textwrap.wrap("a b c d e f", n + 1)),
    "key made of it": in_f_string_key,
    # the standard library
    "math.sqrt": lambda x, n: x / math.sqrt(n + 1),
    "math.log": lambda x, n: x * math.log(n + 1) + math.log2(n + 1),
    "math.log of zero": lambda x, n: x * math.log(n),
    "math.floor and ceil": lambda x, n: x + math.floor(n / 2) + math.ceil(n / 2) + math.trunc(n),
    "math.gcd and lcm": lambda x, n: x * math.gcd(n, 15) + math.lcm(n, 4),
    "math.isqrt": lambda x, n: x + math.isqrt(n) + math.factorial(n) + math.comb(9, n),
    "math.prod": lambda x, n: x + math.prod(x.shape),
    "math.fsum": lambda x, n: x + math.fsum([n, 0.5]) + math.hypot(n, 1) + math.copysign(n, -1),
    "math.isclose": lambda x, n: x + math.isclose(n, 3) + math.ldexp(1.0, n),
    "itertools.repeat": lambda x, n: x + len(list(itertools.repeat(0, n))),
    "itertools.islice": lambda x, n: x + sum(itertools.islice(itertools.count(), n)),
    "itertools.count": lambda x, n: x + next(itertools.count(n)),
    "itertools.product": lambda x, n: x + len(list(itertools.product(range(n), "ab"))),
    "itertools.combinations": lambda x, n: x + len(list(itertools.combinations("abcd", n))),
    "itertools.accumulate": lambda x, n: x + list(itertools.accumulate([1, n, n]))[-1],
    "itertools.chain": lambda x, n: x + sum(itertools.chain(range(n), x.shape)),
    "functools.reduce": lambda x, n: x + functools.reduce(operator.mul, x.shape, 1),
    "functools.partial": lambda x, n: x + functools.partial(operator.add, n)(1),
    "lru_cache": lambda x, n: x + tenfold(n),
    "operator.itemgetter": lambda x, n: x + operator.itemgetter(n)([1, 2, 3, 4, 5, 6, 7, 8]),
    "collections.Counter": lambda x, n: x + collections.Counter([n, 3, 3])[3],
    "collections.deque": lambda x, n: x + len(collections.deque(range(9), maxlen=n)),
    "heapq": lambda x, n: x + heapq.nsmallest(2, [n, 4, 9])[1],
    "bisect": lambda x, n: x + bisect.bisect([1, 2, 4, 6], n),
    "statistics": lambda x, n: x + statistics.mean([n, 4]) + statistics.median(x.shape),
    "json": lambda x, n: x + int(json.dumps(n)) + json.loads(json.dumps({"n": n}))["n"],
    "pickle": lambda x, n: x + pickle.loads(pickle.dumps(n)),
    "copy": lambda x, n: x + copy.copy(n) + copy.deepcopy((n, [n]))[1][0],
    "struct": lambda x, n: x + struct.pack("i", n)[0],
    "array": lambda x, n: x + array.array("i", [n, 1])[0],
    "ctypes": lambda x, n: x + ctypes.c_int(n).value,
    "zlib": lambda x, n: x + zlib.crc32(bytes([n])) % 5,
    "fraction": lambda x, n: x + float(fractions.Fraction(n, 2)),
    "decimal": lambda x, n: x + float(decimal.Decimal(n) / 2),
    "timedelta": lambda x, n: x + datetime.timedelta(n).days,
    "random": lambda x, n: x + random.Random(n).random() + random.randrange(n + 1),
    "namedtuple": lambda x, n: x * Pair(n, 2).number + sum(Pair(1, n)),
    "dataclass": lambda x, n: x * dataclasses.replace(Box(1), number=n).number,
    "dataclass equal": lambda x, n: x + (1 if Box(n) == Box(3) else 2),
    "dataclass asdict": lambda x, n: x + dataclasses.asdict(Box(n))["number"],
    "namespace": lambda x, n: x + types.SimpleNamespace(n=n).n,
    "int enum": lambda x, n: x + (1 if n == Colour.GREEN else 2),
    "enum by value": lambda x, n: x + len(Colour(n).name),
    # numpy
    "numpy ones": lambda x, n: x + float(np.ones(n).sum()),
    "numpy shape": numpy_shape,
    "numpy scalar": lambda x, n: x + float(np.float32(2) * n) + float(np.int64(n)),
    "numpy index": lambda x, n: x + int(np.arange(9)[n]),
    "numpy compare": lambda x, n: x + int((np.arange(5) < n).sum()),
    "numpy maximum": lambda x, n: x + int(np.maximum(n, 4)) + float(np.sqrt(n)),
    # statements
    "match": matched,
    "match a shape": matched_shape,
    "while": halves,
    "if chain": branches,
    "try": looked_up,
    "for else": for_else,
    "in a list": stored_in_list,
    "in an object": stored_in_object,
    "closure and default": closed_over,
    "swap": swapped,
    "assert": asserted,
    "raise": raised,
    "in-place operators": accumulated,
    "walrus": walrus,
    "generator": lambda x, n: x + sum(countdown(n)),
    "recursion": lambda x, n: x + factorial(n),
    "comprehension with condition": lambda x, n: x + len([i for i in range(9) if i < n]),
}

SHAPES: dict[str, Case] = {
    "numel": lambda x, n: x + x.shape.numel() + x.numel() + x.nelement(),
    "shape equals": lambda x, n: x + (1 if x.shape == (3, 4) else 2),
    "shape equals a Size": lambda x, n: x + (1 if x.shape == torch.Size([3, 4]) else 2),
    "shape differs": lambda x, n: x + (1 if x.shape != torch.Size([5, 4]) else 2),
    "shape slice": lambda x, n: x.reshape(x.shape[:-1] + (2, 2)).sum(-1),
    "shape unpacked": lambda x, n: (lambda a, b: x.reshape(b, a))(*x.shape),
    "shape as key": lambda x, n: x + {torch.Size([3, 4]): 1, torch.Size([5, 4]): 2}[x.shape],
    "shape as tuple key": lambda x, n: x + {(3, 4): 1, (5, 4): 2}.get(tuple(x.shape), 3),
    "shape as list": lambda x, n: x.new_zeros(list(x.shape)),
    "shape repeated": lambda x, n: x + len(x.shape * 2),
    "shape count and index": lambda x, n: x + x.shape.count(4) + x.shape.index(4),
    "shape hash": lambda x, n: x + (hash(x.shape) == hash((3, 4))),
    "shape in": lambda x, n: x + (3 in x.shape),
    "shape in a list": lambda x, n: x + (x.shape in [(3, 4), (5, 4)]),
    "size of a dim": lambda x, n: x * x.size(0) + x.size(-1) + x.size()[0],
    "len of a tensor": lambda x, n: x * len(x),
    "stride": lambda x, n: x.as_strided(x.size(), x.stride()),
    "stride of the transpose": lambda x, n: x + x.T.stride(1) + x.T.contiguous().stride(0),
    "dim": lambda x, n: x + x.dim() + x.ndim,
    "is_contiguous": lambda x, n: x + (1 if x.T.is_contiguous() else 2),
    "storage offset": lambda x, n: x + x[n // 2 :].storage_offset(),
    "nbytes": lambda x, n: x + x.nbytes + x.element_size(),
    "iteration over rows": lambda x, n: [row * 2 for row in x],
    "unpacked rows": lambda x, n: [*x.unbind(0)],
    "tolist": lambda x, n: len(x.tolist()),
    "numpy view": lambda x, n: x + x.numpy().shape[0],
    "scalar tensor": lambda x, n: torch.tensor(n) + torch.full((1,), n),
    "tensor of a list": lambda x, n: torch.tensor([n, 1]),
    "tensor of a nested list": lambda x, n: torch.tensor([[n], [2 * n]], dtype=torch.float32),
    "tensor of a shape": lambda x, n: torch.tensor(x.shape),
    "Tensor of a list": lambda x, n: torch.Tensor([n, 1]),
    "as_tensor": lambda x, n: torch.as_tensor(n) + torch.as_tensor([n]),
    "new_tensor": lambda x, n: x.new_tensor([n, 2]),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n),
    "LongTensor": lambda x, n: torch.LongTensor([n]),
    "Tensor of a size": lambda x, n: torch.Tensor(n, 2).shape,
    "Size": lambda x, n: torch.Size((n, 2)),
    "new_full": lambda x, n: x.new_full((n, 2), n),
    "zeros, ones": lambda x, n: torch.zeros(n, 2) + torch.ones((n, 1)),
    "arange": lambda x, n: torch.arange(n),
    "arange with step": lambda x, n: torch.arange(0, n, 2),
    "linspace": lambda x, n: torch.linspace(0, 1, n),
    "eye": lambda x, n: torch.eye(n),
    "randn": lambda x, n: torch.randn(n, 2),
    "randint": lambda x, n: torch.randint(0, n + 1, (n,)),
    "randperm": lambda x, n: torch.randperm(n),
    "index": lambda x, n: x[n - 1],
    "slice": lambda x, n: x[: n // 2],
    "slice from the end": lambda x, n: x[-n:],
    "slice of columns": lambda x, n: x[:, :n],
    "slice with step": lambda x, n: x[:: n + 1],
    "ellipsis and None": lambda x, n: x[..., None, : n + 1],
    "index by a list": lambda x, n: x[:, [0, n % 4]],
    "narrow": lambda x, n: x.narrow(0, 0, n),
    "select": lambda x, n: x.select(1, n % 4),
    "repeat": lambda x, n: x.repeat(n, 1),
    "repeat_interleave": lambda x, n: x.repeat_interleave(n, dim=1),
    "expand": lambda x, n: x.unsqueeze(0).expand(n, -1, -1).sum(0),
    "broadcast_to": lambda x, n: torch.broadcast_to(x[None], (n, *x.shape)),
    "roll": lambda x, n: x.roll(n, 1),
    "pad": lambda x, n: F.pad(x, (0, n)),
    "unfold": lambda x, n: x.unfold(1, min(n, 3) + 1, 1),
    "chunk": lambda x, n: x.chunk(n + 1, dim=1),
    "split": lambda x, n: torch.cat(x.split(1)) if n else x,
    "split by sizes": lambda x, n: torch.split(x, [n // 2, n - n // 2]),
    "tensor_split": lambda x, n: x.tensor_split(2),
    "unbind and stack": lambda x, n: torch.stack(x.unbind(1)),
    "view": lambda x, n: x.view(n * 4) if x.shape[0] == n else x.view(-1),
    "reshape": lambda x, n: x.reshape(4, -1) if n else x,
    "reshape by pairs": lambda x, n: x.reshape(x.shape[0], 2, 2).transpose(0, 1),
    "flatten and unflatten": lambda x, n: x.flatten().unflatten(0, (-1, 4)) if n else x,
    "transposed reshape": lambda x, n: x.T.reshape(-1, x.shape[0]) if n else x,
    "tril": lambda x, n: x.tril(n - 2),
    "topk": lambda x, n: x.topk(min(n, 4), dim=1).values,
    "cumsum": lambda x, n: x.cumsum(0) / (n + 1),
    "mean by hand": lambda x, n: x.sum(0) / n if n else x.sum(0),
    "scaled": lambda x, n: x * n + n - x / (n + 1),
    "power": lambda x, n: x**n,
    "alpha": lambda x, n: x.add(x, alpha=n),
    "cat": lambda x, n: torch.cat([x] * (n + 1)),
    "stack": lambda x, n: torch.stack([x for _ in range(n + 1)]),
    "loop over rows": lambda x, n: sum((x[i] * i for i in range(x.shape[0])), torch.zeros(4)),
    "matmul": lambda x, n: x @ x.T + torch.eye(x.shape[0]),
    "one_hot": lambda x, n: F.one_hot(torch.arange(n), n + 2),
    "interpolate": lambda x, n: F.interpolate(x[None], size=n + 1),
    "pool": lambda x, n: F.adaptive_avg_pool1d(x, n % 4 + 1),
    "masked by size": lambda x, n: x.masked_fill(torch.arange(4) >= n, 0.0),
    "where": lambda x, n: torch.where(torch.arange(4) < n, x, -x),
    "broadcast with rows": lambda x, n: x + torch.arange(x.shape[0])[:, None],
    "add to a fixed shape": lambda x, n: x + torch.ones(3, 4),
    "in-place fill": lambda x, n: x.fill_(n),
    "in-place set": lambda x, n: x.__setitem__((slice(0, 1),), n),
    "wrong view": lambda x, n: x.view(3, 4),
    "wrong matmul": lambda x, n: x @ torch.ones(n, 2),
}


def read_from_shape(case: Case) -> World:
    return World(lambda x: case(x, x.shape[0]))


def given_as_argument(case: Case) -> World:
    return World(case, lambda x: (x, len(x)))


def changes_alone(case: Case) -> World:
    """The int moves while the tensor's shape stays, so that neither can stand for the other."""
    numbers = iter((3, 5, 3, 1, 0, 7, 4, 3))
    return World(case, lambda x: (x, next(numbers)), sizes=(3,) * 8)


#: Which way the int comes in, and the policy; the other combinations are in the slow suite.
PYTHON_RUNS = [(read_from_shape, True), (given_as_argument, True), (changes_alone, None)]
SHAPES_RUNS = [(read_from_shape, True), (changes_alone, None)]


@pytest.mark.parametrize(("source", "dynamic"), PYTHON_RUNS)
@pytest.mark.parametrize("case", PYTHON)
def test_int_in_python(case: str, source: Callable[[Case], World], dynamic: bool | None) -> None:
    check(lambda: source(PYTHON[case]), dynamic)


@pytest.mark.parametrize(("source", "dynamic"), SHAPES_RUNS)
@pytest.mark.parametrize("case", SHAPES)
def test_size_in_torch(case: str, source: Callable[[Case], World], dynamic: bool | None) -> None:
    check(lambda: source(SHAPES[case]), dynamic)
