"""`anyshape explain script.py args…`: run it, then say which compiles could be spared, and how.

The script runs as with `anyshape run`, in a process of its own, with a trace that nobody sees and
without the profile of earlier runs, which would hide what there is to see. What it prints stays as
it is. `--verify` runs it once more with the settings that are advised.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Final

from anyshape.cli import advice_text
from anyshape.cli.advice_text import Run
from anyshape.cli.command import Failure, takes_program
from anyshape.compat.environment import translate
from anyshape.explain.advice import Summary, environment_of, summary_of_trace
from anyshape.explain.advice.advice import Setting
from anyshape.policy.sources import parse_dynamic_sources

_SOURCES: Final = "dynamic_sources"
#: So many lines of a second run that went wrong are shown.
_LAST_LINES: Final = 8


def add(parser: argparse.ArgumentParser) -> None:
    takes_program(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run it a second time, with the settings that are advised, and compare",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="the advice as JSON on stdout; what the script prints there goes to stderr",
    )
    parser.add_argument("--trace", metavar="DIR", help="keep the trace of the (first) run there")


def run(options: argparse.Namespace) -> int:
    if not options.module and not Path(options.script).exists():
        raise Failure(f"there is no file {options.script}")
    environment = dict(os.environ)
    translate(environment)
    # What earlier runs have learned hides what the program does by itself.
    environment.setdefault("ANYSHAPE_PROFILE", "0")
    out = sys.stderr if options.json else None
    folder = options.trace or environment.get("ANYSHAPE_TRACE", "")
    with _folder(folder) as place:
        first = _run(options, environment, place, out)
    if first.status and not first.summary.functions:
        print(
            f"anyshape: it ended with status {first.status}, and compiled nothing", file=sys.stderr
        )
        return first.status
    settings = settings_of(first.summary)
    second = None
    if options.verify and settings:
        with _folder("") as place:
            second = _verify(options, environment, settings, place)
    if options.json:
        print(json.dumps(_as_json(first, settings, second), indent=2))
    else:
        advice_text.show(first.summary, settings, first.status, options.verify, second)
    return first.status or (1 if second is not None and second.status else 0)


def settings_of(summary: Summary) -> dict[str, Setting]:
    """Those of all advice together."""
    settings: dict[str, Setting] = {}
    sources: dict[str, None] = {}
    for advice in summary.advice:
        for name, value in advice.settings.items():
            if name == _SOURCES:
                sources |= dict.fromkeys(each.text for each in parse_dynamic_sources(str(value)))
            else:
                settings[name] = value
    return {**settings, _SOURCES: ",".join(sources)} if sources else settings


# -- runs ------------------------------------------------------------------------------------------


@contextmanager
def _folder(kept: str) -> Iterator[Path]:
    if kept:
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory(prefix="anyshape-explain-") as made:
        yield Path(made)


def _run(
    options: argparse.Namespace, environment: Mapping[str, str], folder: Path, out: IO[str] | None
) -> Run:
    before = {each.name for each in folder.glob("*")} if folder.is_dir() else set[str]()
    sys.stdout.flush()
    status = _wait(
        subprocess.Popen(
            _command(options), env={**environment, "ANYSHAPE_TRACE": str(folder)}, stdout=out
        )
    )
    return Run(status, summary_of_trace(folder, before))


def _verify(
    options: argparse.Namespace,
    environment: Mapping[str, str],
    settings: Mapping[str, Setting],
    folder: Path,
) -> Run:
    """A run with other settings, of which nobody sees what it prints."""
    changed = {**environment, **environment_of(settings), "ANYSHAPE_TRACE": str(folder)}
    listed = environment.get("ANYSHAPE_DYNAMIC_SOURCES", "")
    if listed and _SOURCES in settings:
        changed["ANYSHAPE_DYNAMIC_SOURCES"] = f"{listed},{settings[_SOURCES]}"
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(
            _command(options),
            env=changed,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        status = _wait(process)
        printed.seek(0)
        last = printed.read().splitlines()[-_LAST_LINES:]
    return Run(status, summary_of_trace(folder), "\n".join(last))


def _command(options: argparse.Namespace) -> list[str]:
    is_module: Sequence[str] = ["-m"] if options.module else []
    return [
        *(sys.executable, "-m", "anyshape", "run", *is_module, options.script),
        *options.arguments,
    ]


def _wait(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    """The status of the program. Who interrupts it means the program: what it has told so far is
    still worth a look."""

    def passed_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    # The terminal sends an interrupt to both.
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, passed_on),
    }
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # As a shell has it.
    return status if status >= 0 else 128 - status


def _as_json(first: Run, settings: Mapping[str, Setting], second: Run | None) -> dict[str, object]:
    held: dict[str, object] = {
        "status": first.status,
        "compiles": first.summary.compiles,
        "functions": first.summary.functions,
        "advice": [each.to_json() for each in first.summary.advice],
        "settings": dict(settings),
        "verified": None,
    }
    if second is not None:
        held["verified"] = {
            "status": second.status,
            "compiles": second.summary.compiles,
            "functions": second.summary.functions,
            "same_calls": second.summary.first_calls == first.summary.first_calls,
        }
    return held
