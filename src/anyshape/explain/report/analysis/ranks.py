"""Several runs, and several ranks of a run: who belongs together, and where ranks went different
ways, the functions that did first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from anyshape.events.kinds import CompilerCollective
from anyshape.explain.report.analysis.differences import Side
from anyshape.explain.report.analysis.sizes import states_of
from anyshape.explain.trace_model import Attempt, Process, TracedEntry, TracedFunction

#: Ranks of one program begin within this time.
_TOGETHER_SECONDS: Final = 600.0


def launches(processes: Sequence[Process]) -> list[list[Process]]:
    """Processes by the run that they belong to: one folder may have the traces of several."""
    found: list[list[Process]] = []
    for process in processes:
        for launch in found:
            if _belongs(process, launch):
                launch.append(process)
                break
        else:
            found.append([process])
    return found


def _belongs(process: Process, launch: Sequence[Process]) -> bool:
    first = launch[0]
    return (
        process.rank is not None
        and first.rank is not None
        and process.rank not in [each.rank for each in launch]
        and (process.run, process.command) == (first.run, first.command)
        and abs(process.started - first.started) <= _TOGETHER_SECONDS
    )


def in_order(launch: Sequence[Process]) -> list[Process]:
    return sorted(launch, key=lambda process: process.rank or 0)


def by_rank(launch: Sequence[Process]) -> list[Side]:
    return [Side(f"rank {process.rank}", [process]) for process in in_order(launch)]


def by_run(launches: Sequence[Sequence[Process]]) -> list[Side]:
    """The folders that are compared, or the runs that one folder has traces of."""
    runs = list(dict.fromkeys(process.run for launch in launches for process in launch))
    if len(runs) < 2:
        return [Side(f"run {n}", launch) for n, launch in enumerate(launches, 1)]
    return [Side(run, [p for launch in launches for p in launch if p.run == run]) for run in runs]


class Cell(NamedTuple):
    """What one rank did at a step."""

    entry: str
    attempt: int
    status: str
    sizes: str
    decided: str
    guards: frozenset[str]


class Step(NamedTuple):
    """The n-th compile of a function on each rank; None where a rank had none."""

    number: int
    cells: Sequence[Cell | None]
    #: which of "sizes", "decisions", "guards", "outcome", "absent" are not the same on all
    differing: Sequence[str]
    collectives: Sequence[CompilerCollective | None]


class Compared(NamedTuple):
    name: str
    file: str
    line: int
    ranks: Sequence[int | None]
    steps: Sequence[Step]

    @property
    def first_divergence(self) -> int | None:
        return next((step.number for step in self.steps if step.differing), None)


def compare(launch: Sequence[Process]) -> list[Compared]:
    """Nothing for one process alone."""
    if len(launch) < 2:
        return []
    launch = in_order(launch)
    names: dict[tuple[str, str, int, int], None] = {}
    by_name = [_by_name(process) for process in launch]
    for found in by_name:
        names |= dict.fromkeys(found)
    compared = [
        Compared(
            name,
            file,
            line,
            [process.rank for process in launch],
            _steps([found.get((name, file, line, number)) for found in by_name]),
        )
        for name, file, line, number in names
    ]
    return sorted(compared, key=_urgency)


def _urgency(compared: Compared) -> tuple[bool, int]:
    first = compared.first_divergence
    return first is None, first or 0


def _by_name(process: Process) -> dict[tuple[str, str, int, int], TracedFunction]:
    """The same function may be compiled twice: then they go by number."""
    found: dict[tuple[str, str, int, int], TracedFunction] = {}
    for function in process.functions:
        number = 0
        while (function.name, function.file, function.line, number) in found:
            number += 1
        found[function.name, function.file, function.line, number] = function
    return found


def _steps(functions: Sequence[TracedFunction | None]) -> list[Step]:
    listed = [[] if f is None else _compiles(f) for f in functions]
    steps: list[Step] = []
    for number in range(max(map(len, listed))):
        here = [each[number] if number < len(each) else None for each in listed]
        cells = [None if each is None else _cell(*each) for each in here]
        collectives = [None if each is None else each[2].last(CompilerCollective) for each in here]
        steps.append(Step(number, cells, _differing(cells), collectives))
    return steps


def _compiles(function: TracedFunction) -> list[tuple[TracedEntry, int, Attempt]]:
    found = [(e, number, a) for e in function.entries for number, a in enumerate(e.attempts)]
    return sorted(found, key=lambda each: each[2].time)


def _cell(entry: TracedEntry, number: int, attempt: Attempt) -> Cell:
    states = states_of(entry)
    return Cell(
        entry.key,
        number,
        attempt.status,
        ", ".join(
            f"{source} = {value}" for source, value in attempt.values.items() if source[:2] == "L["
        ),
        ", ".join(
            f"{source}: {state.state}"
            + (f" {state.value}" if state.state in ("static", "specialised") else "")
            for source, state in states.items()
            if "._parameters[" not in source
        ),
        frozenset(guard.text for guard in entry.guards),
    )


def _differing(cells: Sequence[Cell | None]) -> list[str]:
    present = [cell for cell in cells if cell is not None]
    found = ["absent"] if len(present) < len(cells) else []
    told = {
        "outcome": {cell.status for cell in present},
        "sizes": {cell.sizes for cell in present},
        "decisions": {cell.decided for cell in present},
        "guards": {cell.guards for cell in present},
    }
    return found + [name for name, values in told.items() if len(values) > 1]
