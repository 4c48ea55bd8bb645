"""A process while its events are read: which function, entry and attempt an event belongs to."""

from __future__ import annotations

import re

from anyshape.explain.report.reading.fields import Record, seconds_of, text_of
from anyshape.explain.report.reading.model import (
    Attempt,
    Failed,
    Process,
    TracedEntry,
    TracedFunction,
)


class Building:
    def __init__(self, process: Process) -> None:
        self.process = process
        self._functions: dict[str, TracedFunction] = {}
        self._entries: dict[str, TracedEntry] = {}
        #: why no entry fits, told before the compile that it leads to
        self.recompiles: dict[str, list[Failed]] = {}

    def function(self, compile_id: str) -> TracedFunction:
        number = compile_id.partition("/")[0]
        if number not in self._functions:
            key = f"{self.process.key}-f{_key(number, len(self._functions))}"
            made = TracedFunction(number, key, "", "", 0)
            self._functions[number] = made
            self.process.functions.append(made)
        return self._functions[number]

    def entry(self, compile_id: str) -> TracedEntry:
        if compile_id not in self._entries:
            self._new_entry(compile_id, "")
        return self._entries[compile_id]

    def _new_entry(self, compile_id: str, more: str) -> TracedEntry:
        key = f"{self.process.key}-e{_key(compile_id, len(self._entries))}{more}"
        made = self._entries[compile_id] = TracedEntry(compile_id, key)
        self.function(compile_id).entries.append(made)
        return made

    def begin(self, compile_id: str, when: float) -> Attempt:
        attempt = Attempt(when, recompile=self.recompiles.pop(compile_id, ()))
        self.entry(compile_id).attempts.append(attempt)
        return attempt

    def attempt(self, event: Record) -> Attempt:
        """The compile at hand; one whose beginning is not in the file begins here."""
        compile_id = id_of(event)
        attempts = self.entry(compile_id).attempts
        return attempts[-1] if attempts else self.begin(compile_id, when(event))

    def start_over(self, compile_id: str) -> None:
        """The compile at hand is no growth of an entry that is there: the function was reset, and
        counts from zero."""
        entry = self.entry(compile_id)
        if any(attempt.status == "compiled" for attempt in entry.attempts[:-1]):
            attempt = entry.attempts.pop()
            same = sum(each.id == compile_id for each in self.function(compile_id).entries)
            self._new_entry(compile_id, f"-again{same}").attempts.append(attempt)

    def name(self, compile_id: str, name: str, file: str, line: int) -> None:
        function = self.function(compile_id)
        function.name, function.file = function.name or name, function.file or file
        function.line = function.line or line


def id_of(event: Record) -> str:
    return text_of(event.get("compile_id"), 40)


def when(event: Record) -> float:
    return seconds_of(event.get("time"))


def _key(id: str, otherwise: int) -> str:
    """As it stands in addresses; what is no number of ours gets another."""
    return id.replace("/", "-") if re.fullmatch(r"[0-9]+(/[0-9]+)?", id) else f"x{otherwise}"
