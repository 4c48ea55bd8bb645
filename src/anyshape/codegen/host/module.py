"""One module of all its texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_DECLARED: Final = re.compile(r"^declare .*?@([-\w.$]+)\(")
_DEFINED: Final = re.compile(r"^define .*?@([-\w.$]+)\(")


def join_module(texts: Iterable[str]) -> str:
    """The texts one after the other. A function may be declared in several of them, or declared in
    one and defined in another; LLVM wants to be told once."""
    lines = [line for text in texts for line in text.splitlines()]
    told = {match[1] for line in lines if (match := _DEFINED.match(line))}
    kept: list[str] = []
    for line in lines:
        declared = _DECLARED.match(line)
        if declared is not None:
            if declared[1] in told:
                continue
            told.add(declared[1])
        kept.append(line)
    return "\n".join(kept) + "\n"
