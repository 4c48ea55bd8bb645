"""What a trace costs: compiles with ANYSHAPE_TRACE against compiles without, and calls that an
entry serves.

Compiles with and without take turns, in another order each time. CPU time counts, since the machine
is shared, and the median of the ratios of neighbours. `compile` is by how much the call that
compiles takes longer; `with_writing` has in it what a thread does later: texts and files. `cold`
makes native code, `warm` finds it on disk. `noise` compares compiles without a trace.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import anyshape
from anyshape import config
from anyshape.events.stream import stream
from anyshape.events.trace import TraceSink, start_trace
from anyshape.runtime.loader.workers import workers

ROUNDS, CALLS = 31, 2000


def small(x: torch.Tensor) -> torch.Tensor:
    if x.size(0) > 4:
        return torch.relu(x) * x.size(0) + 1
    return x


class Block(torch.nn.Module):
    """A transformer block."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.inputs, self.output = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.inputs(self.before(x)).view(batch, length, 3, 4, width // 4)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.between(x))))


CASES: dict[str, tuple[Callable[..., torch.Tensor], torch.Tensor]] = {
    "small": (small, torch.rand(30, 8)),
    "block": (Block().eval(), torch.rand(2, 7, 32)),
}


class Times:
    """CPU seconds of one compile: of the call, and with what is written later."""

    def __init__(
        self, function: Callable[..., torch.Tensor], x: torch.Tensor, sink: TraceSink | None
    ) -> None:
        compiled = anyshape.compile(function, dynamic=True)
        stop = nothing if sink is None else stream.subscribe(sink)
        everything, calling = time.process_time(), time.thread_time()
        compiled(x)
        self.calling = time.thread_time() - calling
        stop()
        if sink is not None:
            sink.flush()
        workers.finish()
        self.everything = time.process_time() - everything


def nothing() -> None: ...


def growth(name: str, cold: bool) -> dict[str, float]:
    function, x = CASES[name]
    found: dict[str, list[Times]] = {"off": [], "noise": [], "on": []}
    rounds = ROUNDS // 3 if cold else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        sink = TraceSink(Path(folder, "trace"))
        for number in range(-2, rounds):
            for kind in random.sample(sorted(found), len(found)):
                cache = str(Path(folder, f"{number}-{kind}" if cold else "cache"))
                with config.patch(profile=False, cache_dir=cache), torch.no_grad():
                    times = Times(function, x, sink if kind == "on" else None)
                if number >= 0:  # the first warm the caches of Python and torch
                    found[kind].append(times)
        sink.close()
    return {
        "compile_ms": statistics.median(each.calling for each in found["off"]) * 1e3,
        "compile_percent": percent(found["off"], found["on"], lambda t: t.calling),
        "with_writing_percent": percent(found["off"], found["on"], lambda t: t.everything),
        "noise_percent": percent(found["off"], found["noise"], lambda t: t.calling),
    }


def percent(before: list[Times], after: list[Times], of: Callable[[Times], float]) -> float:
    ratios = [of(b) / of(a) for a, b in zip(before, after, strict=True)]
    return (statistics.median(ratios) - 1) * 100


def hit() -> dict[str, float]:
    """A call that an entry serves: one that was compiled without a trace, and one with it, since
    what an entry tells of its calls is decided when it is compiled."""
    x = torch.rand(30, 8)
    plain, told = (anyshape.compile(small, dynamic=True) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder, config.patch(profile=False):
        plain(x)
        stop = start_trace(folder)
        told(x)
        off, on = [], []
        for _ in range(ROUNDS):
            off.append(call_us(plain, x))
            on.append(call_us(told, x))
        stop()
    differences = [b - a for a, b in zip(off, on, strict=True)]
    return {"hit_us": statistics.median(off), "more_us": statistics.median(differences)}


def call_us(call: Callable[..., object], x: torch.Tensor) -> float:
    began = time.thread_time()
    for _ in range(CALLS):
        call(x)
    return (time.thread_time() - began) / CALLS * 1e6


def run() -> dict[str, object]:
    grown = {
        f"{name}_{'cold' if cold else 'warm'}": growth(name, cold)
        for name in CASES
        for cold in (True, False)
    }
    return {**grown, "hit": hit()}
