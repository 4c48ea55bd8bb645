"""One workload in its own process: right answers first, then times at each size."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from benchmarks.native.agree import disagreement
from benchmarks.native.rounds import take_turns
from benchmarks.native.systems import EAGER, OURS, STATIC, SYSTEMS
from benchmarks.native.workload import Workload
from tests.zoo.compare import tensors

#: A copy of as many bytes as a memory-bound workload must read and write: into memory that is
#: there, and into a result made anew, as the workload's own is.
COPY, CLONE = "copy", "clone"
_MEASURED_FOR_COPY: Final = "large"


@dataclass(frozen=True)
class Effort:
    """Seconds for the rounds of one size, how many rounds at most, and torch's threads."""

    budget: float
    rounds: int
    threads: int
    #: seconds that one system has for compiling and two calls at each size; 0 for any number
    limit: float = 0


@dataclass
class _Compiled:
    calls: dict[str, Callable[..., Any]]
    problems: dict[str, str]


def steady(workload: Workload, systems: Sequence[str], effort: Effort) -> dict[str, Any]:
    """Rounds by size, and what went wrong by system."""
    torch.set_num_threads(effort.threads)
    with torch.no_grad():
        function = workload.built()
        inputs = {size: workload.arguments(size) for size in workload.order}
        compiled = _compiled(workload, function, inputs, systems, effort.limit)
        found = {
            size: _at_size(workload, size, function, inputs[size], compiled, systems, effort)
            for size in workload.order
        }
    return {"sizes": found, "problems": compiled.problems, "ours": _ours(compiled.calls)}


def _compiled(
    workload: Workload,
    function: Callable[..., Any],
    inputs: dict[str, tuple[Any, ...]],
    systems: Sequence[str],
    limit: float,
) -> _Compiled:
    """One compiled function for all sizes, of each system that gets all of them right, twice."""
    made = _Compiled({}, {})
    for name in systems:
        if name == STATIC:
            continue
        call = SYSTEMS[name].compile(function)
        with at_most(limit):
            problem = _problem(workload, name, call, function, [*inputs.items()] * 2)
        if problem:
            made.problems[name] = problem
        else:
            made.calls[name] = call
    return made


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in what takes longer; 0 for no limit."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it takes more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _problem(
    workload: Workload,
    name: str,
    call: Callable[..., Any],
    function: Callable[..., Any],
    inputs: Sequence[tuple[str, tuple[Any, ...]]],
) -> str:
    if name == EAGER:
        return ""
    for size, args in inputs:
        try:
            found = call(*args)
        except Exception as error:
            return f"raised at {size}: {type(error).__name__}: {error}"[:300]
        # Peers may choose other strides; we promise eager's.
        strides, close = name in (OURS, STATIC), workload.close
        difference = disagreement(found, function(*args), strides=strides, close=close)
        if difference:
            return f"WRONG at {size}: {difference}"
    return ""


def _at_size(
    workload: Workload,
    size: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    compiled: _Compiled,
    systems: Sequence[str],
    effort: Effort,
) -> dict[str, Any]:
    settle = workload.settle
    calls = {name: _bound(call, args, settle) for name, call in compiled.calls.items()}
    if STATIC in systems:
        # By size: the code for one size alone, without a choice between several.
        static = SYSTEMS[STATIC].compile(function)
        problem = _problem(workload, STATIC, static, function, [(size, args)] * 2)
        if problem:
            compiled.problems[STATIC] = problem
        else:
            calls[STATIC] = _bound(static, args, settle)
    traffic = _traffic(function, args)
    if workload.memory_bound and size == _MEASURED_FOR_COPY:
        device = next(each.device for each in tensors(args))
        source, target = torch.rand(2, traffic // 8, device=device).unbind(0)
        calls[COPY] = _bound(target.copy_, (source,), settle)
        calls[CLONE] = _bound(source.clone, (), settle)
    rounds = take_turns(calls, budget=effort.budget, most=effort.rounds)
    return {
        "dims": list(workload.sizes[size]),
        "rounds": rounds.seconds,
        "quiet": rounds.quiet,
        "traffic": traffic,
    }


def _bound(
    call: Callable[..., Any], args: tuple[Any, ...], settle: Callable[[], None] | None
) -> Callable[[], Any]:
    if settle is None:
        return lambda: call(*args)

    def settled() -> Any:
        call(*args)
        settle()

    return settled


def _traffic(function: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """Bytes that a call reads and writes at least: arguments, parameters and results, once each."""
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    return sum(each.nbytes for each in tensors((args, parameters, function(*args))))


def _ours(calls: dict[str, Callable[..., Any]]) -> dict[str, int]:
    """How the compiled function served its calls: one that runs eagerly must not look compiled."""
    stats: Any = getattr(calls.get(OURS), "stats", None)
    if stats is None:
        return {}
    counts = stats()
    return {name: getattr(counts, name) for name in ("graphs", "captures", "eager_calls")}
