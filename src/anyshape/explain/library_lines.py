"""Lines of installed packages: nobody who reads a message wants to change them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from anyshape.events.kinds import Frame

_LIBRARY: Final = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d[^/\\]*)(?=[/\\])")


def is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def in_library(file: str) -> str:
    """The file as its library has it, `transformers/models/gpt2/modeling_gpt2.py`; empty for one of
    the program."""
    ends = [found.end() for found in _LIBRARY.finditer(file)]
    return file[ends[-1] + 1 :] if ends else ""


def own_line(stack: Iterable[Frame]) -> Frame | None:
    """The line of the program that leads somewhere: the innermost that is in no library."""
    own = [
        each for each in stack if not (each.filename.startswith("<") or is_library(each.filename))
    ]
    return own[-1] if own else None
