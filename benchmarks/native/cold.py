"""The first call in a process that has imported torch (and what the model needs) and no compiler.

The clock runs from before the compiler is imported until the first result is there; what the second
call takes longer than the third is added, since a compiler may put work off. Caches are folders of
the caller's choice: empty ones for a cold start, used ones for a warm start.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.native.agree import disagreement
from benchmarks.native.child import in_child
from benchmarks.native.systems import EAGER, OURS, SYSTEMS
from benchmarks.native.workload import Workload


def first_call(
    workload: Workload,
    system: str,
    caches: Path,
    threads: int,
    layers: int | None = None,
    limit: float = 600,
) -> dict[str, float]:
    """Seconds of the first call and of the third, in a child of its own."""
    given = (workload, system, threads, layers)
    return in_child(_first_call, *given, environment=environment(caches), limit=limit)


def environment(caches: Path) -> dict[str, str]:
    """Variables that send what a system keeps on disk into a folder."""
    return {
        "ANYSHAPE_CACHE_DIR": str(caches / "anyshape"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }


def _first_call(
    workload: Workload, system: str, threads: int, layers: int | None
) -> dict[str, float]:
    torch.set_num_threads(threads)
    with torch.no_grad():
        function = workload.built() if layers is None else _deep(workload, layers)
        args = workload.arguments(workload.order[0])
        settle = workload.settle or _settled
        settle()
        gc.collect()
        start = time.perf_counter()
        compiled = SYSTEMS[system].compile(function)
        result = compiled(*args)
        settle()
        first = time.perf_counter() - start
        second, third = _seconds(compiled, args, settle), _seconds(compiled, args, settle)
        strides, close = system == OURS, workload.close
        difference = disagreement(result, function(*args), strides=strides, close=close)
        if difference and system != EAGER:
            raise AssertionError(f"WRONG in the first call: {difference}")
    return {"first": first + max(0.0, second - third), "third": third}


def _seconds(
    function: Callable[..., Any], args: Sequence[Any], settle: Callable[[], None]
) -> float:
    start = time.perf_counter()
    function(*args)
    settle()
    return time.perf_counter() - start


def _settled() -> None:
    """Results of the processor are there when a call returns."""


def _deep(workload: Workload, layers: int) -> Callable[..., Any]:
    assert workload.with_layers is not None, f"{workload.name} has no layers"
    torch.manual_seed(0)
    return workload.with_layers(layers)
