"""Lines of a file of events, as the events that they were written from.

    {"event": "range_updated", "time": 1.5, "compile_id": "0/0", "symbol": "s0", "range": "[2, 9]"}
    RangeUpdated("s0", "[2, 9]", compile_id="0/0")

How a field is read follows from its annotation in `kinds.py`. A file may be of an older anyshape or
of a newer one, may be damaged, and may come from anybody: kinds and fields that are not known are
passed over; what is missing, or is of another type, is the field's default, or else empty.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, cast, get_args, get_origin, get_type_hints

from anyshape.events import kinds
from anyshape.events.kinds import Event, Frame, Place
from anyshape.events.trace.own_events import Source, event_name
from anyshape.support.lazy_dataclass import MISSING, fields, is_dataclass

Record = Mapping[str, object]

#: Numbers beyond are not exact in a browser.
_LARGEST: Final = 2**53
#: A time or a duration beyond, as infinity and NaN, is none.
_LONGEST: Final = 1e15

#: In place of a value of another type.
_WRONG: Final = object()


def record_of(line: str) -> Record | None:
    """None for what is no object of JSON."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("Record", found) if isinstance(found, dict) else None


def event_of(record: Record) -> Event | None:
    """None for an event that is not known."""
    name = record.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    return None if kind is None else cast("Event", _codec(kind).read(record))


_KINDS: Final = {
    event_name(kind): kind
    for kind in (*vars(kinds).values(), Source)
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


# -- values by type --------------------------------------------------------------------------------


class _Codec(NamedTuple):
    """How values of a type are read: `_WRONG` stands for what is no such value."""

    read: Callable[[object], object]
    #: in place of what is wrong or missing; without one, the item is left out
    empty: object = _WRONG

    def read_or_empty(self, value: object) -> object:
        found = self.read(value)
        return self.empty if found is _WRONG else found


def number(value: object) -> int | None:
    """None for what is no whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_LARGEST < value < _LARGEST else None


def seconds(value: object) -> float:
    """A time or a duration; 0 for what is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return float(value) if -_LONGEST < value < _LONGEST else 0.0


def text(value: object) -> str:
    """Empty for what is no text."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> Sequence[str]:
    return cast("Sequence[str]", _sequence(_PLAIN[str]).read_or_empty(value))


def _read_place(value: object) -> object:
    match value:
        case [str() as file, int() as line, str() as function]:
            return Place(file, number(line) or 0, function)
        case _:
            return _WRONG


def _of_type(wanted: type) -> Callable[[object], object]:
    return lambda value: value if isinstance(value, wanted) else _WRONG


def _read_number(value: object) -> object:
    return _WRONG if number(value) is None else value


_PLAIN: Final[dict[object, _Codec]] = {
    str: _Codec(_of_type(str), ""),
    bool: _Codec(_of_type(bool), False),
    int: _Codec(_read_number, 0),
    float: _Codec(seconds, 0.0),
    NoneType: _Codec(_of_type(NoneType), None),
    Frame: _Codec(_read_place),
}


@functools.cache
def _codec(wanted: Any) -> _Codec:
    if wanted in _PLAIN:
        return _PLAIN[wanted]
    inner = [_codec(each) for each in get_args(wanted)]
    if get_origin(wanted) is UnionType:
        return _union(inner)
    if get_origin(wanted) is Sequence:
        return _sequence(inner[0])
    if get_origin(wanted) is Mapping:
        return _mapping(inner[1])
    hints = get_type_hints(wanted)
    if is_dataclass(wanted):
        return _dataclass(wanted, hints)
    return _tuple(wanted, hints)


def _union(inner: Sequence[_Codec]) -> _Codec:
    def read(value: object) -> object:
        found = (each.read(value) for each in inner)
        return next((each for each in found if each is not _WRONG), _WRONG)

    return _Codec(read, None if any(each.empty is None for each in inner) else inner[0].empty)


def _sequence(item: _Codec) -> _Codec:
    def read(value: object) -> object:
        if not isinstance(value, list):
            return _WRONG
        found = map(item.read_or_empty, cast("list[object]", value))
        return tuple(each for each in found if each is not _WRONG)

    return _Codec(read, ())


def _mapping(item: _Codec) -> _Codec:
    def read(value: object) -> object:
        if not isinstance(value, dict):
            return _WRONG
        found = {k: item.read_or_empty(v) for k, v in cast("dict[str, object]", value).items()}
        return {k: v for k, v in found.items() if v is not _WRONG}

    return _Codec(read, {})


def _tuple(wanted: Any, hints: Mapping[str, Any]) -> _Codec:
    """Named tuples are written as lists; a newer anyshape may have more items at the end."""
    defaults: Mapping[str, object] = wanted._field_defaults
    items = [
        _codec(hint)._replace(empty=defaults.get(name, _codec(hint).empty))
        for name, hint in hints.items()
    ]

    def read(value: object) -> object:
        if not isinstance(value, list):
            return _WRONG
        given = cast("list[object]", value)
        given = given + [_WRONG] * (len(items) - len(given))
        return wanted(*(item.read_or_empty(each) for item, each in zip(items, given, strict=False)))

    return _Codec(read)


def _dataclass(wanted: Any, hints: Mapping[str, Any]) -> _Codec:
    held: dict[str, _Codec] = {}
    for each in fields(wanted):
        # What the class has a default for is left to it.
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        codec = _codec(hints[each.name])
        held[each.name] = codec._replace(empty=_WRONG) if has_default else codec

    def read(value: object) -> object:
        if not isinstance(value, dict):
            return _WRONG
        given = cast("dict[str, object]", value)
        found = {name: codec.read_or_empty(given.get(name, _WRONG)) for name, codec in held.items()}
        return wanted(**{name: each for name, each in found.items() if each is not _WRONG})

    return _Codec(read)
