"""All the advice that there is for a trace, what saves most first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from anyshape.advice.advice import Advice
from anyshape.advice.findings import findings_of
from anyshape.advice.history import History, history_of
from anyshape.advice.reading import read_processes
from anyshape.advice.writing import advice_of, advice_on_breaks, advice_on_limits


@dataclass(frozen=True, slots=True)
class Summary:
    """A trace in short."""

    #: functions that were compiled, compiles of them, and graphs that ended early
    functions: int
    compiles: int
    advice: tuple[Advice, ...]
    #: by function: the sizes that its first compile was for; tells whether two runs did the same
    first_calls: tuple[tuple[str, str], ...] = ()


def of_trace(path: str | os.PathLike[str]) -> list[Advice]:
    """The advice for a folder of a trace, or for one file of events. A folder without any gives
    none."""
    return list(summary_of_trace(path).advice)


def summary_of_trace(path: str | os.PathLike[str]) -> Summary:
    histories = [history_of(process) for process in read_processes(Path(path))]
    found = [each for history in histories for each in _of_history(history)]
    return Summary(
        sum(len(history.functions) for history in histories),
        sum(history.compiles for history in histories),
        tuple(sorted(_united(found), key=lambda each: -each.saves)),
        tuple(first for history in histories for first in _first_calls(history)),
    )


def _of_history(history: History) -> Iterator[Advice]:
    ranks = () if history.rank is None else (history.rank,)
    for function in history.functions:
        listing = history.listing
        for each in (
            *advice_of(function, findings_of(function, listing), listing),
            *advice_on_breaks(function, listing),
            *advice_on_limits(function, listing),
        ):
            yield replace(each, ranks=ranks)


def _first_calls(history: History) -> Iterator[tuple[str, str]]:
    for function in history.functions:
        for compiled in function.compiles[:1]:
            yield function.name, ", ".join(f"{k}: {v}" for k, v in sorted(compiled.seen.items()))


def _united(found: list[Advice]) -> list[Advice]:
    """What several processes, ranks, or lives of a function say alike is said once."""
    united: dict[object, Advice] = {}
    for each in found:
        key = (each.kind, each.title, each.file, each.line)
        before = united.get(key)
        if before is not None:
            each = replace(
                before,
                saves=before.saves + each.saves,
                ranks=tuple(sorted({*before.ranks, *each.ranks})),
                compile_ids=tuple(dict.fromkeys([*before.compile_ids, *each.compile_ids])),
            )
        united[key] = each
    return list(united.values())
