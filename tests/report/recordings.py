"""Small recorded traces, and what the page is given of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from anyshape.explain.report.page.data import page_data
from anyshape.explain.trace_model import Process, TracedFunction, read_trace

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


@cache
def processes_of(name: str) -> list[Process]:
    processes, problems = read_trace(FOLDER / name)
    assert not problems
    return processes


def function_of(name: str) -> TracedFunction:
    return processes_of(name)[0].functions[0]


def data_of(name: str) -> dict[str, Any]:
    return page_data(processes_of(name), [])
