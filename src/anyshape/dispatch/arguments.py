"""One call: its arguments by parameter, and the error that it may raise."""

from __future__ import annotations

import types
from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any

from anyshape.capture.hooks.caller_frames import is_ours
from anyshape.capture.outline.sites import is_region_of
from anyshape.capture.run import Arguments


def by_parameter(signature: Signature, bound: Mapping[str, Any]) -> Arguments:
    positional: dict[str, Any] = {}
    keyword: dict[str, Any] = {}
    star, star_star = None, None
    for name, parameter in signature.parameters.items():
        match parameter.kind:
            case Parameter.VAR_POSITIONAL:
                star = (name, bound[name])
            case Parameter.VAR_KEYWORD:
                star_star = (name, bound[name])
            case Parameter.KEYWORD_ONLY:
                keyword[name] = bound[name]
            case _:
                positional[name] = bound[name]
    return Arguments(positional, keyword, star, star_star)


def as_given(arguments: Arguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as a call has them."""
    star = arguments.star[1] if arguments.star else ()
    named = arguments.star_star[1] if arguments.star_star else {}
    return (*arguments.positional.values(), *star), {**arguments.keyword, **named}


def show_user_frames(error: Exception) -> None:
    """Take our own frames out of the traceback of an error of the user's program."""
    entries: list[types.TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not is_ours(code):
            if entries and is_region_of(code, entries[-1].tb_frame.f_code):
                entries.pop()  # The line is the region's.
            entries.append(entry)
        entry = entry.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(entries):
        kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = kept
