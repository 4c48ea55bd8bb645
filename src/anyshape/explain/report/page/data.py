"""What the script of the page is given: plain values, texts that repeat often by number."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, cast

from anyshape.events.trace.reading import problems_in_short
from anyshape.explain.report.analysis.differences import Side, compare_sides
from anyshape.explain.report.analysis.graphs import similar_graphs
from anyshape.explain.report.analysis.ranks import (
    Cell,
    Compared,
    by_rank,
    by_run,
    compare,
    in_order,
    launches,
)
from anyshape.explain.report.analysis.stories import recompiles_by_entry
from anyshape.explain.report.page.entries import collective_data, entry_data, function_data
from anyshape.explain.report.page.numbered import Numbered, picked, shortened
from anyshape.explain.trace_model import Process

Json = object

_MOST_GROUPS: Final = 500
#: Ranks or runs in one table, and causes of one function.
_MOST_SIDES: Final = 64
_MOST_CAUSES: Final = 30
#: No text that people read is longer, generated code aside.
_LONGEST_TEXT: Final = 20_000
_LONGEST_LINE: Final = 1000


def page_data(
    processes: Sequence[Process],
    problems: Sequence[str],
    advice: Sequence[Mapping[str, Json]] | None = None,
) -> dict[str, Json]:
    """`advice` is None where nobody looked for any."""
    numbered = Numbered()
    entries: dict[str, Json] = {}
    functions: dict[str, Json] = {}
    for process in processes:
        for function in process.functions:
            functions[function.key] = function_data(process, function, numbered)
            followed = recompiles_by_entry(function)
            for entry in function.entries:
                entries[entry.key] = entry_data(function, entry, followed, numbered)
    groups = [in_order(group) for group in launches(processes)]
    ranks = [_launch(number, launch, numbered) for number, launch in enumerate(groups)]
    runs = _comparison(by_run(groups), numbered)
    guards = numbered.guards()  # before the places: those of guards are among them
    data: dict[str, Json] = {
        "made": time.time(),
        "problems": [
            *problems,
            *(text for p in processes for text in problems_in_short(p.problems)),
        ],
        "processes": [
            _process(process, number) for number, group in enumerate(groups) for process in group
        ],
        "functions": functions,
        "entries": entries,
        "similar": _similar(processes),
        "ranks": ranks,
        "runs": runs,
        "sources": _sources(processes),
        "places": numbered.places(),
        "guards": guards,
    }
    return {
        **{name: _readable(each) for name, each in data.items()},
        "advised": advice is not None,
        "advice": list(advice or ()),
        "texts": numbered.texts(),
        "texts_left_out": numbered.left_out,
    }


def _readable(value: Json) -> Json:
    """The same as JSON has it (tuples are lists), without texts that nobody reads to their end."""
    if isinstance(value, str):
        return shortened(value, _LONGEST_TEXT)
    if isinstance(value, dict):
        held = cast("dict[Json, Json]", value)
        return {_readable(key): _readable(each) for key, each in held.items()}
    if isinstance(value, list | tuple):
        return [_readable(each) for each in cast("Sequence[Json]", value)]
    return value


def _process(process: Process, launch: int) -> Json:
    return {
        **picked(process, "key file rank pid host command folder started versions run"),
        "launch": launch,
        "functions": [function.key for function in process.functions],
        "defects": list(problems_in_short(process.defects, 100)),
    }


def _similar(processes: Sequence[Process]) -> list[Json]:
    return [
        {
            "operators": group[0].graph.operators[:200],
            "members": [[m.entry.key, m.entry.graphs.index(m.graph)] for m in group],
        }
        for process in processes
        for group in similar_graphs(process)[:_MOST_GROUPS]
    ]


def _comparison(sides: Sequence[Side], to: Numbered) -> Json:
    """None where there is one side alone."""
    if len(sides) < 2:
        return None
    left_out = len(sides) - _MOST_SIDES
    comparison = compare_sides(sides[:_MOST_SIDES])
    return {
        "sides": [[side.name, [p.key for p in side.processes]] for side in comparison.sides],
        "left_out": max(left_out, 0),
        "totals": [tally._asdict() for tally in comparison.totals],
        "functions": [
            {
                **picked(each, "name file line keys differing"),
                "tallies": [tally and tally._asdict() for tally in each.tallies],
                "causes": [
                    {**picked(cause, "kind words counts"), "place": to.place(cause.place)}
                    for cause in each.causes[:_MOST_CAUSES]
                ],
                "more_causes": max(len(each.causes) - _MOST_CAUSES, 0),
            }
            for each in comparison.functions[:_MOST_GROUPS]
        ],
    }


def _launch(number: int, launch: Sequence[Process], to: Numbered) -> Json:
    return {
        "number": number,
        "processes": [process.key for process in launch],
        "compared": _comparison(by_rank(launch), to),
        "functions": [_compared(each) for each in compare(launch)],
    }


def _compared(compared: Compared) -> Json:
    return {
        **picked(compared, "name file line ranks first_divergence"),
        "steps": [
            {
                **picked(step, "number differing"),
                "cells": [
                    None
                    if cell is None
                    else {
                        **picked(cell, "entry attempt status sizes decided"),
                        "guards": len(cell.guards),
                        "own_guards": sorted(cell.guards - _shared(step.cells))[:50],
                    }
                    for cell in step.cells
                ],
                "collectives": [collective_data(each) for each in step.collectives],
            }
            for step in compared.steps
        ],
    }


def _shared(cells: Sequence[Cell | None]) -> frozenset[str]:
    sets = [frozenset[str]() if cell is None else cell.guards for cell in cells]
    return sets[0].intersection(*sets[1:]) if sets else frozenset()


def _sources(processes: Sequence[Process]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for process in processes:
        for file, lines in process.sources.items():
            found.setdefault(file, {}).update(
                {number: shortened(line, _LONGEST_LINE) for number, line in lines.items()}
            )
    return found
