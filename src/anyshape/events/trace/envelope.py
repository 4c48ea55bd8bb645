"""Envelopes: the lines of the structured trace that the `tlparse` program reads.

    V1115 07:11:02.123456 4242 anyshape/trace:1] {"artifact": {...}, "has_payload": "<md5>"}
    \tfirst line of the payload
    \tlast line of the payload

File names are written once, and then go by a number.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Final

from anyshape.events.kinds import Event, Frame
from anyshape.events.log_lines import code_of

Json = object

_COMPILE_ID: Final = re.compile(r"(\d+)/(\d+)")
_PLACE: Final = "anyshape/events/trace/envelope.py:1"


def to_json(value: Json) -> str:
    """In one line. Half a character, which Python's texts may have, is no JSON that others read."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class Envelopes:
    """Writes envelopes for one rank."""

    def __init__(self, write: Callable[[str], None], rank: int | None = None) -> None:
        self._write = write
        self._rank = rank
        #: when what is written happened
        self.when = time.time()
        self._interned: dict[str, int] = {}
        self._frames: dict[tuple[str, int, str], Json] = {}

    def envelope(
        self,
        key: str,
        metadata: Json,
        payload: str | None = None,
        compile_id: str = "",
        attempt: int = 0,
    ) -> None:
        """Write one. `payload` is any text."""
        held: dict[str, Json] = {key: metadata}
        if self._rank is not None:
            held["rank"] = self._rank
        if found := _COMPILE_ID.fullmatch(compile_id):
            held["frame_id"], held["frame_compile_id"] = map(int, found.groups())
            held["attempt"] = attempt
        if payload is None:
            self._write(self._line(held))
            return
        payload = _clean(payload)
        held["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        self._write(self._line(held) + _indented(payload))

    def _line(self, held: Mapping[str, Json]) -> str:
        when = datetime.fromtimestamp(self.when).strftime("%m%d %H:%M:%S.%f")
        return f"V{when} {os.getpid()} {_PLACE}] {to_json(held)}\n"

    def intern(self, text: str) -> int:
        """The number of a file name, which is written first where it is new."""
        found = self._interned.get(text)
        if found is None:
            found = self._interned[text] = len(self._interned)
            self._write(self._line({"str": [text, found]}))
        return found

    def stack(self, frames: Iterable[Frame | None]) -> list[Json]:
        """Places in the program, the outermost first."""
        return [self._frame(frame) for frame in frames if frame is not None]

    def _frame(self, frame: Frame) -> Json:
        key = (frame.filename, frame.line, frame.function)
        found = self._frames.get(key)
        if found is None:
            line = min(max(frame.line, 0), 2**31 - 1)
            found = self._frames[key] = {
                "line": line,
                "name": frame.function,
                "filename": self.intern(frame.filename),
                "loc": code_of(frame),
            }
        return found


def _clean(payload: str) -> str:
    """A lone return would be taken for the end of a line, or lost before one. What is no text at
    all (half a character) has no bytes to count."""
    if "\r" in payload:
        payload = payload.replace("\r\n", "\n").replace("\r", "\n")
    return payload if payload.isascii() else payload.encode("utf-8", "backslashreplace").decode()


def _indented(payload: str) -> str:
    return "\t" + payload.replace("\n", "\n\t") + "\n"


# -- what rows write to ---------------------------------------------------------------------------

#: In place of the number of a compile, where there is none.
EXPORT: Final = "export"


class Writing:
    """The envelopes of one rank, and which attempt at each compile they belong to."""

    def __init__(self, out: Envelopes) -> None:
        self.out = out
        self._attempts: Counter[str] = Counter()
        #: why graphs ended in the compile at hand, for its summary
        self.breaks: dict[str, list[str]] = {}
        self._numbers = count()

    def next_number(self) -> int:
        return next(self._numbers)

    def begin(self, compile_id: str) -> None:
        self._attempts[compile_id] += 1
        self.breaks[compile_id] = []

    def attempt(self, compile_id: str) -> int:
        """An entry that grows, or a call that could not be compiled, is compiled for again under
        the same number."""
        return max(self._attempts[compile_id] - 1, 0)

    def write(self, event: Event, key: str, metadata: Json, payload: str | None = None) -> None:
        attempt = self.attempt(event.compile_id)
        self.out.envelope(key, metadata, payload, event.compile_id, attempt)

    def artifact(self, event: Event, name: str, payload: Json) -> None:
        """A text, or anything else as JSON."""
        is_text = isinstance(payload, str)
        encoding = "string" if is_text else "json"
        text = payload if isinstance(payload, str) else to_json(payload)
        self.write(event, "artifact", {"name": name, "encoding": encoding}, text)
