"""What a boundary costs on a hit: a call that cannot be traced, between small tensor operations.

A function with k such calls is compared with its pieces, each compiled by hand and called with the
same calls in between: what is left is the cost of going from one piece to the next by itself. They
are timed in turns, and the least of many rounds is taken, since the machine is shared. The call is
`time.perf_counter`, which does next to nothing.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

import anyshape

#: The most microseconds that a boundary may add beyond the call itself.
AIM: Final = 3.0
_COUNTS: Final = (1, 3, 10)
_ROUNDS: Final = 40
_CALLS: Final = 25
_SIZES: Final = (8, 16, 24)


def _piece(number: int) -> str:
    return f"x = (x * 0.5 + {number}).relu() - 0.25"


def _function(source: str, name: str) -> Callable[..., Any]:
    """A function of a text, which capture can read."""
    file = f"<boundaries {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"time": time}
    exec(compile(source, file, "exec"), scope)
    return scope["f"]


def whole(count: int) -> Callable[[Tensor], Tensor]:
    """All in one function."""
    lines = [f"    {_piece(0)}"]
    for number in range(1, count + 1):
        lines += ["    time.perf_counter()", f"    {_piece(number)}"]
    body = "\n".join(lines)
    return _function(f"def f(x):\n{body}\n    return x\n", f"{count}")


def pieces(count: int) -> list[Callable[[Tensor], Tensor]]:
    return [
        _function(f"def f(x):\n    {_piece(number)}\n    return x\n", f"{count}, {number}")
        for number in range(count + 1)
    ]


def by_hand(parts: list[Any]) -> Callable[[Tensor], Tensor]:
    first, *others = parts

    def run(x: Tensor) -> Tensor:
        x = first(x)
        for part in others:
            time.perf_counter()
            x = part(x)
        return x

    return run


def _microseconds(function: Callable[[Tensor], Tensor], x: Tensor) -> float:
    start = time.perf_counter()
    for _ in range(_CALLS):
        function(x)
    return (time.perf_counter() - start) / _CALLS * 1e6


def measure(count: int) -> dict[str, Any]:
    eager = whole(count)
    compiled = anyshape.compile(whole(count))
    hand = by_hand([anyshape.compile(piece) for piece in pieces(count)])
    systems: dict[str, Callable[[Tensor], Tensor]] = {
        "eager": eager,
        "compiled": compiled,
        "pieces": hand,
    }
    for size in _SIZES:
        x = torch.randn(size, 8)
        expected = eager(x)
        for _ in range(3):
            assert all(torch.allclose(system(x), expected) for system in systems.values())
    taken: dict[str, list[float]] = {name: [] for name in systems}
    x = torch.randn(_SIZES[-1], 8)
    for _ in range(_ROUNDS):
        for name, system in systems.items():
            taken[name].append(_microseconds(system, x))
    least = {name: min(each) for name, each in taken.items()}
    made = compiled.stats()
    per_boundary = (least["compiled"] - least["pieces"]) / count
    return {
        **{f"{name} us": value for name, value in least.items()},
        "us a boundary, beyond pieces by hand": per_boundary,
        "us a boundary, beyond eager": (least["compiled"] - least["eager"]) / count,
        "graphs": made.graphs,
        "within the aim": bool(made.graphs > count and per_boundary <= AIM),
    }


def run() -> dict[str, Any]:
    with anyshape.config.patch(profile=False):
        return {f"{count} boundaries": measure(count) for count in _COUNTS}
