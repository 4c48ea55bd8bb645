"""CPU microseconds that a compiled call adds to an eager one, against torch.compile's.

Both run the captured graph operator by operator (backend "eager").

Two figures for each subject. *Over eager*: a hit, less the plain call; it may be negative, since a
graph calls operators without the modules around them. *Dispatch alone*: a hit with a backend that
returns the answer of the first call, so that only guards, arguments and result are left. Rounds of
eager, anyshape and torch follow one another, and medians of the rounds are compared.

*Growth*: the same transformer from 2 to 64 layers; the exponent is that of a power of the depth, so
1 is linear and 0 is no growth.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor

import anyshape
from tests.zoo.nets import MLP, Transformer

_ROUNDS = 15
_SECONDS_A_ROUND = 0.02
_DEPTHS = (2, 4, 8, 16, 32, 64)

Subject = tuple[Callable[..., Any], tuple[Any, ...]]


def two_arguments(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 + y


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "function of 2 arguments": lambda: (two_arguments, (torch.randn(4), torch.randn(4))),
    "MLP of 24 layers": lambda: (MLP(16, 24).eval(), (torch.randn(2, 16),)),
    "transformer of 12 layers": lambda: (Transformer(32, 4, 12).eval(), (torch.randn(2, 8, 32),)),
}


def answers_at_once(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A backend that computes once: what is left of a call is what the compiler adds to it."""
    answers: list[Any] = []

    def answer(*args: Any) -> Any:
        if not answers:
            answers.append(graph.forward(*args))
        return answers[0]

    return answer


def _compiled(subject: Callable[..., Any], backend: Any, dynamic: bool) -> dict[str, Any]:
    return {
        "anyshape": anyshape.compile(subject, backend=backend, dynamic=dynamic),
        "torch": torch.compile(subject, backend=backend, dynamic=dynamic),
    }


def run() -> dict[str, Any]:
    """Overheads of the subjects, static and dynamic, and growth with depth."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    with warnings.catch_warnings(), anyshape.config.patch(profile=False), torch.no_grad():
        warnings.simplefilter("ignore")
        for name, make in SUBJECTS.items():
            for dynamic in (False, True):
                subject, args = make()
                title = f"{name}, {'dynamic' if dynamic else 'static'}"
                found[title] = _overheads(subject, args, dynamic)
        found["growth from 2 to 64 layers"] = _growth()
    return found


def _overheads(subject: Callable[..., Any], args: tuple[Any, ...], dynamic: bool) -> dict[str, Any]:
    calls = {"eager": subject, **_compiled(subject, "eager", dynamic)}
    whole = medians(calls, args)
    alone = medians(_compiled(subject, answers_at_once, dynamic), args)
    cells: dict[str, Any] = {"eager us": whole["eager"]}
    for name in ("anyshape", "torch"):
        cells[f"{name} over eager us"] = whole[name] - whole["eager"]
        cells[f"{name} dispatch alone us"] = alone[name]
    cells["dispatch: share of torch's"] = alone["anyshape"] / alone["torch"]
    if not calls["anyshape"].stats().graphs:
        cells["anyshape ran eagerly"] = True
    return cells


def medians(calls: dict[str, Callable[..., Any]], args: tuple[Any, ...]) -> dict[str, float]:
    """Microseconds a call, for each: medians of rounds that take turns."""
    repeats: dict[str, int] = {}
    for name, call in calls.items():
        call(*args)
        call(*args)
        start = time.process_time()
        call(*args)
        repeats[name] = max(int(_SECONDS_A_ROUND / (time.process_time() - start)), 3)
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            for name, call in calls.items():
                start = time.process_time()
                for _ in range(repeats[name]):
                    call(*args)
                rounds[name].append((time.process_time() - start) / repeats[name] * 1e6)
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in rounds.items()}


def _growth() -> dict[str, Any]:
    """Capture and dispatch time of anyshape and torch by depth, with the exponents."""
    capture: dict[str, dict[int, float]] = {"anyshape": {}, "torch": {}}
    guards: dict[str, dict[int, float]] = {"anyshape": {}, "torch": {}}
    x = torch.randn(2, 8, 32)
    for depth in _DEPTHS:
        module = Transformer(32, 4, depth).eval()
        for name, reset in (("anyshape", anyshape.reset), ("torch", torch._dynamo.reset)):
            compiled: Any = None
            times: list[float] = []
            for _ in range(4 if name == "anyshape" else 2 if depth <= 8 else 1):
                reset()
                compiled = _compiled(module, answers_at_once, True)[name]
                gc.collect()
                start = time.process_time()
                compiled(x)
                times.append(time.process_time() - start)
            capture[name][depth] = min(times) * 1e3
            guards[name][depth] = medians({name: compiled}, (x,))[name]
    cells: dict[str, Any] = {}
    for name in capture:
        for title, table in (("capture ms", capture[name]), ("dispatch us", guards[name])):
            cells[f"{name} {title}"] = {f"{d} layers": round(v, 2) for d, v in table.items()}
            cells[f"{name} {title}, exponent"] = _exponent(table)
    return cells


def _exponent(table: dict[int, float]) -> float:
    """Of the power of the depth that fits best."""
    xs, ys = [math.log(d) for d in table], [math.log(v) for v in table.values()]
    return statistics.linear_regression(xs, ys).slope
