"""Texts of guards taken apart, and said in words that people use."""

from __future__ import annotations

import re
from typing import Final

#: What the numbers of the global state stand for, in order.
_STATE: Final = (
    "grad mode",
    "torch function modes",
    "torch dispatch modes",
    "default dtype",
    "autocast",
    "inference mode",
    "deterministic algorithms",
    "no functorch transform",
    "torch functions enabled",
    "no saved-tensor hooks",
    "not in torch.jit.trace",
    "forward-mode differentiation",
    "replaced functions of torch",
)
#: Traces of the first version have so many.
_FIRST_STATE: Final = 11
_STATES: Final = re.compile(r"global state == (\(.*\)), actual (\(.*\))")
_INTEGERS: Final = re.compile(r"(?s).+ (==|!=|<=|>=|<|>) -?[0-9]+, actual -?[0-9]+")
_WORDS: Final = {"True": "on", "False": "off"}


def split(text: str) -> list[str]:
    """At commas that stand in no bracket."""
    parts, depth, start = list[str](), 0, 0
    for index, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def tensor_fields(text: str) -> dict[str, str]:
    """`tensor 'x': type=Tensor, dtype=torch.float32, size=[?], contiguous` by field."""
    _, _, listed = text.rpartition("': ") if "': " in text else text.rpartition('": ')
    found: dict[str, str] = {}
    for part in split(listed):
        name, equals, value = part.partition("=")
        found[name if equals else "layout class"] = value if equals else name
    return found


def state_fields(text: str) -> dict[str, str]:
    inner = text.partition("(")[2].rpartition(")")[0]
    values = split(inner)
    if not _FIRST_STATE <= len(values) <= len(_STATE):
        return {"global state": inner}
    return dict(zip(_STATE, (_WORDS.get(value, value) for value in values), strict=False))


def in_words(sentence: str) -> str:
    """The reason of a recompile; of a state with many fields, only what differs."""
    found = _STATES.fullmatch(sentence)
    if found is None:
        return sentence
    before, now = state_fields(found[1]), state_fields(found[2])
    differing = [
        f"{name} was {value}, and is {now[name]} now"
        for name, value in before.items()
        if name in now and now[name] != value
    ]
    return "; ".join(differing) or sentence


def is_about_sizes(sentence: str) -> bool:
    """About a size, or an integer: what can be dynamic."""
    is_size = "size mismatch" in sentence or ".size()[" in sentence
    return is_size or _INTEGERS.fullmatch(sentence) is not None
