"""From a symbol to the recompile that it led to."""

from __future__ import annotations

from anyshape.events.kinds import CreateSymbol, GuardAdded
from anyshape.explain.report.analysis.stories import guards_on, recompiles_by_entry, recompiles_for
from anyshape.explain.trace_model import Attempt, TracedSymbol
from tests.report.recordings import function_of


def test_the_story_of_a_specialised_size():
    function = function_of("specialised")
    first = function.entries[0]
    (symbol,) = first.first.symbols
    assert [guard.expr for guard in guards_on(symbol, first.first)] == ["Eq(s0, 10)"]
    followed = recompiles_for(symbol, first.first, first, recompiles_by_entry(function))
    assert [each.entry.id for each in followed] == ["0/1", "0/2"]


def test_symbols_are_whole_words():
    attempt = Attempt(0.0)
    for expr in ("s1 < 2", "s10 < 2", "2*s1 + s3"):
        attempt.tell(GuardAdded(expr))
    symbol = TracedSymbol(CreateSymbol("s1", 1, "L['x']", ""))
    assert [guard.expr for guard in guards_on(symbol, attempt)] == ["s1 < 2", "2*s1 + s3"]
