"""What a command is, and what it says when it cannot do its work."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, NoReturn

from anyshape.support.spelling import did_you_mean


class Failure(Exception):
    """Shown without a traceback; the text says what to do."""


class Command(NamedTuple):
    """`anyshape <name>`, or an action of such a command."""

    name: str
    help: str
    #: says what it takes
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    #: whether an unsuitable torch is an error before it begins
    needs_torch: bool = True


#: Words that argparse does not know, in its messages.
_UNKNOWN: Final = re.compile(r"invalid choice: '([^']*)'|unrecognized arguments: (\S+)")


class Parser(argparse.ArgumentParser):
    """Asks whether another word was meant."""

    def error(self, message: str) -> NoReturn:
        found = _UNKNOWN.search(message)
        if found:
            message += did_you_mean(found[1] or found[2], self._words())
        super().error(message)

    def _words(self) -> Iterable[str]:
        for action in self._actions:
            yield from action.option_strings
            yield from map(str, action.choices or ())
            if isinstance(action, argparse._SubParsersAction):
                # Options of commands come back to the parser above them.
                for parser in action.choices.values():
                    yield from parser._words()


def add_commands(parser: argparse.ArgumentParser, what: str, commands: Iterable[Command]) -> None:
    """Let the first argument choose one, whose `run` is then the option `what`."""
    parsers = parser.add_subparsers(metavar=what, required=True)
    for command in commands:
        made = parsers.add_parser(command.name, help=command.help, description=command.help)
        command.add(made)
        made.set_defaults(**{what: command.run, "needs_torch": command.needs_torch})


def takes_program(parser: argparse.ArgumentParser) -> None:
    """A script or a module, and what it is given."""
    parser.add_argument("-m", action="store_true", dest="module", help="SCRIPT names a module")
    parser.add_argument("script", metavar="SCRIPT", help="the program, or the module with -m")
    given = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="arguments of the program"
    )
    given.required = False  # Messages about what is missing would name it.
