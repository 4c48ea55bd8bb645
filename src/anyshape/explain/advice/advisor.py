"""All the advice that there is for a trace, what saves most first."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from anyshape.explain.advice.advice import Advice
from anyshape.explain.advice.findings import findings_of
from anyshape.explain.advice.history import History, read_histories
from anyshape.explain.advice.writing import advice_of, advice_on_breaks, advice_on_limits
from anyshape.support.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Summary:
    """A trace in short."""

    #: compiles by function, in the order in which they came: "score (model.py:3)"
    functions: dict[str, int]
    advice: tuple[Advice, ...]
    #: by function: the sizes that its first compile was for; tells whether two runs did the same
    first_calls: tuple[tuple[str, str], ...] = ()

    @property
    def compiles(self) -> int:
        return sum(self.functions.values())


def advise(path: str | os.PathLike[str]) -> list[Advice]:
    """The advice for a folder of a trace, or for one file of events. A folder without any gives
    none."""
    return list(summary_of_trace(path).advice)


def summary_of_trace(path: str | os.PathLike[str], skip: Collection[str] = ()) -> Summary:
    """Without the files of these names: those of earlier runs."""
    histories = list(read_histories(Path(path), frozenset(skip)))
    found = [each for history in histories for each in _of_history(history)]
    functions: Counter[str] = Counter()
    for function in (each for history in histories for each in history.functions):
        name = f"{function.name} ({Path(function.file).name}:{function.line})"
        functions[name] += sum(1 + each.growths for each in function.compiles)
    return Summary(
        dict(functions),
        tuple(sorted(_united(found), key=lambda each: -each.saves)),
        tuple(sorted(first for history in histories for first in _first_calls(history))),
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
