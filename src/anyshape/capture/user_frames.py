"""The lines of the user's program that are being run, for guards, nodes and messages.

Thousands of guards ask, and Python makes an object of every frame that is looked at. So each line
is described once a capture, and what called torch's own modules is found once a call of them.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final

from anyshape.capture.rewrite.instrument import instrumented_by_identity
from anyshape.guards.guard import Frame
from anyshape.ops.origins import TORCH


class UserFrames:
    """Of one capture."""

    def __init__(self) -> None:
        #: for each watched function that was called and runs: the line outside torch's own modules
        #: that its call is due to, once it was asked for
        self.calls: list[Frame | None] = []
        #: by code and instruction, with whether it is torch's; the capture keeps the code alive
        self._lines: dict[tuple[int, int], tuple[Frame, bool]] = {}

    def innermost(self, above: int = 1) -> Frame | None:
        """The line that is being run. So many callers are known to be ours, and are not asked."""
        frame = _watched(sys._getframe(above))
        if frame is None:
            return None
        line, of_torch = self._line(frame)
        return self._caller(frame) or line if of_torch else line

    def is_torch_running(self) -> bool:
        """Whether the line that is being run is one of torch's own modules."""
        frame = _watched(sys._getframe(1))
        return frame is not None and self._line(frame)[1]

    def _line(self, frame: FrameType) -> tuple[Frame, bool]:
        code = frame.f_code
        found = self._lines.get((id(code), frame.f_lasti))
        if found is not None:
            return found
        line = Frame(code.co_filename, frame.f_lineno, code.co_name)
        found = self._lines[id(code), frame.f_lasti] = (line, code.co_filename.startswith(TORCH))
        return found

    def _caller(self, frame: FrameType | None) -> Frame | None:
        """A line of torch's own modules says less than the line that called the module."""
        known = self.calls[-1] if self.calls else None
        if known is not None:
            return None if known is _NOBODY else known
        while frame is not None:
            if id(frame.f_code) in instrumented_by_identity:
                line, of_torch = self._line(frame)
                if not of_torch:
                    break
            frame = frame.f_back
        else:
            line = None
        if self.calls:
            self.calls[-1] = line or _NOBODY
        return line


def _watched(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is captured."""
    ours = instrumented_by_identity
    while frame is not None and id(frame.f_code) not in ours:
        frame = frame.f_back
    return frame


_NOBODY: Final = Frame("", 0, "")
