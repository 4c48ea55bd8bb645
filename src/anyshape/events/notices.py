"""What people are told once: something does not work, and the program goes on without it."""

from __future__ import annotations

from contextlib import suppress

from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.support.user_warning import warn_user


class Notices:
    """Warnings of one part of the package, each one once."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._told: set[str] = set()

    def tell(self, text: str, about: str | None = None) -> None:
        """Once for what it is about, and never more than a warning: where warnings are errors,
        there is nobody to catch it in the background."""
        about = text if about is None else about
        if about in self._told:
            return
        self._told.add(about)
        stream.emit(kinds.Defect(self._stage, text))
        with suppress(Warning):
            warn_user(text)
