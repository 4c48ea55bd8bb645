"""The story of each symbol: born, guarded, fixed, and the recompiles that followed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anyshape.events.kinds import GuardAdded, GuardFailure
from anyshape.explain.trace_model import Attempt, TracedEntry, TracedFunction, TracedSymbol


class Followed(NamedTuple):
    """A later compile that an entry could not serve."""

    entry: TracedEntry
    attempt: int
    reason: GuardFailure


def guards_on(symbol: TracedSymbol, attempt: Attempt) -> list[GuardAdded]:
    """Those that have the symbol in them."""
    name = symbol.born.symbol
    has_it = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    return [each for each in attempt.all(GuardAdded) if name and has_it.search(each.expr)]


def recompiles_by_entry(function: TracedFunction) -> dict[str, list[Followed]]:
    """Of each entry, by its number, the compiles that it could not serve."""
    found: dict[str, list[Followed]] = {}
    for entry in function.entries:
        for number, attempt in enumerate(entry.attempts):
            for reason in attempt.recompile:
                found.setdefault(reason.entry_id, []).append(Followed(entry, number, reason))
    return found


def recompiles_for(
    symbol: TracedSymbol,
    attempt: Attempt,
    entry: TracedEntry,
    by_entry: Mapping[str, Sequence[Followed]],
) -> list[Followed]:
    """Compiles that happened because a guard on the symbol failed."""
    begins = (
        *(each.text or each.expr for each in guards_on(symbol, attempt)),
        f"{symbol.born.source} ",
    )
    return [
        each
        for each in by_entry.get(entry.id, ())
        if each.entry is not entry and each.reason.text.startswith(begins)
    ]
