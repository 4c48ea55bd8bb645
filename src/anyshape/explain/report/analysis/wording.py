"""Guards and their failures, said in words that people use."""

from __future__ import annotations

from typing import Final

from anyshape.events.kinds import GuardFailure
from anyshape.explain.guard_texts import state_parts
from anyshape.guards.text import STATE_PARTS

#: Traces of the first version have so many.
_FIRST_STATE: Final = 11
_WORDS: Final = {"True": "on", "False": "off"}


def state_fields(text: str) -> dict[str, str]:
    values = state_parts(text)
    if not _FIRST_STATE <= len(values) <= len(STATE_PARTS):
        return {"global state": text.partition("(")[2].rpartition(")")[0]}
    return dict(zip(STATE_PARTS, (_WORDS.get(value, value) for value in values), strict=False))


def in_words(failure: GuardFailure) -> str:
    """The reason of a recompile. Traces of earlier versions have a state whole: what differs."""
    if failure.kind != "state" or not failure.text.startswith("global state"):
        return failure.text
    before, now = state_fields(failure.expected), state_fields(failure.actual)
    differing = [
        f"{name} was {value}, and is {now[name]} now"
        for name, value in before.items()
        if name in now and now[name] != value
    ]
    return "; ".join(differing) or failure.text


def is_about_sizes(failure: GuardFailure) -> bool:
    """About a size, or an integer: what can be dynamic."""
    if failure.kind == "equals":
        values = (failure.expected, failure.actual)
        return all(value.removeprefix("-").isdecimal() for value in values)
    on_sizes = failure.kind in ("size", "condition", "range", "one_symbol")
    return on_sizes or ".size()[" in failure.text
