"""What a decision costs after it was made: nothing. A call that an entry serves, by who made its
size dynamic: `compile(dynamic=True)` (plain), a mark, the list of sources, the profile, ranks that
would be asked, a shape contract; and an integer, plain and as a `DynamicInt`.

All take turns in each round, in another order each time; the median of the differences to the plain
one counts. `noise_us` is what comes out for a second plain one: the machine is shared.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

import anyshape
from anyshape import DynamicInt, config

ROUNDS, CALLS = 81, 600
SIZE = 30

Call = Callable[[], object]


def function(x: torch.Tensor) -> torch.Tensor:
    return x * x.size()[0]


def times(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def plain(x: torch.Tensor) -> Call:
    compiled = anyshape.compile(function, dynamic=True)
    return lambda: compiled(x)


def marked(x: torch.Tensor) -> Call:
    compiled = anyshape.compile(function)
    anyshape.mark_dynamic(x, 0)
    return lambda: compiled(x)


def automatic(x: torch.Tensor) -> Call:
    """With the list, the profile, or the ranks in force."""
    compiled = anyshape.compile(function)
    return lambda: compiled(x)


def contract(x: torch.Tensor) -> Call:
    compiled = anyshape.compile(function, shapes={"x": "n"})
    return lambda: compiled(x)


def integer(x: torch.Tensor) -> Call:
    compiled = anyshape.compile(times, dynamic=True)
    return lambda: compiled(x, 7)


def dynamic_int(x: torch.Tensor) -> Call:
    compiled = anyshape.compile(times, dynamic=True)
    n = DynamicInt(7)
    return lambda: compiled(x, n)


#: By name: what makes the call, and the settings that it is compiled and called under.
CASES: dict[str, tuple[Callable[[torch.Tensor], Call], dict[str, object]]] = {
    "plain": (plain, {}),
    "noise": (plain, {}),
    "mark": (marked, {}),
    "sources": (automatic, {"dynamic_sources": "L['x']"}),
    "profile": (automatic, {"profile": True}),
    "ranks": (plain, {"enable_compiler_collectives": True}),
    "contract": (contract, {}),
    "int": (integer, {}),
    "dynamic_int": (dynamic_int, {}),
}
#: What each is compared with, if not with the plain one.
BASE = {"dynamic_int": "int"}


def settings(name: str) -> AbstractContextManager[object]:
    return config.patch(**{"profile": False, **CASES[name][1]})


def learn() -> None:
    """What the profile knows."""
    with config.patch(profile=True):
        compiled = anyshape.compile(function)
        for size in (10, 20):
            compiled(torch.ones(size))
        anyshape.reset()


def ready(name: str) -> Call:
    """The call, after what makes its entry, and after the first hits."""
    with settings(name):
        call = CASES[name][0](torch.ones(SIZE))
        for _ in range(100):
            call()
    return call


def microseconds(call: Call) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - started) / CALLS


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, config.patch(cache_dir=folder):
        learn()
        calls = {name: ready(name) for name in CASES}
        found: dict[str, list[float]] = {name: [] for name in calls}
        order, shuffle = list(calls), random.Random(0).shuffle
        for _ in range(ROUNDS):
            shuffle(order)
            for name in order:
                with settings(name):
                    found[name].append(microseconds(calls[name]))
        anyshape.reset()
    return {
        "plain_us": statistics.median(found["plain"]),
        "int_us": statistics.median(found["int"]),
        "more_us": {
            name: statistics.median(
                mine - other
                for mine, other in zip(found[name], found[BASE.get(name, "plain")], strict=True)
            )
            for name in found
            if name not in ("plain", "int")
        },
    }
