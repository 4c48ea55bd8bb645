"""What was known of sizes before the run, and what the next run will know."""

from __future__ import annotations

from typing import NamedTuple

from anyshape.explain.report.reading.model import TracedFunction


class Change(NamedTuple):
    source: str
    before: str
    after: str


def profile_change(function: TracedFunction) -> list[Change]:
    """By source, what changed first. Nothing where no profile was used."""
    states = [state for entry in function.entries for a in entry.attempts for state in a.profile]
    read = [text for action, _, text in states if action == "get"]
    written = [text for action, _, text in states if action == "put"]
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
