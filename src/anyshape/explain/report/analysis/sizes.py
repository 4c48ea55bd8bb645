"""Sizes and integers by source: what calls had, and what each entry makes of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from anyshape.events.kinds import ProfileState
from anyshape.explain.trace_model import TracedEntry, TracedFunction, TracedSymbol


class State(NamedTuple):
    """What a size is in one entry."""

    #: "static", "dynamic", "specialised", "unbacked"; empty where the entry did not meet it
    state: str
    value: int | None
    symbol: str
    range: str
    reason: str


UNMET: Final = State("", None, "", "", "")


def states_of(entry: TracedEntry) -> dict[str, State]:
    """By source."""
    attempt = entry.decided
    values = attempt.values
    symbols = {symbol.born.source: symbol for symbol in attempt.symbols}
    found: dict[str, State] = {}
    for source, (choice, reason) in attempt.decisions.items():
        found[source] = _state(choice, reason, values.get(source), symbols.get(source))
    for source, symbol in symbols.items():
        # A number that the program computes has no source.
        if source and source not in found:
            found[source] = _state("dynamic", symbol.born.reason, symbol.born.value, symbol)
    return found


def _state(choice: str, reason: str, value: int | None, symbol: TracedSymbol | None) -> State:
    if symbol is None:
        return State(choice, value, "", "", reason)
    if symbol.fixed is not None:
        return State("specialised", symbol.fixed.value, symbol.born.symbol, "", symbol.fixed.reason)
    left = symbol.ranges[-1] if symbol.ranges else symbol.born.range
    return State(choice, value, symbol.born.symbol, left, reason)


def changing_sources(function: TracedFunction) -> list[str]:
    """Those that are not static with one value in all entries that were made."""
    entries = [states_of(entry) for entry in function.entries]
    found: dict[str, None] = {}
    for states in entries:
        for source, state in states.items():
            if source in found:
                continue
            others = {(s.state, s.value) for each in entries if (s := each.get(source))}
            if state.state != "static" or len(others) > 1:
                found[source] = None
    return list(found)


def table_of(function: TracedFunction) -> dict[str, list[State]]:
    """A row for each source that is worth one: its state in each entry."""
    entries = [states_of(entry) for entry in function.entries]
    return {
        source: [states.get(source, UNMET) for states in entries]
        for source in changing_sources(function)
    }


# -- what was known of sizes before the run, and what the next run will know -----------------------


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
