"""`anyshape report DIR`: one HTML page of a trace."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from anyshape.cli.command import Failure
from anyshape.explain.advice import advise
from anyshape.explain.report import NotATrace, write_report


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what ANYSHAPE_TRACE was set to")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where the page goes (default: DIR/report.html)"
    )


def _advice(folder: Path) -> tuple[list[Mapping[str, object]] | None, list[str]]:
    """What could be spared. A page without it is better than none."""
    try:
        return [each.to_json() for each in advise(folder)], []
    except Exception as error:
        return None, [f"no advice could be made of this trace: {type(error).__name__}: {error}"]


def run(options: argparse.Namespace) -> int:
    output = Path(options.output) if options.output else Path(options.folder) / "report.html"
    if output.is_dir():
        output = output / "report.html"
    advice, notes = _advice(Path(options.folder))
    try:
        written = write_report(options.folder, output, advice, notes)
    except NotATrace as why:
        raise Failure(str(why)) from None
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror or error}") from None
    print(f"{written} ({written.stat().st_size // 1024} KiB)")
    return 0
