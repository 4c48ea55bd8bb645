"""The command line: `anyshape <command>`, also `python -m anyshape <command>`.

A command is a module of this package with `add(parser)`, which says what it takes, and
`run(options) -> int`, which does it; its row is in the table below. Commands load torch only when
they run something.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from typing import Final

from anyshape.cli import cache, config, doctor, explain, export, profile, report, run, watch
from anyshape.cli.command import Command, Failure, Parser, add_commands
from anyshape.cli.doctor import installed
from anyshape.support.requirements import TooOld, require_torch

COMMANDS: Final = (
    Command("run", "run a PyTorch script with anyshape behind torch.compile", run.add, run.run),
    Command(
        "explain",
        "run a script, and advise how to avoid recompiles and graph breaks",
        explain.add,
        explain.run,
    ),
    Command(
        "export", "export a function or module of a script as a package", export.add, export.run
    ),
    Command(
        "show", "show what inputs and shapes a package accepts", export.add_show, export.run_show
    ),
    Command(
        "report", "make an HTML page of a trace: what was compiled, and why", report.add, report.run
    ),
    Command("watch", "follow the trace of a job while it runs", watch.add, watch.run),
    Command(
        "profile",
        "show and manage the profile: the sizes that earlier runs have seen",
        profile.add,
        profile.run,
    ),
    Command(
        "cache",
        "manage the cache of compiled code: here, shared by a team, as a file",
        cache.add,
        cache.run,
    ),
    Command("config", "list the settings and their values", config.add, config.run, False),
    Command(
        "doctor",
        "check the installation: versions, CPU, GPU, caches, a self-test",
        doctor.add,
        doctor.run,
        False,
    ),
)


def command_line() -> argparse.ArgumentParser:
    """All that the command takes."""
    parser = Parser(
        prog="anyshape", description="Compile PyTorch functions once, run them at any shape."
    )
    parser.add_argument("--version", action="version", version=_versions())
    add_commands(parser, "command", COMMANDS)
    return parser


def _versions() -> str:
    """What a report of a bug has to say."""
    anyshape, torch = (installed(name) or "(not installed)" for name in ("anyshape", "torch"))
    return f"anyshape {anyshape}, Python {platform.python_version()}, torch {torch}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = command_line().parse_args(arguments)
    try:
        if options.needs_torch:
            require_torch(installed("torch") or "")
        status = options.command(options)
        sys.stdout.flush()
    except (Failure, TooOld) as failure:
        print(f"anyshape: {failure}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever reads has seen enough. Python must not try to write the rest at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
