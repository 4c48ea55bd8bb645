"""Which tensors of an entry native code compares with those of the call before.

Their sizes do not change from call to call: they are numbers, or symbols that equalities leave one
value. Tensors that are as they were have the sizes that they had: then all that was said of these
sizes is true as well. Nothing else is read from such a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from anyshape.guards.fast_path.tensor_impl_layout import MOST_DIMS, TensorMemory
from anyshape.guards.guard import EntryPlan, Guard, Kind, SymbolSource, paths_of
from anyshape.guards.path import Path
from anyshape.symbolic import Symbol
from anyshape.symbolic.expr import symbols_of
from anyshape.symbolic.logic import Zero

#: With fewer tensors than this it costs no more to look at them one by one.
_LEAST: Final = 12


class Matched(NamedTuple):
    #: on the tensors
    guards: dict[Guard, Path]
    #: of the symbols that are sizes of these and of nothing else
    sources: Sequence[SymbolSource]
    #: on these symbols
    facts: Sequence[Guard]


NOTHING: Final = Matched({}, (), ())


def matched_tensors(
    entry: EntryPlan, guards: Sequence[Guard], memory: TensorMemory | None
) -> Matched:
    """`guards`: those of the entry that have to be written."""
    if memory is None:
        return NOTHING
    read = _above(entry)
    found = {
        guard: guard.path
        for guard in guards
        if guard.kind is Kind.TENSOR
        and guard.path is not None
        and guard.path not in read
        and guard.value.type in memory.types
        and len(guard.value.sizes) <= MOST_DIMS
    }
    if len(found) < _LEAST:
        return NOTHING
    facts = [guard for guard in guards if guard.kind is Kind.SIZES]
    paths = set(found.values())
    own = _pinned(facts) - _needed(entry)
    own -= {source.symbol for source in entry.symbols if source.path not in paths}
    while True:
        # A fact, or a tensor, that has one other symbol needs the values of all.
        mixed = [guard.value.symbols for guard in facts if not guard.value.symbols <= own]
        mixed += [
            {source.symbol for source in entry.symbols if source.path is path}
            for path in {s.path for s in entry.symbols if s.symbol not in own}
        ]
        less = own.difference(*mixed)
        if less == own:
            break
        own = less
    others = {source.path for source in entry.symbols if source.symbol not in own}
    found = {guard: path for guard, path in found.items() if path not in others}
    if len(found) < _LEAST or memory.alike is None:
        return NOTHING
    return Matched(
        found,
        [source for source in entry.symbols if source.symbol in own],
        [guard for guard in facts if guard.value.symbols & own],
    )


def _above(entry: EntryPlan) -> set[Path]:
    """Paths that others lead through."""
    found: set[Path] = set()
    for path in (
        *(path for guard in entry.guards for path in paths_of(guard)),
        *(source.path for source in entry.symbols),
        *(wanted for wanted in entry.inputs if isinstance(wanted, Path)),
    ):
        step = path.parent
        while step is not None and step not in found:
            found.add(step)
            step = step.parent
    return found


def _needed(entry: EntryPlan) -> set[Symbol]:
    wanted = (each for each in entry.inputs if not isinstance(each, Path))
    return {symbol for each in wanted for symbol in symbols_of(each)}


def _pinned(facts: Iterable[Guard]) -> set[Symbol]:
    """Symbols that equalities leave one value, one after the other."""
    waiting: dict[Symbol, list[set[Symbol]]] = {}
    found: set[Symbol] = set()
    ready: list[Symbol] = []
    for guard in facts:
        if isinstance(guard.value, Zero):
            left = set(guard.value.symbols)
            for symbol in left:
                waiting.setdefault(symbol, []).append(left)
            if len(left) == 1:
                ready += left
    while ready:
        symbol = ready.pop()
        if symbol in found:
            continue
        found.add(symbol)
        for left in waiting[symbol]:
            left.discard(symbol)
            if len(left) == 1:
                ready += left
    return found
