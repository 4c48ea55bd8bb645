"""What may go wrong in a native function, numbered: the text has numbers, the error has words."""

from __future__ import annotations

from collections.abc import Iterable


class Reasons:
    """Numbers from 1."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def number(self, reason: str) -> int:
        self._reasons.append(reason)
        return len(self._reasons)

    def numbers(self, reasons: Iterable[str]) -> int:
        """The number of the first; the others follow."""
        first = len(self._reasons) + 1
        self._reasons += reasons
        return first

    def all(self) -> tuple[str, ...]:
        return tuple(self._reasons)
