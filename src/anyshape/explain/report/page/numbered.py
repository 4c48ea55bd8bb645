"""Places, guards and long texts that stand in the page once, and go by number."""

from __future__ import annotations

from typing import Final

from anyshape.explain.report.reading.fields import SourceLine
from anyshape.explain.report.reading.model import TracedGuard

#: So many characters of generated code are kept; `tlparse` shows all of it.
MOST_CHARACTERS: Final = 6_000_000


class Numbered:
    def __init__(self) -> None:
        self._places: dict[SourceLine, int] = {}
        self._guards: dict[TracedGuard, int] = {}
        self._texts: dict[str, int] = {}
        self._characters = 0
        #: how many texts found no room
        self.left_out = 0

    def place(self, place: SourceLine | None) -> int | None:
        return None if place is None else self._places.setdefault(place, len(self._places))

    def guard(self, guard: TracedGuard) -> int:
        return self._guards.setdefault(guard, len(self._guards))

    def text(self, text: str) -> int | None:
        if text not in self._texts:
            if self._characters + len(text) > MOST_CHARACTERS:
                self.left_out += 1
                return None
            self._characters += len(text)
            self._texts[text] = len(self._texts)
        return self._texts[text]

    def places(self) -> list[list[object]]:
        return [list(place) for place in self._places]

    def guards(self) -> list[list[object]]:
        # A copy: a place may be new.
        return [[*guard[:4], self.place(guard.place)] for guard in list(self._guards)]

    def texts(self) -> list[str]:
        return list(self._texts)
