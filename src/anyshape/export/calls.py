"""The calls that a user gives as examples, in the forms in which they can be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anyshape.errors import BadOption

Call = tuple[tuple[Any, ...], dict[str, Any]]


def call_of(args: Any, kwargs: Any) -> Call:
    """`args=` and `kwargs=`, or an error that says what they are."""
    if not isinstance(args, tuple | list):
        raise _bad("args", args, "a tuple of arguments: (x,), if it is one")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise _bad("kwargs", kwargs, "a dict of named arguments, or None")
    names = dict(kwargs or {})
    for name in names:
        if not isinstance(name, str):
            raise _bad("kwargs", kwargs, f"names of arguments, and {name!r} is none")
    return tuple(args), names


def calls_in(examples: Any) -> list[Call]:
    """`example_inputs=`: tuples of arguments, dicts of named ones, pairs of both, or single
    arguments."""
    if examples is None:
        return []
    if not isinstance(examples, Iterable) or isinstance(examples, Mapping | str):
        raise _bad("example_inputs", examples, "a list of calls: [(x,), (y,)]")
    return [_call(each) for each in examples]


def _call(example: Any) -> Call:
    match example:
        case dict():
            return call_of((), example)
        case (tuple() | list() as args, dict() as kwargs):
            return call_of(args, kwargs)
        case tuple() | list():
            return tuple(example), {}
        case _:
            return (example,), {}


def _bad(option: str, value: Any, accepted: str) -> BadOption:
    shown = repr(value)
    brief = shown if len(shown) < 60 else f"<a {type(value).__name__}>"
    return BadOption(option=option, value=_Text(brief), accepted=accepted)


class _Text(str):
    """Shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__
