"""CPU milliseconds to capture a model, against `torch.compile(backend="eager")`, in one process.

Both compile the same model at the same sizes and run the captured graph operator by operator, so
that only capture, guards and dispatch are measured. For each model the two take turns, static and
dynamic: first cold (nothing of this model's code seen before in the process), then again after a
reset. A figure is the processor time of the first call (the machine is shared, so the clock on the
wall says little) less that of an eager call. What is imported lazily is imported before, by
compiling a small module. A model that one of the two ran without a graph is named, and counts in no
mean.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch import nn

import anyshape
from tests.zoo.models import BY_NAME, Row
from tests.zoo.nets import MLP

MODELS = (
    "Llama",
    "Llama use_cache",
    "Llama cache passed in",
    "GPT2",
    "BERT",
    "T5",
    "Mistral",
    "Qwen2",
    "Whisper",
    "ViT",
    "CLIP",
    "Mixtral",
    "nn.TransformerEncoder",
    "nn.LSTM",
    "ResNet",
)
PAIR = (2, 8)
#: Compiles after a reset; the least of them counts, since the machine is shared.
_WARM = 2


def _anyshape(module: nn.Module, dynamic: bool) -> Callable[..., Any]:
    return anyshape.compile(module, dynamic=dynamic, backend="eager")


def _torch(module: nn.Module, dynamic: bool) -> Callable[..., Any]:
    return torch.compile(module, dynamic=dynamic, backend=_counting)


def _counting(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """torch's own backend "eager", which also counts: it may skip a whole model."""
    _torch_graphs.append(len(graph.graph.nodes))
    return graph.forward


_torch_graphs: list[int] = []


@dataclass(frozen=True)
class System:
    compile: Callable[[nn.Module, bool], Callable[..., Any]]
    reset: Callable[[], None]


SYSTEMS = {
    "anyshape": System(_anyshape, anyshape.reset),
    "torch": System(_torch, torch._dynamo.reset),
}


def run() -> dict[str, Any]:
    """Times and their ratio for each model, and the geometric means of the ratios."""
    torch.set_num_threads(1)
    with warnings.catch_warnings(), anyshape.config.patch(profile=False), torch.no_grad():
        warnings.simplefilter("ignore")
        for system in SYSTEMS.values():
            for dynamic in (False, True):
                system.compile(MLP().eval(), dynamic)(torch.randn(2, 16))
        found = {name: _model(BY_NAME[name]) for name in MODELS}
    compared = {name: cells for name, cells in found.items() if "no graph" not in cells}
    means = {
        f"{mode} {state}": _geometric_mean([c[f"{mode} {state} ratio"] for c in compared.values()])
        for mode in ("static", "dynamic")
        for state in ("cold", "warm")
    }
    return {
        "models": found,
        "times faster than torch.compile, geometric mean": means,
        "models in the mean": len(compared),
        "without a graph": {n: c["no graph"] for n, c in found.items() if "no graph" in c},
    }


def _model(row: Row) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    module = row.module().eval()
    eager = min(_seconds(module, row)[0] for _ in range(5))
    for mode, dynamic in (("static", False), ("dynamic", True)):
        for state, repeats in (("cold", 1), ("warm", _WARM)):
            taken: dict[str, list[float]] = {name: [] for name in SYSTEMS}
            for _ in range(repeats):
                for name, system in SYSTEMS.items():
                    seconds, problem = _compile_time(system, module, row, dynamic)
                    taken[name].append(max(seconds - eager, 1e-6))
                    if problem:
                        cells["no graph"] = f"{name}: {problem}"
            for name, values in taken.items():
                cells[f"{mode} {state} {name} ms"] = min(values) * 1e3
            cells[f"{mode} {state} ratio"] = min(taken["torch"]) / min(taken["anyshape"])
    return cells


def _compile_time(system: System, module: nn.Module, row: Row, dynamic: bool) -> tuple[float, str]:
    """Of the first call, and what kept it from making a graph."""
    system.reset()
    _torch_graphs.clear()
    compiled: Any = system.compile(module, dynamic)
    gc.collect()
    seconds, problem = _seconds(compiled, row)
    graphs = compiled.stats().graphs if system is SYSTEMS["anyshape"] else len(_torch_graphs)
    return seconds, problem or ("" if graphs else "ran eagerly")


def _seconds(function: Callable[..., Any], row: Row) -> tuple[float, str]:
    args, kwargs = row.call(PAIR)
    start = time.process_time()
    try:
        function(*args, **kwargs)
        problem = ""
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"[:120]
    return time.process_time() - start, problem


def _geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan
