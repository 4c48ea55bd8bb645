"""Fields of an event, whatever they hold: what is not of the right type is as if it were absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from anyshape.explain.advice.reading import SourceLine

Record = Mapping[str, object]
_T = TypeVar("_T")

#: No text that people read is longer, generated code aside.
LONGEST_TEXT: Final = 20_000
#: Numbers beyond are not exact in a browser.
LARGEST: Final = 2**53


def text_of(value: object, longest: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= longest else f"{value[:longest]}… ({len(value)} characters)"


def int_of(value: object, otherwise: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return otherwise
    return value if -LARGEST < value < LARGEST else otherwise


def maybe_int(value: object) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and -LARGEST < value < LARGEST
    return cast("int", value) if is_one else None


def seconds_of(value: object) -> float:
    """A time or a duration: never infinite, never NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if -1e15 < value < 1e15 else 0.0


def items_of(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def mapping_of(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def texts_of(value: object) -> list[str]:
    return [text_of(each) for each in items_of(value)]


def place_of(value: object) -> SourceLine | None:
    match value:
        case [str() as file, int() as line, str() as function]:
            return SourceLine(text_of(file, 1000), int_of(line), text_of(function, 500))
        case _:
            return None


def parts_of(value: object, width: int) -> list[object]:
    """A list of this length, filled up with None."""
    found = items_of(value)[:width]
    return found + [None] * (width - len(found))


def each_of(value: object, make: Callable[[object], _T]) -> list[_T]:
    return [make(each) for each in items_of(value)]
