"""From a trace folder to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from anyshape.explain.report.page.data import page_data
from anyshape.explain.report.page.html import page_text
from anyshape.explain.trace_model import read_trace


def write_report(
    folder: str | Path,
    output: str | Path,
    advice: Sequence[Mapping[str, object]] | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write the page, and return where it is. `NotATrace` if there is nothing to report on.

    `advice` has the fields of `anyshape.explain.advice.Advice`; `notes` are problems that are known
    already."""
    processes, problems = read_trace(Path(folder))
    command = next((process.command for process in processes if process.command), "")
    name = Path(command.partition(" ")[0]).name if command else Path(folder).name
    text = page_text(f"{name} · anyshape report", page_data(processes, [*notes, *problems], advice))
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The title may have half a character, which no file can hold.
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return path
