"""Short strings: one word for each dimension.

"batch seq 64"          names and numbers
"batch 2*seq+1 _"       a size that follows from another; one that is not spoken of
"batch ... seq + 1"     any number of dimensions; spaces are fine around an operator of two numbers
"max(a, b) (2 * seq)"   and within parentheses
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import EllipsisType
from typing import Final, NamedTuple

from anyshape.errors import AnyshapeError, BadShapeSpec
from anyshape.shapes.dims import FUNCTIONS
from anyshape.symbolic import Size, parse_size, symbol

_NAME: Final = re.compile(r"(?<![\w.])[^\W\d]\w*")
_NUMBER: Final = re.compile(r"(?<!\w)\d+")
_OPERATORS: Final = frozenset({"+", "-", "*", "//", "%"})


class Word:
    """A size as text. The names in it get their ranges from elsewhere in the spec."""

    __slots__ = ("names", "place", "text")

    def __init__(self, text: str, place: str) -> None:
        self.text: Final = text
        self.place: Final = place
        self.names: Final = names_in(text)
        self._check()

    def __repr__(self) -> str:
        return self.text

    def size(self, dims: dict[str, Size]) -> Size:
        return parse_size(self.text, dims)

    def _check(self) -> None:
        try:
            size = self.size({name: symbol(name) for name in self.names})
        except AnyshapeError as error:
            first = str(error).splitlines()[0]
            raise BadShapeSpec(
                place=self.place,
                found=f"the word `{self.text}` ({first})",
                expected="a name, a number, `_`, `...` or a size computed from names (`2*seq+1`)",
            ) from None
        if self.text.startswith("+") or "_" in self.names:
            raise BadShapeSpec(
                place=self.place,
                found=f"the word `{self.text}`",
                expected="a name or a number on both sides of an operator: `seq + 1`",
            )
        if isinstance(size, int) and size < 0:
            raise BadShapeSpec(
                place=self.place,
                found=f"the word `{self.text}`",
                expected="a size of at least 0, or `_` for one that is not spoken of",
            )


class Broadcast(NamedTuple):
    """A size that may be 1 in place of what it is."""

    size: Word | int


class Variadic(NamedTuple):
    """Any number of sizes with a name: the same ones wherever the name stands. Those of a broadcast
    may be 1, and the first ones may be missing."""

    name: str
    is_broadcast: bool

    def sizes(self, count: int, place: str) -> tuple[Word | Broadcast, ...]:
        """A word for each, counted from the last: there the dimensions of a broadcast meet."""
        words = [Word(f"{self.name}_m{index}", place) for index in range(count, 0, -1)]
        return tuple(map(Broadcast, words)) if self.is_broadcast else tuple(words)


def names_in(text: str) -> tuple[str, ...]:
    """The names of dims in the text of an expression or a relation."""
    found = dict.fromkeys(_NAME.findall(text))
    return tuple(name for name in found if name not in FUNCTIONS)


def words(text: str, place: str) -> tuple[Word | int | EllipsisType | None, ...]:
    """What each word says."""
    return tuple(_word(word, f"{place} ({text!r})") for word in _split(text))


def _word(text: str, place: str) -> Word | int | EllipsisType | None:
    if text == "_":
        return None
    if text == "...":
        return ...
    if text.isdecimal():
        return int(text)
    return Word(text, place)


def _split(text: str) -> Iterator[str]:
    word, pieces = "", iter(_pieces(text))
    for piece in pieces:
        if piece in _OPERATORS:
            word = " ".join((word, piece, next(pieces, ""))).strip()
            continue
        if word:
            yield word
        word = piece
    if word:
        yield word


def _pieces(text: str) -> Iterator[str]:
    word, depth = "", 0
    for character in f"{text} ":
        depth += (character == "(") - (character == ")")
        if not character.isspace() or depth > 0:
            word += character
        elif word:
            yield word
            word = ""
    if word:
        yield word


def numbers_in(text: str) -> frozenset[int]:
    """The numbers in the text of an expression or a relation."""
    return frozenset(map(int, _NUMBER.findall(text)))
