"""One workload: gradients and losses as eager's first, then times, memory and first steps.

Each first step, and the rest together, is measured in a process of its own.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.native.agree import disagreement
from benchmarks.native.child import ChildFailed, in_child
from benchmarks.native.cold import environment
from benchmarks.native.memory import allocator_peak
from benchmarks.native.rounds import take_turns
from benchmarks.native.steady import Effort, at_most
from benchmarks.native.store import Record
from benchmarks.native.systems import EAGER, OURS
from benchmarks.native.workload import Workload
from benchmarks.training.subject import Subject, inputs_of
from tests.zoo.compare import tensors

#: A compiled step of an optimizer is found part by part: so many steps until it stays.
_UNTIL_STEADY: Final = 6
_CLOSE_LOSS: Final = 2e-3
#: Of the largest gradient of all.
_NOTHING: Final = 1e-6


def measured(workload: Workload, systems: Sequence[str], effort: Effort, starts: int) -> Record:
    """Everything about one workload; `problems` names the systems that failed, and how."""
    record: Record = {"kind": workload.kind, "memory_bound": False, "problems": {}, "cold": {}}
    with tempfile.TemporaryDirectory(prefix="anyshape-bench-") as folder:
        for system in systems if starts else ():
            caches = [Path(folder) / f"{system}-{n}".replace(" ", "-") for n in range(starts)]
            try:
                record["cold"][f"{system} cold"] = [
                    in_child(
                        _first_step,
                        *(workload, system, effort.threads),
                        environment=environment(each),
                        limit=effort.limit or 600,
                    )
                    for each in caches
                ]
            except ChildFailed as error:
                record["problems"][f"{system} cold"] = str(error)
        try:
            found = in_child(
                steady,
                *(workload, systems, effort),
                environment=environment(Path(folder)),
                limit=len(systems) * (effort.limit or 600) + 600,
            )
        except ChildFailed as error:
            record["problems"]["steady"] = str(error)
        else:
            record["problems"].update(found.pop("problems"))
            record.update(found)
    return record


def _first_step(workload: Workload, system: str, threads: int) -> dict[str, float]:
    """Seconds until the first gradients are there, with the import of the compiler, and until the
    whole step is done; with what a second call takes longer than a third, as a compiler may put
    work off."""
    torch.set_num_threads(threads)
    args = inputs_of(workload, workload.order[0])
    # What a model imports, and what the first optimizer of a process does of torch.compile, is no
    # system's doing.
    workload.built()
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    gc.collect()
    start = time.perf_counter()
    subject = Subject(workload, system)
    subject.gradients(args)
    first = time.perf_counter() - start
    if subject.parameters:
        subject.update()
    whole = time.perf_counter() - start
    second, third = (_seconds(subject, args) for _ in range(2))
    later = max(0.0, second - third)
    return {"first": first + later, "step": whole + later, "third": third}


def _seconds(subject: Subject, args: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    subject.gradients(args)
    return time.perf_counter() - start


# -- steady state ----------------------------------------------------------------------------------


def steady(workload: Workload, systems: Sequence[str], effort: Effort) -> dict[str, Any]:
    """Rounds by size: of gradients and of whole steps; peaks of memory; what went wrong."""
    torch.set_num_threads(effort.threads)
    inputs = {size: inputs_of(workload, size) for size in workload.order}
    problems: dict[str, str] = {}
    subjects: dict[str, Subject] = {}
    graphs: dict[str, int] = {}
    wanted = {size: _kept(Subject(workload, EAGER), args) for size, args in inputs.items()}
    for system in systems:
        before = _graphs_of_torch()
        subject = Subject(workload, system)
        try:
            with at_most(effort.limit):
                problem = _problem(workload, subject, inputs, wanted)
        except Exception as error:
            problem = f"raised {type(error).__name__}: {error}"[:300]
        if problem:
            problems[system] = problem
            continue
        graphs[system] = _graphs(subject, system, _graphs_of_torch() - before)
        subjects[system] = subject
    record: dict[str, Any] = {
        "problems": problems,
        "graphs": graphs,
        "ours": _ours(subjects[OURS]) if OURS in subjects else {},
        "sizes": {},
        "memory": {},
        "steps": {},
    }

    def rounds(size: str, calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
        budget, most = effort.budget, effort.rounds
        # Processor time is that of a call where one thread does all of it.
        found = take_turns(calls, budget=budget, most=most, processor=effort.threads == 1)
        dims = list(workload.sizes[size])
        return {"dims": dims, "rounds": found.seconds, "quiet": found.quiet}

    for size, args in inputs.items():
        calls = {system: _bound(each.gradients, args) for system, each in subjects.items()}
        record["sizes"][size] = rounds(size, calls)
        for each in subjects.values():
            # Or what a call gives back would make room for what it takes.
            each.forget()
        record["memory"][size] = {system: allocator_peak(call) for system, call in calls.items()}
    if workload.kind == "model":
        # Afterwards: steps change the parameters.
        problems.update(_step_problems(subjects, inputs))
        for size, args in inputs.items():
            calls = {
                system: _bound(each.step, args)
                for system, each in subjects.items()
                if system not in problems
            }
            record["steps"][size] = rounds(size, calls)
    return record


def _kept(subject: Subject, args: tuple[Any, ...]) -> list[torch.Tensor | None]:
    return [None if each is None else each.clone() for each in subject.gradients(args)]


def _problem(
    workload: Workload,
    subject: Subject,
    inputs: dict[str, tuple[Any, ...]],
    wanted: dict[str, list[torch.Tensor | None]],
) -> str:
    """Gradients at all sizes, twice: the first call of a compiler is not like later ones."""
    for size, args in [*inputs.items()] * 2:
        found = subject.gradients(args)
        missing = [each is None for each in found] != [each is None for each in wanted[size]]
        # A gradient that is zero but for rounding, such as that of the bias of keys, says nothing.
        least = _NOTHING * max(float(each.abs().max()) for each in tensors(wanted[size]))
        difference = disagreement(
            found, wanted[size], strides=False, close=workload.close, least=least
        )
        if missing or difference:
            return f"WRONG at {size}: {difference or 'a gradient is missing, or one too many'}"
    return ""


def _step_problems(
    subjects: dict[str, Subject], inputs: dict[str, tuple[Any, ...]]
) -> dict[str, str]:
    """Losses of some steps, then of one at each size, against those of an eager twin."""
    problems: dict[str, str] = {}
    first, *others = inputs.values()
    losses: dict[str, list[float]] = {}
    for system, subject in subjects.items():
        try:
            steps = [*[first] * _UNTIL_STEADY, *others]
            losses[system] = [float(subject.step(args)) for args in steps]
        except Exception as error:
            problems[system] = f"a step raised {type(error).__name__}: {error}"[:300]
    eager = losses.get(EAGER)
    for system, found in losses.items() if eager else ():
        for number, (own, other) in enumerate(zip(found, eager or (), strict=True)):
            if not abs(own - other) <= _CLOSE_LOSS * abs(other):
                problems[system] = f"WRONG: the loss of step {number} is {own:.6g}, not {other:.6g}"
                break
    return problems


def _bound(call: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: call(args)


def _graphs_of_torch() -> int:
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def _graphs(subject: Subject, system: str, of_torch: int) -> int:
    if system == OURS:
        return subject.compiled.stats().graphs
    return of_torch


def _ours(subject: Subject) -> dict[str, Any]:
    """How calls were served, and what of it is native: none of it must look as if it were."""
    counts = subject.compiled.stats()
    told = [line.strip() for line in str(subject.compiled.explain()).splitlines()]
    return {
        **{name: getattr(counts, name) for name in ("graphs", "captures", "eager_calls")},
        "native": any(line.startswith("forward: native code") for line in told),
        "told": [line for line in told if line.startswith(_TELLING)],
    }


_TELLING: Final = (
    *("forward:", "backward:", "no native code:", "autograd does", "torch is called"),
)
