"""What was known of sizes before the run, and what the next run will know."""

from __future__ import annotations

from typing import NamedTuple

from anyshape.events.kinds import ProfileState
from anyshape.explain.trace_model import TracedFunction


class Change(NamedTuple):
    source: str
    before: str
    after: str


def profile_change(function: TracedFunction) -> list[Change]:
    """By source, what changed first. Nothing where no profile was used."""
    attempts = [attempt for entry in function.entries for attempt in entry.attempts]
    states = [state for attempt in attempts for state in attempt.all(ProfileState)]
    read = [state.text for state in states if state.action == "get"]
    written = [state.text for state in states if state.action == "put"]
    if not states:
        return []
    before = _by_source(read[0]) if read else {}
    after = _by_source(written[-1]) if written else before
    changes = [Change(s, before.get(s, ""), after.get(s, "")) for s in {**before, **after}]
    return sorted(changes, key=lambda change: change.before == change.after)


def _by_source(text: str) -> dict[str, str]:
    """The first line names the function."""
    found: dict[str, str] = {}
    for line in text.split("\n")[1:]:
        source, colon, what = line.rpartition(": ")
        if colon:
            found[source] = what
    return found
