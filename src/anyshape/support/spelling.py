"""What somebody may have meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def similar(word: object, known: Iterable[object], count: int = 3) -> list[str]:
    """The known words that are most like it; upper and lower case are one."""
    by_lower = {str(each).lower(): str(each) for each in known}
    return [by_lower[each] for each in get_close_matches(str(word).lower(), by_lower, n=count)]


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """A question to end a message with; nothing if no known word is like it, or if it is known and
    refused for another reason."""
    found = similar(word, known, count=1)
    return f"; did you mean {found[0]!r}?" if found and found[0] != str(word) else ""
