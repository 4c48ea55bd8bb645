"""What a compile tells of its symbols: each time one of them can be less than before."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.guards.guard import Frame, SymbolSource
from anyshape.symbolic import Expr, Fact, Facts, Range, Symbol, to_text


class ToldOfSymbols:
    """Of one compile. Only asked where somebody listens."""

    def __init__(self, compile_id: str, sources: Sequence[SymbolSource]) -> None:
        self._id = compile_id
        self._sources = sources
        self._ranges: dict[Symbol, Range] = {}
        self._replaced: dict[Symbol, str] = {}
        #: symbols that have one value left
        self.specialised: set[str] = set()

    def learned(self, fact: Fact, reason: str, frame: Frame | None, facts: Facts) -> None:
        """The facts have one more."""
        for symbol in sorted(fact.symbols, key=lambda each: each.name):
            if symbol.backed:
                self._learned(symbol, facts.symbols[symbol.name], facts, reason, frame)

    def _learned(
        self, symbol: Symbol, size: Expr, facts: Facts, reason: str, frame: Frame | None
    ) -> None:
        left = facts.range(size)
        if left != self._ranges.setdefault(symbol, symbol.declared):
            self._ranges[symbol] = left
            stream.emit(kinds.RangeUpdated(symbol.name, str(left), compile_id=self._id))
        if left.lower is not None and left.lower == left.upper:
            self.is_specialised(symbol, left.lower, reason, frame)
            return
        by = to_text(facts.simplify(size))
        if by != self._replaced.setdefault(symbol, symbol.name):
            self._replaced[symbol] = by
            stream.emit(kinds.Replaced(symbol.name, by, str(left), compile_id=self._id))

    def is_specialised(self, symbol: Symbol, value: int, reason: str, frame: Frame | None) -> None:
        if symbol.name in self.specialised:
            return
        self.specialised.add(symbol.name)
        texts = [source.text for source in self._sources if source.symbol is symbol]
        stream.emit(
            kinds.Specialised(symbol.name, texts, value, reason, frame, compile_id=self._id)
        )
