"""What a command is, and what it says when it cannot do its work."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, NoReturn

from anyshape.support.spelling import did_you_mean, similar


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
            message += self._nearest(found[1] or found[2])
        super().error(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] of overloads
        given = list(sys.argv[1:] if args is None else args)
        # An unknown option is told before what is missing, and by the command that was to have it.
        first = next(iter(given), "").partition("=")[0]
        is_option = first.startswith("--") and first != "--"
        if is_option and not any(each.startswith(first) for each in self._options()):
            self.error(f"unrecognized arguments: {first}")
        found, unknown = super().parse_known_args(given, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _options(self) -> Iterator[str]:
        for action in self._actions:
            yield from action.option_strings

    def _nearest(self, word: str) -> str:
        """Options are compared without their dashes, which all of them have."""
        if word.startswith("-"):
            found = similar(word.strip("-"), [each.strip("-") for each in self._options()], count=1)
            return f"; did you mean '--{found[0]}'?" if found else ""
        choices = (choice for action in self._actions for choice in action.choices or ())
        return did_you_mean(word, choices)


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
