"""The processes of a trace."""

from __future__ import annotations

from pathlib import Path

from anyshape.explain.report.reading.building import Building
from anyshape.explain.report.reading.fields import int_of, maybe_int, seconds_of, text_of, texts_of
from anyshape.explain.report.reading.model import Process
from anyshape.explain.report.reading.records import Lines, read_folder
from anyshape.explain.report.reading.rows import ROWS


def read_trace(folder: Path) -> tuple[list[Process], list[str]]:
    """The processes of a trace, and what could not be read of it."""
    files, problems = read_folder(folder)
    return [process_of(lines, number) for number, lines in enumerate(files)], problems


def process_of(lines: Lines, number: int = 0) -> Process:
    header = lines.header
    process = Process(
        key=f"p{number}",
        file=lines.file,
        rank=maybe_int(header.get("rank")),
        pid=int_of(header.get("pid")),
        host=text_of(header.get("host"), 200),
        command=" ".join(texts_of(header.get("arguments")))[:2000],
        folder=text_of(header.get("folder"), 1000),
        started=seconds_of(header.get("time")),
        versions={name: text_of(header.get(name), 100) for name in ("torch", "python")},
        problems=list(lines.problems),
    )
    building = Building(process)
    for event in lines.events:
        row = ROWS.get(text_of(event.get("event")))
        if row is not None:
            row(building, event)
    # Code that was generated for nothing, and numbers that nothing was compiled under.
    for function in process.functions:
        function.entries = [entry for entry in function.entries if entry.attempts]
    process.functions = [f for f in process.functions if f.entries or f.limit]
    return process
