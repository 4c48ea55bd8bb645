"""The command line: `anyshape <command>`, also `python -m anyshape <command>`.

A command is a module of this package with `add(parser)`, which says what it takes, and
`run(options) -> int`, which does it; its row is in the table below. Commands load torch only when
they run something.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from anyshape.cli import explain, export, profile, run
from anyshape.cli.failure import Failure


class Command(NamedTuple):
    name: str
    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS: Final = (
    Command("run", "run a PyTorch script with anyshape behind torch.compile", run.add, run.run),
    Command("explain", "what leads to compiles, and what saves them", explain.add, explain.run),
    Command("export", "write a package of what a script has", export.add, export.run),
    Command("show", "what a package is for", export.add_show, export.run_show),
    Command("profile", "what earlier runs have seen of sizes", profile.add, profile.run),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyshape", description="Compile PyTorch functions once, run them at any shape."
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        made = commands.add_parser(command.name, help=command.help, description=command.help)
        command.add(made)
        made.set_defaults(command=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        status = options.command(options)
        sys.stdout.flush()
    except Failure as failure:
        print(f"anyshape: {failure}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever reads has seen enough. Python must not try to write the rest at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
