"""Programs that depend on data, against `torch.compile(backend="eager")`, each in a fresh process.

A process builds a program twice and calls the two side by side with the same arguments, which are
of another size at each call: one twin is compiled, the other is not, and they must agree. Both
systems run their graphs operator by operator, with their own defaults. torch runs a second time
with `capture_scalar_outputs`, and in every figure the better of the two stands for torch.

*Seconds to steady state*: processor time of the calls, less that of the eager twin's, until ten
calls in a row compile nothing, or 60 calls are made. *Overhead*: what a call adds to the eager one
after that, median. *Eager calls*: the share of those calls in which the program's own code ran
after all; a profiler sees it, so that no system has to be trusted. What is imported lazily is
imported before, by compiling a small function. A system that ran a program without a graph, or
wrongly, or not at all, is named, and the program counts in no mean. A program is within the aims
only if it became steady and no steady call ran eagerly.

`python -m benchmarks.bench_data_dependent NAME SYSTEM` measures one and prints JSON.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import io
import json
import logging
import math
import os
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch._dynamo
import torch._dynamo.utils
from torch import Tensor, nn

import anyshape
from tests.data_dependent.programs import (
    MIXTURE,
    PROGRAMS,
    Built,
    Program,
    matrix,
    plain,
    seeded,
)
from tests.zoo.compare import difference

_QUIET: Final = 10
_MOST_CALLS: Final = 60
#: Arguments of earlier calls, and how often each is used to measure the overhead.
_SAMPLES, _REPEATS = 12, 20
#: Of processes: the least seconds and overhead count, since the machine is shared.
_ROUNDS: Final = 1
_TIMEOUT: Final = 300

MOST_GRAPHS, MOST_TIME = 0.5, 0.1


# -- programs --------------------------------------------------------------------------------------


def pool_where(x: Tensor, mask: Tensor) -> Tensor:
    """The mean of the rows that a mask chooses, and how many there are."""
    chosen = x[mask]
    mean = chosen.sum(0) / max(chosen.shape[0], 1)
    return torch.cat([mean, chosen.amax(0) if chosen.shape[0] > 0 else mean])


def rows_and_mask(rng: random.Random) -> tuple[Any, ...]:
    x = matrix(rng)
    return x, torch.rand(x.shape[0]) > 0.3


def histogram(labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How often each label occurs, with its weight, as shares."""
    found, inverse = labels.unique(return_inverse=True)
    counts = inverse.bincount(minlength=found.numel())
    total = weights.new_zeros(found.numel()).index_add(0, inverse, weights)
    return found, counts / labels.numel(), total / counts


def labels_and_weights(rng: random.Random) -> tuple[Any, ...]:
    count = rng.randint(1, 12)
    return torch.randint(0, 5, (count,)), torch.rand(count)


class Training(nn.Module):
    """A step that looks at its loss: large ones are damped and counted, all are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.damped = 0
        self.log: list[float] = []

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        loss = ((self.net(x).squeeze(-1) - y) ** 2).mean()
        if loss.item() > 1.0:
            self.damped += 1
            loss = loss / loss.detach()
        self.log.append(loss.item())
        gradients = torch.autograd.grad(loss, list(self.net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(self.net.parameters(), gradients, strict=True):
                parameter -= 0.01 * gradient
        return loss.detach()


def build_training() -> Built:
    with seeded():
        module = Training()
    return Built(module, lambda: module.log)


def rows_and_targets(rng: random.Random) -> tuple[Any, ...]:
    x = matrix(rng)
    return x, torch.randn(x.shape[0])


_SHARED: Final = (
    "Mixtral, eager experts",
    "detection",
    "beam search",
    "RNN, early stop",
    "GNN step",
    "jagged input",
)
_BY_NAME: Final = {program.name: program for program in PROGRAMS}
SUBJECTS: Final = {
    program.name: program
    for program in (
        MIXTURE,
        *(_BY_NAME[name] for name in _SHARED),
        Program("mask pooling", plain(pool_where), rows_and_mask),
        Program("histogram", plain(histogram), labels_and_weights),
        Program("training step", build_training, rows_and_targets),
    )
}


# -- systems ---------------------------------------------------------------------------------------


class Anyshape:
    def __init__(self) -> None:
        self._compiled: Any = None

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self._compiled = anyshape.compile(function, backend="eager")
        return self._compiled

    def work(self) -> int:
        """Grows whenever something is compiled."""
        return self._compiled.stats().captures

    def graphs(self) -> int:
        return self._compiled.stats().graphs

    def breaks(self) -> int:
        return self._compiled.stats().graph_breaks

    def gave_up(self) -> str:
        return self._compiled.explain().eager


class Torch:
    def __init__(self, capture_scalars: bool) -> None:
        torch._dynamo.config.capture_scalar_outputs = capture_scalars
        self._graphs = 0
        self._limits = _Limits()
        logging.getLogger("torch._dynamo").addHandler(self._limits)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        self._graphs = 0
        return torch.compile(function, backend=self._backend)

    def _backend(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self._graphs += 1
        return graph.forward

    def work(self) -> int:
        return torch._dynamo.utils.counters["frames"]["total"] + self._graphs

    def graphs(self) -> int:
        return self._graphs

    def breaks(self) -> int:
        return sum(torch._dynamo.utils.counters["graph_break"].values())

    def gave_up(self) -> str:
        return self._limits.found


class _Limits(logging.Handler):
    """torch says only in its log that it goes on without compiling."""

    found = ""

    def emit(self, record: logging.LogRecord) -> None:
        if "_limit" in record.getMessage():
            self.found = record.getMessage().splitlines()[0][:100]


System = Anyshape | Torch
OURS: Final = "anyshape"
TORCH: Final = ("torch", "torch with scalars")
SYSTEMS: Final[dict[str, Callable[[], System]]] = {
    OURS: Anyshape,
    TORCH[0]: lambda: Torch(False),
    TORCH[1]: lambda: Torch(True),
}


# -- one program in one process --------------------------------------------------------------------


@dataclass
class Measured:
    graphs: int
    breaks: int
    seconds: float
    calls: int
    steady: bool
    overhead_us: float
    eager_us: float
    eager_share: float
    gave_up: str
    problem: str


def measure(program: Program, system: System) -> Measured:
    system.compile(lambda x: x.sin() + 1 if x.sum() > 0 else x)(torch.ones(3))
    twins = _Twins(program, system)
    seconds, quiet, steady_after = 0.0, 0, 0
    with contextlib.redirect_stdout(io.StringIO()):
        for call in range(_MOST_CALLS):
            before = system.work()
            gc.collect()
            spent, plain_call = twins.call(call)
            if twins.problem:
                break
            if system.work() != before:
                quiet, steady_after = 0, call + 1
            else:
                quiet += 1
            seconds += spent - plain_call
            if quiet == _QUIET:
                break
        graphs, breaks = system.graphs(), system.breaks()
        overheads: list[float] = []
        plain_calls: list[float] = []
        for seed in list(range(min(_SAMPLES, steady_after + quiet))) * _REPEATS:
            if twins.problem:
                break
            spent, plain_call = twins.call(seed)
            overheads.append(spent - plain_call)
            plain_calls.append(plain_call)
        eager_share = twins.eager_share(min(_SAMPLES, steady_after + quiet))
    return Measured(
        graphs,
        breaks,
        max(seconds, 1e-6),
        steady_after,
        quiet == _QUIET,
        statistics.median(overheads) * 1e6 if overheads else math.nan,
        statistics.median(plain_calls) * 1e6 if plain_calls else math.nan,
        eager_share,
        system.gave_up(),
        twins.problem,
    )


class _Twins:
    """A program as it is and compiled, in step."""

    def __init__(self, program: Program, system: System) -> None:
        self._inputs = program.inputs
        self._eager = program.build().function
        function = program.build().function
        self._code = _code_of(function)
        self._compiled = system.compile(function)
        self.problem = ""

    def call(self, seed: int) -> tuple[float, float]:
        """Seconds of the compiled and of the eager one."""
        expected, plain_call = self._timed(self._eager, seed)
        try:
            found, spent = self._timed(self._compiled, seed)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}".splitlines()[0][:100]
            return 0.0, 0.0
        self.problem = difference(_comparable(found), _comparable(expected)) or ""
        return spent, plain_call

    def eager_share(self, calls: int) -> float:
        """Of calls of the compiled one: in how many the program's own code runs."""
        if self.problem:
            return math.nan
        seen: set[int] = set()
        for seed in range(calls):

            def look(frame: Any, event: str, _: Any, seed: int = seed) -> None:
                if event == "call" and frame.f_code is self._code:
                    seen.add(seed)

            sys.setprofile(look)
            try:
                self._timed(self._compiled, seed)
            finally:
                sys.setprofile(None)
        return len(seen) / calls

    def _timed(self, function: Callable[..., Any], seed: int) -> tuple[Any, float]:
        torch.default_generator.manual_seed(seed)
        arguments = self._inputs(random.Random(seed))
        start = time.process_time()
        result = function(*arguments)
        return result, time.process_time() - start


def _code_of(function: Callable[..., Any]) -> Any:
    body: Any = inspect.unwrap(function.forward if isinstance(function, nn.Module) else function)
    return getattr(body, "__func__", body).__code__


def _comparable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_comparable, value))
    if isinstance(value, Tensor) and value.is_nested:
        nested: Any = value
        return nested.values(), nested.offsets()
    return value


# -- all of them -----------------------------------------------------------------------------------


def run() -> dict[str, Any]:
    """Figures of both for each program, their ratios, and the geometric means of those."""
    taken: dict[str, dict[str, list[Measured]]] = {
        name: {system: [] for system in SYSTEMS} for name in SUBJECTS
    }
    for _ in range(_ROUNDS):
        for name, systems in taken.items():
            for system, found in systems.items():
                found.append(_in_fresh_process(name, system))
    programs = {name: _cells(systems) for name, systems in taken.items()}
    compared = [cells for cells in programs.values() if "problem" not in cells]
    _print(programs)
    return {
        "programs": programs,
        "share of torch's, geometric mean": {
            what: _geometric_mean([cells[f"{what}: share of torch's"] for cells in compared])
            for what in ("graphs", "seconds")
        },
        "within the aims": {
            what: sum(_within(cells, what, most) for cells in compared)
            for what, most in (("graphs", MOST_GRAPHS), ("seconds", MOST_TIME))
        },
        "programs in the means": len(compared),
    }


def _within(cells: dict[str, Any], what: str, most: float) -> bool:
    """Few graphs, made soon, are no merit where they do not serve the calls."""
    serves = cells["anyshape eager_share"] == 0 and "anyshape not steady after" not in cells
    return serves and cells[f"{what}: share of torch's"] <= most


def _in_fresh_process(program: str, system: str) -> Measured:
    command = [sys.executable, "-m", "benchmarks.bench_data_dependent", program, system]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise RuntimeError(f"{program} on {system}: {done.stderr[-2000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def _cells(systems: dict[str, list[Measured]]) -> dict[str, Any]:
    of_torch = [each for name in TORCH for each in systems[name]]
    ours, theirs = _best(systems[OURS]), _best(of_torch)
    cells: dict[str, Any] = {}
    for name, best, runs in (("anyshape", ours, systems[OURS]), ("torch", theirs, of_torch)):
        cells |= {f"{name} {metric}": value for metric, value in best.items()}
        if not all(each.steady for each in runs):
            cells[f"{name} not steady after"] = _MOST_CALLS
        gave_up = next((each.gave_up for each in runs if each.gave_up), "")
        if gave_up:
            cells[f"{name} gave up"] = gave_up
        if not best:
            cells["problem"] = f"{name}: {runs[0].problem or 'no graph'}"
    if "problem" not in cells:
        for what in ("graphs", "seconds"):
            cells[f"{what}: share of torch's"] = ours[what] / theirs[what]
    cells["eager us"] = min(each.eager_us for each in systems[OURS])
    return cells


def _best(runs: list[Measured]) -> dict[str, Any]:
    """Figure by figure, of the runs that worked."""
    worked = [each for each in runs if each.graphs and not each.problem]
    if not worked:
        return {}
    return {
        what: min(getattr(each, what) for each in worked)
        for what in ("graphs", "breaks", "seconds", "calls", "overhead_us", "eager_share")
    }


def _geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


#: Headings, and the metric below them; each for both systems.
_COLUMNS: Final = (
    ("graphs", "graphs", "{:.0f}"),
    ("breaks", "breaks", "{:.0f}"),
    ("calls", "calls", "{:.0f}"),
    ("seconds", "seconds", "{:.3f}"),
    ("over us", "overhead_us", "{:.0f}"),
    ("eager calls", "eager_share", "{:.0%}"),
)


def _print(programs: dict[str, dict[str, Any]]) -> None:
    """All at one glance: anyshape / torch, and the shares that the aims are about."""
    heads = "".join(f"{title:>16}" for title, _, _ in _COLUMNS)
    print(f"{'anyshape / torch':<24}{heads}{'graphs':>9}{'seconds':>9}")
    for name, cells in programs.items():
        line = f"{name:<24}"
        for _, metric, shown in _COLUMNS:
            pair = [
                shown.format(cells[f"{system} {metric}"]) if f"{system} {metric}" in cells else "-"
                for system in ("anyshape", "torch")
            ]
            line += f"{' / '.join(pair):>16}"
        for what in ("graphs", "seconds"):
            share = cells.get(f"{what}: share of torch's")
            line += f"{share:>9.2f}" if share is not None else f"{'-':>9}"
        print(line + ("  " + cells["problem"] if "problem" in cells else ""))
    print()


def _main(program: str, system: str) -> None:
    torch.set_num_threads(1)
    with warnings.catch_warnings(), anyshape.config.patch(profile=False):
        warnings.simplefilter("ignore")
        found = measure(SUBJECTS[program], SYSTEMS[system]())
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
