"""Models of other libraries: graphs and compile seconds of six calls at six shapes, and how much
faster than eager a call, and a step of training without its optimizer, is after that. Prints a
table.

Not among `python -m benchmarks`, since the libraries come with the slow tests only:
`python -m benchmarks.bench_libraries [PART OF PARTS]`, a few minutes for all.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import anyshape
from anyshape.runtime.loader.workers import workers
from tests.zoo.libraries import LIBRARIES, rows
from tests.zoo.models import Row
from tests.zoo.trial import loss

_REPEATS = 7


def _seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _times_eager(eager: Callable[[], Any], ours: Callable[[], Any]) -> float:
    ours()
    times = [(_seconds(eager), _seconds(ours)) for _ in range(_REPEATS)]
    slow, quick = (min(each) for each in zip(*times, strict=True))
    return slow / quick


def measured(row: Row) -> str:
    """A line of the table."""
    module = row.module()
    compiled: Any = anyshape.compile(module)
    args, kwargs = row.inputs(*row.pairs[0])
    with torch.no_grad():
        for pair in row.pairs[:6]:
            other, named = row.inputs(*pair)
            compiled(*other, **named)
        stats = compiled.stats()
        workers.finish()  # threads may be at code that no call has asked for yet
        called = _times_eager(lambda: module(*args, **kwargs), lambda: compiled(*args, **kwargs))
    whole = "no" if stats.in_parts or stats.eager_calls else "yes"
    return (
        f"| {row.name} | {whole} | {stats.graphs} | {stats.compile_seconds:.1f} |"
        f" {called:.2f} | {_training(row):.2f} |"
    )


def _training(row: Row) -> float:
    """How much faster than eager forward and backward are."""
    module = row.module().train()
    compiled = anyshape.compile(module)

    def step(function: Any, pair: tuple[int, int]) -> None:
        module.zero_grad()
        args, kwargs = row.inputs(*pair)
        loss(function(*args, **kwargs)).backward()

    first, second, *_ = row.pairs
    step(compiled, first)
    step(compiled, second)
    workers.finish()
    return _times_eager(lambda: step(module, first), lambda: step(compiled, first))


def main(part: int = 0, parts: int = 1) -> None:
    warnings.simplefilter("ignore")
    print("| model | whole | graphs | compile s | times eager | training |")
    print("|---|---|---|---|---|---|")
    every = [row for library in LIBRARIES for row in rows(library)]
    for row in every[part::parts]:
        print(measured(row), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
