"""Warnings that point at a line of the user's, however deep in the package they are made."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Final

#: Whose frames stand between a user and a warning. Generated code has no name, or ours.
_BETWEEN: Final = frozenset({"anyshape", "torch", "functools", "contextlib", "threading"})


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the innermost line that is neither the package's nor torch's; at none, in a thread
    of the package's."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"anyshape: {text}", category, stacklevel=level)


def _is_between(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", "anyshape"))
    return name.partition(".")[0] in _BETWEEN
