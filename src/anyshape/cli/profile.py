"""`anyshape profile show|diff|merge|clear|export-sources`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from anyshape.cli.command import Command, Failure, add_commands
from anyshape.config import config
from anyshape.profile import remote, store
from anyshape.profile.profiles import Damaged, Profile, TooNew
from anyshape.profile.show import (
    chosen,
    difference,
    dynamic_sources,
    environment_line,
    function_lines,
    heading,
)


def add(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, "action", ACTIONS)


def run(options: argparse.Namespace) -> int:
    return options.action(options)


# -- which profile --------------------------------------------------------------------------------


def _own() -> str:
    return str(store.file_in(config.cache_dir))


def _file(place: str) -> Path:
    path = Path(place)
    return path / store.FILE_NAME if path.is_dir() else path


def _read(place: str) -> Profile:
    """The profile at a path or URL. It is only looked at: a damaged one stays where it is."""
    try:
        if "://" in place:
            return remote.fetch(place)
        file = _file(place)
        if not file.exists() and place != _own():
            raise Failure(f"there is no profile at {place}")
        return store.read_exactly(file)
    except Failure:
        raise
    except (Damaged, TooNew) as error:
        raise Failure(f"{place} cannot be read as a profile: {error}") from None
    except Exception as error:
        # Any kind: each of fsspec's file systems has errors of its own.
        raise Failure(f"{place} cannot be read: {type(error).__name__}: {error}") from None


def _unite_into(place: str, known: Profile) -> None:
    try:
        if "://" in place:
            remote.send(place, known)
        else:
            store.update(_file(place), lambda before: before.united(known))
    except Exception as error:
        raise Failure(f"{place} cannot be written: {type(error).__name__}: {error}") from None


def _takes_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file",
        metavar="PLACE",
        help="a file, folder or URL; without it, the profile in config.cache_dir",
    )


def _takes_functions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "functions",
        nargs="*",
        help="only functions of these names; where there is none, those with it in name or file",
    )


def _takes_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all",
        action="store_true",
        help="list what is on modules as well: parameters, buffers, integers",
    )


# -- the actions ----------------------------------------------------------------------------------


def _add_show(parser: argparse.ArgumentParser) -> None:
    _takes_functions(parser)
    _takes_profile(parser)
    _takes_all(parser)
    parser.add_argument("--sizes", action="store_true", help="how often which size was seen")


def _show(options: argparse.Namespace) -> int:
    place = options.file or _own()
    found = chosen(_read(place), options.functions)
    if not found:
        print(f"No function is known in {place}.")
        return 0
    for record in found.values():
        print(heading(record))
        for line in function_lines(record, options.sizes):
            print(line)
        print()
    entries = dynamic_sources(found.values(), options.all)
    if entries:
        print("To make the same dynamic without this profile:")
        print(environment_line(entries))
    else:
        print("Nothing was seen to change.")
    return 0


def _add_export(parser: argparse.ArgumentParser) -> None:
    _takes_functions(parser)
    _takes_profile(parser)
    _takes_all(parser)


def _export(options: argparse.Namespace) -> int:
    found = chosen(_read(options.file or _own()), options.functions)
    print(environment_line(dynamic_sources(found.values(), options.all)))
    return 0


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", help="a file, folder or URL")
    parser.add_argument("after", nargs="?", help="the same; without it, the own profile")


def _diff(options: argparse.Namespace) -> int:
    """Like `diff`: 1 if there is any difference."""
    lines = list(difference(_read(options.before), _read(options.after or _own())))
    for line in lines:
        print(line)
    return 1 if lines else 0


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("inputs", nargs="+", help="files, folders or URLs")
    parser.add_argument(
        "-o", "--output", help="where to; without it, into the own profile. What is there stays."
    )


def _merge(options: argparse.Namespace) -> int:
    known = Profile()
    for place in options.inputs:
        known = known.united(_read(place))
    output = options.output or _own()
    _unite_into(output, known)
    print(f"{len(known)} functions merged into {output}")
    return 0


def _add_clear(parser: argparse.ArgumentParser) -> None:
    _takes_functions(parser)
    _takes_profile(parser)


def _clear(options: argparse.Namespace) -> int:
    place = options.file or _own()
    if "://" in place:
        raise Failure(f"{place} is shared: remove it where it is kept")
    cleared: list[str] = []

    def change(before: Profile) -> Profile:
        if not options.functions:
            cleared.extend(before)
            return Profile()
        cleared.extend(chosen(before, options.functions))
        return before.without(set(cleared))

    try:
        if _file(place).exists():
            store.update(_file(place), change)
    except (OSError, TooNew) as error:
        raise Failure(f"{place} cannot be changed: {error}") from None
    print(f"{len(cleared)} functions removed from {place}")
    return 0


ACTIONS: Final = (
    Command(
        "show", "what is known, one line a source; each ? is more than one value", _add_show, _show
    ),
    Command("diff", "what two profiles know differently", _add_diff, _diff),
    Command("merge", "what several profiles know together", _add_merge, _merge),
    Command("clear", "forget functions, or all of them", _add_clear, _clear),
    Command("export-sources", "the list of what changes, for other runs", _add_export, _export),
)
