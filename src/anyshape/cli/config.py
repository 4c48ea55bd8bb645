"""`anyshape config [NAME…]`: the settings, what they are now, and how they are set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from textwrap import fill, indent

from anyshape.cli.command import Failure
from anyshape.config import SECRETS, SettingDescription, config
from anyshape.errors import SettingsError
from anyshape.support.spelling import did_you_mean


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these settings")
    parser.add_argument("--json", action="store_true", help="for programs: a list of objects")


def run(options: argparse.Namespace) -> int:
    try:
        config.check_environment()
        described = config.describe()
    except SettingsError as error:
        raise Failure(str(error)) from None
    chosen = [_without_secret(each) for each in _chosen(described, options.names)]
    if options.json:
        print(json.dumps([_as_json(each) for each in chosen], indent=2))
        return 0
    group = ""
    for each in chosen:
        if each.group != group:
            group = each.group
            print(f"# {group}\n")
        print(_as_text(each), end="\n\n")
    return 0


def _without_secret(each: SettingDescription) -> SettingDescription:
    """A key is nobody's business: what is shown ends up in reports of bugs."""
    is_secret = each.name in SECRETS and each.value
    return each._replace(value="(set)") if is_secret else each


def _chosen(
    described: Sequence[SettingDescription], names: Sequence[str]
) -> Sequence[SettingDescription]:
    known = {each.name: each for each in described}
    for name in names:
        if name not in known:
            raise Failure(f"there is no setting {name}{did_you_mean(name, known)}")
    return [known[name] for name in names] or described


def _as_text(each: SettingDescription) -> str:
    value = f"{each.name} = {each.value!r}"
    if each.value != each.default:
        value += f"  (default: {each.default!r})"
    how = f"Takes {each.accepted}. Set by {each.variable}, or config.{each.name}."
    return f"{value}\n{indent(fill(f'{each.text} {how}', 92), '    ')}"


def _as_json(each: SettingDescription) -> dict[str, object]:
    return {
        "name": each.name,
        "value": each.value,
        "default": each.default,
        "variable": each.variable,
        "accepted": each.accepted,
        "description": each.text,
        "group": each.group,
    }
