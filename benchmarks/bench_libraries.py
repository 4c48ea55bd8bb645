"""Models of other libraries: graphs and compile seconds of six calls at six shapes, and how much
faster than eager a call is after that. Prints a table.

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
from tests.zoo.libraries import LIBRARIES, rows
from tests.zoo.models import Row

_REPEATS = 7


def _seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def measured(row: Row) -> str:
    """A line of the table."""
    module = row.module()
    compiled = anyshape.compile(module)
    with torch.no_grad():
        for pair in row.pairs[:6]:
            args, kwargs = row.inputs(*pair)
            compiled(*args, **kwargs)
        args, kwargs = row.inputs(*row.pairs[0])
        compiled(*args, **kwargs)
        times = [
            (
                _seconds(lambda: module(*args, **kwargs)),
                _seconds(lambda: compiled(*args, **kwargs)),
            )
            for _ in range(_REPEATS)
        ]
    eager, ours = (min(each) for each in zip(*times, strict=True))
    stats = compiled.stats()
    whole = "no" if stats.in_parts or stats.eager_calls else "yes"
    return (
        f"| {row.name} | {whole} | {stats.graphs} | {stats.compile_seconds:.1f} |"
        f" {eager / ours:.2f} |"
    )


def main(part: int = 0, parts: int = 1) -> None:
    warnings.simplefilter("ignore")
    print("| model | whole | graphs | compile s | times eager |\n|---|---|---|---|---|")
    every = [row for library in LIBRARIES for row in rows(library)]
    for row in every[part::parts]:
        print(measured(row), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
