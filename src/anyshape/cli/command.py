"""What a command is, and what it says when it cannot do its work."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Failure(Exception):
    """Shown without a traceback; the text says what to do."""


class Command(NamedTuple):
    """`anyshape <name>`, or an action of such a command."""

    name: str
    help: str
    #: says what it takes
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_commands(parser: argparse.ArgumentParser, what: str, commands: Iterable[Command]) -> None:
    """Let the first argument choose one, whose `run` is then the option `what`."""
    parsers = parser.add_subparsers(metavar=what, required=True)
    for command in commands:
        made = parsers.add_parser(command.name, help=command.help, description=command.help)
        command.add(made)
        made.set_defaults(**{what: command.run})


def takes_program(parser: argparse.ArgumentParser) -> None:
    """A script or a module, and what it is given."""
    parser.add_argument("-m", action="store_true", dest="module", help="SCRIPT names a module")
    parser.add_argument("script", metavar="SCRIPT", help="the program, or the module with -m")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="what the program is given"
    )
