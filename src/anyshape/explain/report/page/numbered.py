"""Places, guards and long texts that stand in the page once, and go by number."""

from __future__ import annotations

from typing import Final

from anyshape.events.kinds import Frame, GuardSaid

#: So many characters of generated code are kept; `tlparse` shows all of it.
MOST_CHARACTERS: Final = 6_000_000


#: Of one graph, or of the code for it.
_LONGEST_CODE: Final = 200_000


def picked(value: object, names: str) -> dict[str, object]:
    """Attributes of a value under their own names."""
    return {name: getattr(value, name) for name in names.split()}


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


class Numbered:
    def __init__(self) -> None:
        self._places: dict[Frame, int] = {}
        self._guards: dict[GuardSaid, int] = {}
        self._texts: dict[str, int] = {}
        self._characters = 0
        #: how many texts found no room
        self.left_out = 0

    def place(self, place: Frame | None) -> int | None:
        return None if place is None else self._places.setdefault(place, len(self._places))

    def guard(self, guard: GuardSaid) -> int:
        return self._guards.setdefault(guard, len(self._guards))

    def text(self, text: str) -> int | None:
        text = shortened(text, _LONGEST_CODE)
        if text not in self._texts:
            if self._characters + len(text) > MOST_CHARACTERS:
                self.left_out += 1
                return None
            self._characters += len(text)
            self._texts[text] = len(self._texts)
        return self._texts[text]

    def places(self) -> list[list[object]]:
        return [[each.filename, each.line, each.function] for each in self._places]

    def guards(self) -> list[list[object]]:
        # A copy: a place may be new.
        return [[*guard[:4], self.place(guard.user_frame)] for guard in list(self._guards)]

    def texts(self) -> list[str]:
        return list(self._texts)
