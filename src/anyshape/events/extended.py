"""More on one symbol or one guard: where in the program, and where in anyshape, it was made.

    ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL="s0"          with the log `dynamic`
    ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED="Eq(s0, 5)"
    ANYSHAPE_EXTENDED_ADVICE=0                          no advice on how to ask for more

Events are told where they happen, so whoever writes the line can look at the stack.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Final

_SYMBOL: Final = "ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL"
_GUARD: Final = "ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED"
_ADVICE: Final = "ANYSHAPE_EXTENDED_ADVICE"

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_TELLING: Final = str(Path(__file__).parent) + os.sep


def about_symbol(symbol: str) -> str:
    """What to add to the line about a new symbol."""
    if symbol in _chosen(_SYMBOL):
        return _stacks()
    advice = f', for more info run with {_SYMBOL}="{symbol}"'
    suppress = f' or to suppress this message run with {_ADVICE}="0"'
    return advice + suppress if _advises() else ""


def about_guard(expr: str) -> str:
    """What to add to the line about a new guard."""
    # An expression may have commas in it.
    if expr in (os.environ.get(_GUARD, "").strip(), *_chosen(_GUARD)):
        return _stacks()
    return f', for more info run with {_GUARD}="{expr}"' if _advises() else ""


def _advises() -> bool:
    return os.environ.get(_ADVICE, "1") != "0"


def _chosen(variable: str) -> list[str]:
    return [part.strip() for part in os.environ.get(variable, "").split(",") if part.strip()]


def _stacks() -> str:
    """The program, then anyshape, each from the outermost call."""
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_TELLING)]
    ours = [f for f in frames if f.filename.startswith(_PACKAGE)]
    users = [f for f in frames if not f.filename.startswith((_PACKAGE, "<anyshape"))]
    lines = ["", "User Stack (most recent call last):", *_lines(users)]
    lines += ["Framework stack (most recent call last):", *_lines(ours)]
    return "\n".join(lines)


def _lines(frames: list[traceback.FrameSummary]) -> list[str]:
    return [
        line for text in traceback.format_list(frames) for line in text.rstrip("\n").split("\n")
    ]
