"""`anyshape report DIR`: one HTML page of a trace, or of several runs compared."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from anyshape.cli.command import Failure
from anyshape.explain.advice import advise
from anyshape.explain.report import NotATrace, compare_folders, run_names, write_report
from anyshape.explain.report.analysis.differences import Comparison, Difference

_MOST_DIFFERENCES: Final = 20


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        help="what ANYSHAPE_TRACE was set to; several are runs to be compared: before, after",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where the page goes (default: DIR/report.html, or compared.html in the last DIR)",
    )


def _advice(runs: Mapping[str, Path]) -> tuple[list[Mapping[str, object]] | None, list[str]]:
    """What could be spared. A page without it is better than none."""
    try:
        return [
            {**each.to_json(), "run": run}
            for run, folder in runs.items()
            for each in advise(folder)
        ], []
    except Exception as error:
        return None, [f"no advice could be made of this trace: {type(error).__name__}: {error}"]


def run(options: argparse.Namespace) -> int:
    folders: list[str] = options.folders
    name = "report.html" if len(folders) == 1 else "compared.html"
    output = Path(options.output or folders[-1])
    if output.is_dir() or not options.output:
        output = output / name
    runs = run_names(folders)
    advice, notes = _advice(runs)
    try:
        written = write_report(folders, output, advice, notes)
        if len(folders) > 1:
            print("\n".join(_in_short(compare_folders(runs))))
    except NotATrace as why:
        raise Failure(str(why)) from None
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror or error}") from None
    print(f"{written} ({written.stat().st_size // 1024} KiB)")
    return 0


# -- what differs, for a terminal ------------------------------------------------------------------

#: field of a tally, and how it is called
_MEASURED: Final = {
    "compiles": "compiles",
    "recompiles": "recompiles",
    "graphs": "graphs",
    "breaks": "graph breaks",
    "stopped": "not compiled",
}


def _in_short(comparison: Comparison) -> Iterator[str]:
    yield " -> ".join(side.name for side in comparison.sides)
    totals = [_values(comparison.totals, field, name) for field, name in _MEASURED.items()]
    seconds = " -> ".join(f"{total.seconds:.2f} s" for total in comparison.totals)
    yield f"  all: {', '.join(totals)}, compile time {seconds}"
    differing = [each for each in comparison.functions if each.differing]
    for each in differing[:_MOST_DIFFERENCES]:
        yield f"  {each.name} ({Path(each.file).name}:{each.line}): {_said(each)}"
    if len(differing) > _MOST_DIFFERENCES:
        yield f"  and {len(differing) - _MOST_DIFFERENCES} more functions that differ"


def _said(difference: Difference) -> str:
    found = [
        _values(difference.tallies, field, name)
        for field, name in _MEASURED.items()
        if field in difference.differing
    ]
    if "absent" in difference.differing:
        found = [f"compiles {_arrow(difference.tallies, 'compiles')}"]
    if "seconds" in difference.differing:
        times = (f"{tally.seconds:.2f} s" for tally in difference.tallies if tally)
        found.append(f"compile time {' -> '.join(times)}")
    return ", ".join(found) or "other reasons"


def _values(tallies: Sequence[object], field: str, name: str) -> str:
    return f"{name} {_arrow(tallies, field)}"


def _arrow(tallies: Sequence[object], field: str) -> str:
    return " -> ".join("none" if each is None else str(getattr(each, field)) for each in tallies)
