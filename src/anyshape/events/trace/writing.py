"""What rows write to: the envelopes of one rank, each at its attempt of its compile."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Final

from anyshape.events.kinds import Event
from anyshape.events.trace.envelope import Envelopes, Json, to_json

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
