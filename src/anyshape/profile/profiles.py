"""A profile: what is known of many functions, as JSON.

    {"anyshape_profile": 1, "functions": {"Block.forward#3f…": {
        "name": "Block.forward", "file": "model.py", "line": 12, "used": 20772,
        "sources": {"L['x']": {"size": ["?", 64], "stride": [64, 1],
                               "seen": {"0": {"8": 3, "16": 1}, "1": {"64": 4}}},
                    "L['n']": {"int": "?", "seen": {"int": {"1": 2, "5": 1}}}},
        "written": ["L['self'].calls"]}}}

A source with `"module": true` is a parameter or property of a module.

Functions are decoded when they are asked for: a process looks at few of those that a file has. One
that cannot be decoded is as good as unknown, and the others are not the worse for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from anyshape.policy.observations import MANY, Many, Observation, Seen
from anyshape.profile.histogram import Histogram, united
from anyshape.profile.records import (
    INTEGER,
    CombineCounts,
    FunctionRecord,
    SourceRecord,
    combine,
)

VERSION: Final = 1
_VERSION_KEY: Final = "anyshape_profile"

#: A profile is cut to this when it is written. Reading that much takes some 25 ms.
MOST_BYTES: Final = 1_000_000
#: What claims to be a profile and is larger is not read.
MOST_BYTES_READ: Final = 16 * MOST_BYTES

#: A number in JSON may have any length; sizes are below this.
_LARGEST: Final = 2**63

Raw = dict[str, Any]


class Damaged(ValueError):
    """This is not a profile, or not whole."""


class TooNew(ValueError):
    """A later version of anyshape wrote it."""


class Profile(Mapping[str, FunctionRecord]):
    """Records by the key of the function. A value: changes make another one."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[str, Raw] | None = None) -> None:
        self._raw: dict[str, Raw] = dict(raw or {})

    def __getitem__(self, key: str) -> FunctionRecord:
        record = _decoded(self._raw[key])
        if record is None:
            raise KeyError(key)
        return record

    def __iter__(self) -> Iterator[str]:
        return (key for key, raw in self._raw.items() if _decoded(raw) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def with_records(self, others: Mapping[str, FunctionRecord], counts: CombineCounts) -> Profile:
        """This and what others know."""
        made = Profile(self._raw)
        for key, record in others.items():
            before = self.get(key)
            both = record if before is None else combine(before, record, counts)
            made._raw[key] = _encoded(both)
        return made

    def united(self, other: Profile) -> Profile:
        """Two copies that may know of the same calls. Doing it again changes nothing."""
        news = {key: other.get(key) for key, raw in other._raw.items() if self._raw.get(key) != raw}
        return self.with_records(
            {key: record for key, record in news.items() if record is not None}, united
        )

    def without(self, keys: set[str]) -> Profile:
        return Profile({key: raw for key, raw in self._raw.items() if key not in keys})

    def to_json(self) -> str:
        """As text of bounded length: what was not used for the longest time has to go."""
        kept: dict[str, Raw] = self._raw
        while True:
            text = json.dumps({_VERSION_KEY: VERSION, "functions": kept}, separators=(",", ":"))
            if len(text) <= MOST_BYTES or not kept:
                return text + "\n"
            latest = sorted(kept.items(), key=lambda item: _used(item[1]), reverse=True)
            kept = dict(latest[: len(latest) * 3 // 4])


def from_json(text: str | bytes) -> Profile:
    if len(text) > MOST_BYTES_READ:
        raise Damaged(f"{len(text)} bytes are too many for a profile")
    try:
        # An object nested too deep is a RecursionError.
        raw: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(str(error)) from None
    if not isinstance(raw, dict):
        raise Damaged("it is not an object")
    found = cast("dict[str, object]", raw)
    version, functions = found.get(_VERSION_KEY), found.get("functions")
    if isinstance(version, int) and version > VERSION:
        raise TooNew(f"it has version {version}, and this anyshape knows {VERSION}")
    if version != VERSION or not isinstance(functions, dict):
        raise Damaged(f"there are no functions of version {VERSION} in it")
    return Profile(cast("dict[str, Raw]", functions))


# -- one function ---------------------------------------------------------------------------------


def _used(raw: object) -> int:
    record = _decoded(raw)
    return -1 if record is None else record.used


def _encoded(record: FunctionRecord) -> Raw:
    raw: Raw = {
        "name": record.name,
        "file": record.file,
        "line": record.line,
        "used": record.used,
        "sources": {name: _encoded_source(each) for name, each in record.sources.items()},
    }
    if record.written:
        raw["written"] = sorted(record.written)
    return raw


def _encoded_source(record: SourceRecord) -> Raw:
    seen = record.seen
    raw: Raw = {}
    for name, value in (("int", seen.integer), ("size", seen.sizes), ("stride", seen.strides)):
        if value is not None:
            raw[name] = (
                [_encoded_seen(each) for each in value]
                if isinstance(value, tuple)
                else _encoded_seen(value)
            )
    raw["seen"] = {
        "int" if place == INTEGER else str(place): {str(value): n for value, n in each.items()}
        for place, each in record.counts.items()
    }
    if record.of_module:
        raw["module"] = True
    return raw


def _encoded_seen(value: Seen) -> int | str:
    return value.value if isinstance(value, Many) else value


def _decoded(raw: object) -> FunctionRecord | None:
    try:
        return _decode(cast("Raw", raw))
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def _decode(raw: Raw) -> FunctionRecord:
    return FunctionRecord(
        _text(raw["name"]),
        _text(raw["file"]),
        _number(raw["line"]),
        _number(raw["used"]),
        {_text(name): _decode_source(each) for name, each in raw["sources"].items()},
        frozenset(map(_text, raw.get("written", ()))),
    )


def _decode_source(raw: Raw) -> SourceRecord:
    integer = raw.get("int")
    return SourceRecord(
        Observation(
            None if integer is None else _decode_seen(integer),
            _decode_sizes(raw.get("size")),
            _decode_sizes(raw.get("stride")),
        ),
        {_decode_place(place): _decode_counts(each) for place, each in raw["seen"].items()},
        raw.get("module") is True,
    )


def _decode_seen(raw: object) -> Seen:
    return MANY if raw == MANY.value else _number(raw)


def _decode_sizes(raw: object) -> tuple[Seen, ...] | Many | None:
    if isinstance(raw, list):
        return tuple(map(_decode_seen, cast("list[object]", raw)))
    if raw is None or raw == MANY.value:
        return None if raw is None else MANY
    raise TypeError(raw)


def _decode_place(raw: str) -> int:
    return INTEGER if raw == "int" else int(raw)


def _decode_counts(raw: Mapping[str, object]) -> Histogram:
    return {int(value): _number(count) for value, count in raw.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value < _LARGEST:
        raise TypeError(value)
    return value
