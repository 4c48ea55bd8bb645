"""Microseconds to infer an operator's result in symbols, by own rule: one figure a row of the
table, and their median.

Calls are taken from torch's own samples (op_db), with a symbol for each size of at least 2. A row's
figure is the median over its calls; a call's figure is the least of several repeats, since the
machine is shared.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from anyshape.errors import AnyshapeError
from anyshape.ops.infer import infer
from anyshape.ops.meta import of_tensor
from anyshape.ops.table import ROWS, lookup
from anyshape.symbolic import Facts, Size, symbol
from tests.ops.driver import SideBySide

_REPEATS = 7
_CALLS = 20
_SAMPLES = 3

Recorded = tuple[Facts, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Recorder(SideBySide):
    """Keeps each call of an operator with a row as the rule gets it."""

    def __init__(self, facts: Facts, kept: dict[str, list[Recorded]]) -> None:
        super().__init__(facts)
        self.kept = kept

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        entry = lookup(func)
        if entry is None:  # Without a row: nothing to time, and its result is taken as it is.
            return func(*args, **(kwargs or {}))
        call = (self.facts, func, self._in_symbols(args), self._in_symbols(kwargs or {}))
        self.kept.setdefault(entry.op.name, []).append(call)
        return super().__torch_function__(func, types, args, kwargs)


def _recorded() -> dict[str, list[Recorded]]:
    """Calls by row."""
    kept: dict[str, list[Recorded]] = {}
    for info in op_db:
        if torch.float32 not in info.dtypes:
            continue
        for sample in _samples(info):
            tensors = list(_tensors((sample.input, sample.args, sample.kwargs)))
            facts = Facts()
            for size in {size for tensor in tensors for size in tensor.shape if size >= 2}:
                facts = facts.declare(symbol(f"d{size}"), size)
            recorder = _Recorder(facts, kept)
            for tensor in tensors:
                if tensor.layout is torch.strided:
                    recorder.know(tensor, of_tensor(tensor, _symbolic(tensor.shape)))
            try:
                with recorder:
                    info.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue  # The sweep judges operators; here only those that work are timed.
    return kept


def _symbolic(shape: torch.Size) -> tuple[Size, ...]:
    return tuple(symbol(f"d{size}") if size >= 2 else size for size in shape)


def _samples(info: Any) -> Iterator[Any]:
    for number, sample in enumerate(info.sample_inputs("cpu", torch.float32)):
        if number >= _SAMPLES:
            return
        yield sample


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _microseconds(call: Recorded) -> float | None:
    facts, function, args, kwargs = call
    best: float | None = None
    try:
        for _ in range(_REPEATS):
            start = time.perf_counter()
            for _ in range(_CALLS):
                infer(facts, function, args, kwargs)
            taken = (time.perf_counter() - start) / _CALLS * 1e6
            best = taken if best is None else min(best, taken)
    except AnyshapeError:
        return None
    return best


def run() -> dict[str, Any]:
    """The median over rows, and the slowest rows."""
    rows: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = _recorded()
    for name, calls in recorded.items():
        timed = [taken for taken in map(_microseconds, calls[:4]) if taken is not None]
        if timed:
            rows[name] = statistics.median(timed)
    slowest = sorted(rows.items(), key=lambda row: -row[1])[:10]
    return {
        "rows in the table": len(ROWS),
        "rows timed": len(rows),
        "median us/operator": statistics.median(rows.values()),
        "90th percentile us/operator": statistics.quantiles(rows.values(), n=10)[-1],
        "share of rows at most 10 us": sum(us <= 10 for us in rows.values()) / len(rows),
        "slowest rows, us": {name: round(us, 1) for name, us in slowest},
    }
