"""Which sizes the calls had that an entry served, for those who listen.

A watched entry notes the values of what is dynamic, and when; calls of the same sizes in a row are
one note. Where nobody listens when an entry is made, its program is left as it is: a call costs
nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from anyshape.capture.dynamism_policy import DimDecision
from anyshape.events.kinds import CallRun, CallsServed
from anyshape.events.stream import stream
from anyshape.guards.guard import SymbolSource
from anyshape.guards.path import Path
from anyshape.policy.decide import Choice
from anyshape.symbolic import Expr
from anyshape.symbolic.expr import of_atom

#: So many notes are written at once.
_BATCH: Final = 256
#: So many notes an entry may have; calls after that are only counted.
MOST_NOTES: Final = 4096

Program = Callable[..., Any]


class ServedCalls:
    """The notes of one entry."""

    #: Whose note is the latest: notes of others in between end a row of equal calls.
    _latest: ServedCalls | None = None

    def __init__(self, function: str, entry_id: str, picked: Mapping[str, int]) -> None:
        self._function = function
        self._id = entry_id
        self._sources = tuple(picked)
        self._positions = tuple(picked.values())
        #: first time, last time, how many calls, values
        self._notes: list[list[Any]] = []
        self._made = 0
        self._left_out = 0

    def watching(self, run: Program) -> Program:
        """The program, noted down."""
        positions = self._positions

        def watched(*inputs: Any) -> Any:
            # Before the run: a program may resize what it is given.
            values = [_value(inputs[position]) for position in positions]
            result = run(*inputs)
            self._note(values)
            return result

        return watched

    def _note(self, values: list[Any]) -> None:
        now = time.time()
        if ServedCalls._latest is self and self._notes and self._notes[-1][3] == values:
            last = self._notes[-1]
            last[1] = now
            last[2] += 1
        elif self._made >= MOST_NOTES:
            self._left_out += 1
        else:
            ServedCalls._latest = self
            self._made += 1
            self._notes.append([now, now, 1, values])
            if len(self._notes) > _BATCH:
                self.tell()

    def tell(self) -> None:
        """Write what was noted so far."""
        notes, self._notes = self._notes, []
        left_out, self._left_out = self._left_out, 0
        if notes or left_out:
            calls = [CallRun(*note) for note in notes]
            stream.emit(
                CallsServed(self._function, self._sources, calls, left_out, compile_id=self._id)
            )


def _value(given: Any) -> Any:
    """The sizes of a tensor, or a number."""
    shape = getattr(given, "shape", None)
    return given if shape is None else [int(size) for size in shape]


_all: Final[list[ServedCalls]] = []


def emit_all() -> None:
    """At the end of the program: what is not written yet."""
    for each in _all:
        each.tell()


def watched(
    run: Program,
    function: str,
    entry_id: str,
    inputs: Sequence[Path | Expr],
    symbols: Sequence[SymbolSource],
    rulings: Mapping[str, DimDecision],
) -> Program:
    """The program of an entry, noted down if anybody listens."""
    if not stream.listening(CallsServed):
        return run
    made = ServedCalls(function, entry_id, _picked(inputs, symbols, rulings))
    _all.append(made)
    return made.watching(run)


def _picked(
    inputs: Sequence[Path | Expr],
    symbols: Sequence[SymbolSource],
    rulings: Mapping[str, DimDecision],
) -> dict[str, int]:
    """The inputs that tell what is dynamic, by source. All else is what the guards say."""
    changing = {
        source.partition(".size()[")[0]
        for source, ruling in rulings.items()
        if ruling.decision.choice is not Choice.STATIC
    }
    found = {
        each.text: position
        for position, each in enumerate(inputs)
        if isinstance(each, Path) and each.text in changing
    }
    by_symbol: dict[Expr, SymbolSource] = {}
    for source in symbols:
        by_symbol.setdefault(of_atom(source.symbol), source)
    for position, each in enumerate(inputs):
        source = None if isinstance(each, Path) else by_symbol.get(each)
        if source is not None and source.path.text not in found:
            found[source.text] = position
    return found
