"""Programs and specs: what is exported, where it has to be right, what has to be refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyshape import Dim, Shapes

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """`inside` and `outside` are sizes, given to `make`; the first one inside is the example."""

    name: str
    function: Callable[..., Any]
    make: Callable[..., Args]
    spec: Any
    inside: Sequence[tuple[int, ...]]
    outside: Sequence[tuple[int, ...]]


# -- programs --------------------------------------------------------------------------------------


def equal(x: Tensor, y: Tensor) -> Tensor:
    return x + y * 2


def derived(x: Tensor, y: Tensor) -> Tensor:
    return x.repeat(2) + y[1:]


def broadcast(x: Tensor, y: Tensor) -> Tensor:
    return x[:, None] * y[None, :] + x.shape[0]


def divisible(x: Tensor) -> Tensor:
    return x.view(8, -1).sum(0)


def sliced(x: Tensor) -> Tensor:
    return x[: x.shape[0] // 2].relu() + x.shape[0]


def concatenated(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y, x]).cumsum(0)


def data_dependent(x: Tensor) -> Tensor:
    return x[x > 0].exp().sum() + x.nonzero().shape[0]


def one(n: int) -> Args:
    return (torch.randn(n),)


def two(n: int, m: int) -> Args:
    return torch.randn(n), torch.randn(m)


def both(*sizes: int) -> list[tuple[int, ...]]:
    return [(n, n) for n in sizes]


def odd(*sizes: int) -> list[tuple[int, ...]]:
    return [(n, 2 * n + 1) for n in sizes]


def each(*sizes: int) -> list[tuple[int, ...]]:
    return [(n,) for n in sizes]


n, m, k = Dim("n", min=2, max=20), Dim("m", max=9), Dim("k", max=6)
free = Dim("free")
A, D, S = Dim.AUTO, Dim.DYNAMIC, Dim.STATIC
SAME = both(6, 6, 6, 6, 6)


# -- every spec kind, by what the program does with the sizes --------------------------------------

_EQUAL = [
    ("dims", {"x": (n,), "y": (n,)}, both(6, 2, 3, 19, 20), [(1, 1), (21, 21)]),
    ("dim by position", ((n,), (n,)), both(3, 2, 7, 8, 20), [(5, 6), (0, 0)]),
    ("dim by dimension", {"x": {0: free}, "y": {0: free}}, both(6, 0, 1, 2, 50), [(2, 3), (1, 2)]),
    ("lists", [[free], [free]], both(6, 0, 1, 2, 9), [(2, 1), (3, 2)]),
    ("auto", {"x": (A,), "y": (A,)}, both(6, 0, 1, 2, 33), [(2, 3), (4, 1)]),
    ("auto whole", {"x": A, "y": A}, both(4, 0, 1, 2, 33), [(2, 3), (4, 1)]),
    ("auto and dim", {"x": (A,), "y": {0: n}}, both(6, 2, 3, 4, 20), [(1, 1), (21, 21)]),
    ("auto and dynamic", ({0: A}, {0: D}), both(6, 0, 1, 2, 33), [(2, 3), (1, 4)]),
    ("by position in a dict", {0: (n,), 1: {-1: n}}, both(6, 2, 3, 4, 20), [(1, 1), (21, 21)]),
    (
        "derived dims",
        {"x": (2 * k + 1,), "y": (2 * k + 1,)},
        both(7, 1, 3, 11, 13),
        [(4, 4), (15, 15)],
    ),
    ("words", {"x": "n", "y": "n"}, both(6, 0, 1, 2, 9), [(2, 1), (3, 2)]),
    ("ints", {"x": (6,), "y": (6,)}, SAME, [(5, 5), (7, 7)]),
    ("static", {"x": (S,), "y": None}, SAME, [(5, 5), (1, 6)]),
    ("nothing", None, SAME, [(5, 5), (1, 1)]),
    (
        "relations",
        Shapes({"x": "n", "y": "n"}, "n % 2 == 0", "n <= 8"),
        both(6, 0, 2, 4, 8),
        [(3, 3), (10, 10)],
    ),
]
_DERIVED = [
    ("dims", {"x": (n,), "y": (2 * n + 1,)}, odd(3, 2, 5, 19, 20), [(1, 3), (4, 8)]),
    ("by dimension", {"x": {0: k}, "y": {0: 2 * k + 1}}, odd(3, 0, 1, 2, 6), [(7, 15), (3, 6)]),
    ("words", {"x": "a", "y": "2*a+1"}, odd(3, 0, 1, 2, 9), [(3, 8), (1, 2)]),
    ("auto", {"x": (A,), "y": (A,)}, odd(3, 0, 1, 2, 9), [(3, 8), (2, 7)]),
    ("auto and dim", {"x": (n,), "y": (A,)}, odd(3, 2, 5, 6, 20), [(1, 3), (21, 43)]),
    ("auto and dynamic", ((D,), (A,)), odd(3, 0, 1, 2, 9), [(3, 8), (2, 7)]),
    ("auto whole", {"x": A, "y": A}, odd(3, 0, 1, 2, 9), [(3, 8), (2, 7)]),
    ("lists", [[k], [2 * k + 1]], odd(3, 0, 1, 2, 6), [(7, 15), (3, 6)]),
    ("nothing", None, odd(3, 3, 3, 3, 3), [(2, 5), (4, 9)]),
    ("static", {"x": (S,), "y": (S,)}, odd(3, 3, 3, 3, 3), [(2, 5), (4, 9)]),
    ("ints", ((3,), (7,)), odd(3, 3, 3, 3, 3), [(2, 5), (4, 9)]),
    (
        "relations",
        Shapes({"x": "a", "y": "b"}, "b == 2*a + 1"),
        odd(3, 0, 1, 2, 9),
        [(3, 8), (1, 2)],
    ),
]
_BROADCAST = [
    ("dims", {"x": (n,), "y": (m,)}, [(3, 4), (2, 0), (20, 1), (5, 9), (4, 4)], [(1, 4), (3, 10)]),
    (
        "one dim",
        {"x": (n,), "y": None},
        [(3, 4), (2, 4), (20, 4), (5, 4), (4, 4)],
        [(3, 5), (21, 4)],
    ),
    ("auto", {"x": (A,), "y": (A,)}, [(3, 4), (0, 0), (1, 1), (0, 5), (7, 1)], []),
    ("dynamic", {"x": (D,), "y": (D,)}, [(3, 4), (0, 0), (1, 1), (0, 5), (7, 1)], []),
    (
        "auto and static",
        {"x": (A,), "y": (S,)},
        [(3, 4), (0, 4), (1, 4), (9, 4), (2, 4)],
        [(3, 5), (3, 1)],
    ),
    ("same dim", {"x": (free,), "y": (free,)}, both(3, 0, 1, 2, 9), [(3, 4), (1, 2)]),
    ("words", ("a", "b"), [(3, 4), (0, 0), (1, 1), (0, 5), (7, 1)], []),
    ("ints", {"x": (3,), "y": (4,)}, [(3, 4)] * 5, [(3, 5), (2, 4)]),
    ("nothing", None, [(3, 4)] * 5, [(3, 5), (1, 4)]),
    ("lists", [[n], [4]], [(3, 4), (2, 4), (20, 4), (5, 4), (4, 4)], [(1, 4), (3, 5)]),
    (
        "relations",
        Shapes({"x": "a", "y": "b"}, "a <= b", "b <= 9"),
        [(3, 4), (0, 0), (1, 1), (0, 9), (9, 9)],
        [(4, 3), (1, 10)],
    ),
    (
        "derived",
        {"x": (m,), "y": (3 * m,)},
        [(2, 6), (0, 0), (1, 3), (9, 27), (3, 9)],
        [(2, 5), (10, 30)],
    ),
]
_DIVISIBLE = [
    ("derived dim", {"x": (8 * k,)}, each(16, 0, 8, 40, 48), [(12,), (56,)]),
    ("relation", Shapes({"x": (free,)}, free % 8 == 0), each(16, 0, 8, 40, 800), [(12,), (1,)]),
    ("words", {"x": "8*a"}, each(16, 0, 8, 24, 80), [(12,), (1,)]),
    ("auto", {"x": (A,)}, each(16, 0, 8, 24, 80), [(12,), (1,)]),
    ("auto whole", {"x": A}, each(8, 0, 16, 24, 80), [(9,), (1,)]),
    ("by dimension", {"x": {0: 8 * k}}, each(16, 0, 8, 40, 48), [(15,), (56,)]),
    ("twice", {"x": (16 * k,)}, each(16, 0, 32, 80, 96), [(8,), (112,)]),
    ("static", {"x": (S,)}, each(16, 16, 16, 16, 16), [(8,), (24,)]),
    ("int", {"x": (16,)}, each(16, 16, 16, 16, 16), [(8,), (0,)]),
    ("nothing", None, each(8, 8, 8, 8, 8), [(16,), (0,)]),
]
_SLICED = [
    ("dim", {"x": (n,)}, each(6, 2, 3, 19, 20), [(1,), (21,)]),
    ("by dimension", {"x": {0: free}}, each(6, 0, 1, 2, 99), []),
    ("list", [(n,)], each(6, 2, 3, 19, 20), [(0,), (22,)]),
    ("auto", {"x": (A,)}, each(6, 0, 1, 2, 99), []),
    ("dynamic", {"x": (D,)}, each(6, 0, 1, 2, 99), []),
    ("derived", {"x": (2 * m + 1,)}, each(7, 1, 3, 17, 19), [(4,), (21,)]),
    ("triple", {"x": (3 * m,)}, each(6, 0, 3, 24, 27), [(4,), (30,)]),
    ("int", {"x": (6,)}, each(6, 6, 6, 6, 6), [(5,), (7,)]),
    ("nothing", None, each(6, 6, 6, 6, 6), [(0,), (7,)]),
    ("relation", Shapes({"x": "a"}, "a % 3 == 1", "a < 20"), each(7, 1, 4, 16, 19), [(6,), (22,)]),
    ("static", {"x": None}, each(6, 6, 6, 6, 6), [(5,), (7,)]),
    ("words", {"x": "a"}, each(6, 0, 1, 2, 99), []),
]
_CONCATENATED = [
    ("dims", {"x": (n,), "y": (m,)}, [(3, 4), (2, 0), (20, 1), (5, 9), (4, 4)], [(1, 4), (3, 10)]),
    ("same dim", {"x": (free,), "y": (free,)}, both(3, 0, 1, 2, 9), [(3, 4), (0, 1)]),
    ("auto", {"x": (A,), "y": (A,)}, [(3, 4), (0, 0), (1, 1), (0, 5), (7, 1)], []),
    ("dynamic", ((D,), (D,)), [(3, 4), (0, 0), (1, 1), (0, 5), (7, 1)], []),
    ("ints", {"x": {0: 3}, "y": {0: 4}}, [(3, 4)] * 5, [(3, 5), (2, 4)]),
    ("auto and dim", [[n], [A]], [(3, 4), (2, 0), (20, 1), (5, 9), (4, 4)], [(1, 4), (21, 1)]),
    (
        "relations",
        Shapes({"x": "a", "y": "b"}, "a + b == 7"),
        [(3, 4), (0, 7), (7, 0), (1, 6), (6, 1)],
        [(3, 5), (7, 1)],
    ),
    (
        "derived",
        {"x": (m,), "y": (m + 1,)},
        [(2, 3), (0, 1), (1, 2), (9, 10), (3, 4)],
        [(2, 2), (10, 11)],
    ),
    (
        "one static",
        {"x": (A,), "y": (S,)},
        [(3, 4), (0, 4), (1, 4), (9, 4), (2, 4)],
        [(3, 5), (3, 0)],
    ),
    (
        "halves",
        {"x": (free,), "y": (free // 2,)},
        [(7, 3), (0, 0), (1, 0), (8, 4), (2, 1)],
        [(7, 4), (1, 1)],
    ),
    ("nothing", None, [(3, 4)] * 5, [(3, 5), (2, 4)]),
    ("words", ("a", "2*a"), [(3, 6), (0, 0), (1, 2), (4, 8), (2, 4)], [(3, 5), (1, 1)]),
]
_DATA_DEPENDENT = [
    ("dim", {"x": (n,)}, each(6, 2, 3, 19, 20), [(1,), (21,)]),
    ("by dimension", {"x": {0: free}}, each(6, 0, 1, 2, 99), []),
    ("auto", {"x": (A,)}, each(6, 0, 1, 2, 99), []),
    ("dynamic", {"x": (D,)}, each(6, 0, 1, 2, 99), []),
    ("derived", {"x": (2 * m + 1,)}, each(7, 1, 3, 17, 19), [(4,), (21,)]),
    ("static", {"x": (S,)}, each(6, 6, 6, 6, 6), [(5,), (7,)]),
    ("int", [(6,)], each(6, 6, 6, 6, 6), [(5,), (7,)]),
    ("words", {"x": "a"}, each(6, 0, 1, 2, 99), []),
    ("relation", Shapes({"x": "a"}, "a >= 3"), each(6, 3, 4, 5, 99), [(2,), (0,)]),
    ("lists", [[n]], each(6, 2, 3, 19, 20), [(0,), (22,)]),
    ("nothing", None, each(6, 6, 6, 6, 6), [(5,), (7,)]),
]

PAIRS = [
    Pair(f"{function.__name__}: {name}", function, make, spec, inside, outside)
    for function, make, rows in (
        (equal, two, _EQUAL),
        (derived, two, _DERIVED),
        (broadcast, two, _BROADCAST),
        (divisible, one, _DIVISIBLE),
        (sliced, one, _SLICED),
        (concatenated, two, _CONCATENATED),
        (data_dependent, one, _DATA_DEPENDENT),
    )
    for name, spec, inside, outside in rows
]
