"""Why a capture ends before its function does: what hooks raise, and what is kept of it."""

from __future__ import annotations

from anyshape.capture.outline.sites import Site
from anyshape.capture.record.data_questions import Question
from anyshape.guards.guard import Frame
from anyshape.support.lazy_dataclass import dataclass


class AbortCapture(Exception):
    """Raised inside a hook, before it has done anything: this cannot be traced."""

    def __init__(
        self,
        reason: str,
        *hints: str,
        question: Question | None = None,
        is_passing: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hints = hints
        self.question = question
        #: whether it is of this call alone, as far as anybody knows
        self.is_passing = is_passing


class TrialEnds(BaseException):
    """Raised inside a part of the program that is tried: it runs again as it is, from its
    beginning. No handler of the program is to see this."""

    def __init__(self, left: AbortCapture) -> None:
        super().__init__(left.reason)
        self.left = left


@dataclass(frozen=True, slots=True)
class AbortReason:
    """Why a capture was given up."""

    reason: str
    frame: Frame | None
    hints: tuple[str, ...] = ()
    #: about data, that would have to be answered
    question: Question | None = None
    #: what the functions that were running did; nothing where it was no operation of the
    #: program's
    sites: tuple[Site, ...] = ()
    #: of each call after it that cannot be traced either, the same
    later: tuple[tuple[Site, ...], ...] = ()
    #: whether it is for an error of the program, as that of an operation with wrong sizes
    is_error: bool = False
    #: whether the next call is likely to be captured: it finds what this one has made
    is_passing: bool = False
