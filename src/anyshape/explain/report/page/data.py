"""What the script of the page is given: plain values, texts that repeat often by number."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.explain.report.analysis.ranks import Cell, Compared, compare, launches
from anyshape.explain.report.analysis.similar import similar_graphs
from anyshape.explain.report.analysis.stories import recompiles_by_entry
from anyshape.explain.report.page.entries import entry_data
from anyshape.explain.report.page.functions import function_data
from anyshape.explain.report.page.numbered import Numbered
from anyshape.explain.report.reading.model import Process
from anyshape.explain.report.reading.records import problems_in_short

Json = object

_MOST_GROUPS: Final = 500


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
    groups = launches(processes)
    guards = numbered.guards()  # before the places: those of guards are among them
    return {
        "made": time.time(),
        "problems": [
            *problems,
            *(text for p in processes for text in problems_in_short(p.problems)),
        ],
        "processes": [
            _process(process, number)
            for number, group in enumerate(groups)
            for process in sorted(group, key=lambda each: each.rank or 0)
        ],
        "functions": functions,
        "entries": entries,
        "similar": _similar(processes),
        "ranks": [_launch(number, launch) for number, launch in enumerate(groups)],
        "advised": advice is not None,
        "advice": list(advice or ()),
        "sources": _sources(processes),
        "places": numbered.places(),
        "guards": guards,
        "texts": numbered.texts(),
        "texts_left_out": numbered.left_out,
    }


def _process(process: Process, launch: int) -> Json:
    return {
        "key": process.key,
        "file": process.file,
        "rank": process.rank,
        "pid": process.pid,
        "host": process.host,
        "command": process.command,
        "folder": process.folder,
        "started": process.started,
        "versions": dict(process.versions),
        "launch": launch,
        "functions": [function.key for function in process.functions],
        "defects": list(problems_in_short(process.defects, 100)),
    }


def _similar(processes: Sequence[Process]) -> list[Json]:
    found: list[Json] = []
    for process in processes:
        for group in similar_graphs(process)[:_MOST_GROUPS]:
            found.append(
                {
                    "operators": list(group[0].graph.operators)[:200],
                    "members": [[m.entry.key, m.entry.graphs.index(m.graph)] for m in group],
                }
            )
    return found


def _launch(number: int, launch: Sequence[Process]) -> Json:
    return {
        "number": number,
        "processes": [process.key for process in launch],
        "functions": [_compared(each) for each in compare(launch)],
    }


def _compared(compared: Compared) -> Json:
    return {
        "name": compared.name,
        "file": compared.file,
        "line": compared.line,
        "ranks": list(compared.ranks),
        "first_divergence": compared.first_divergence,
        "steps": [
            {
                "number": step.number,
                "differing": list(step.differing),
                "cells": [
                    None
                    if cell is None
                    else {
                        "entry": cell.entry,
                        "attempt": cell.attempt,
                        "status": cell.status,
                        "sizes": cell.sizes,
                        "decided": cell.decided,
                        "guards": len(cell.guards),
                        "own_guards": sorted(cell.guards - _shared(step.cells))[:50],
                    }
                    for cell in step.cells
                ],
                "collectives": [
                    None if each is None else each._asdict() for each in step.collectives
                ],
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
            found.setdefault(file, {}).update(lines)
    return found
