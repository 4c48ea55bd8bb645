"""Real traces as functions, entries and attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyshape.events.kinds import (
    Compiled,
    CompileFailed,
    CreateSymbol,
    FrameStart,
    GraphCompiled,
    Place,
    RunCount,
    RunsEagerly,
    SizesSeen,
)
from anyshape.explain.trace_model import read_trace
from tests.report.made import compile_of, written
from tests.report.recordings import function_of, processes_of


def test_a_program_that_tells_sizes_apart():
    (process,) = processes_of("specialised")
    assert process.command == "specialised.py"
    (function,) = process.functions
    assert (function.name, function.line) == ("f", 4)
    assert [entry.id for entry in function.entries] == ["0/0", "0/1", "0/2"]
    assert [entry.hits for entry in function.entries] == [0, 1, 1]
    assert [entry.status for entry in function.entries] == ["compiled"] * 3
    first = function.entries[0]
    (symbol,) = first.first.symbols
    assert (symbol.born.symbol, symbol.born.source) == ("s0", "L['x'].size()[0]")
    assert symbol.ranges == ["[10, 10]"]
    assert symbol.fixed is not None
    assert symbol.fixed.value == 10
    assert symbol.born.user_frame == Place("/program/specialised.py", 6, "f")
    assert process.sources["/program/specialised.py"][6] == "    if x.size()[0] == 10:"
    assert [r.entry_id for r in function.entries[2].first.recompile] == ["0/0", "0/1"]


def test_an_entry_that_grew():
    first, second = function_of("branches_on_data").entries
    assert [len(attempt.all(GraphCompiled)) for attempt in first.attempts] == [2, 1]
    assert [(g.number, g.after, g.outcome) for g in first.graphs] == [
        (0, None, ""),
        (1, 0, "True"),
        (2, 0, "False"),
    ]
    assert first.graphs[0].asks == "the program asks for the truth of a tensor"
    assert len(second.attempts) == 1


def test_calls_that_were_served():
    entry = function_of("automatic").entries[1]
    assert [(s.count, dict(s.given)) for s in entry.served] == [
        (1, {"L['x']": (30, 4)}),
        (1, {"L['x']": (40, 4)}),
    ]


def test_what_failed_and_what_ran_eagerly():
    (process,) = processes_of("an_error_of_the_program")
    statuses = {
        f.name: [a.status for e in f.entries for a in e.attempts] for f in process.functions
    }
    assert statuses == {"fn": ["compiled", "failed"], "generator": ["eager", "eager"]}
    (broken,) = function_of("broken_mark").entries
    assert broken.status == "failed"
    outcome = broken.first.outcome
    assert isinstance(outcome, CompileFailed)
    assert outcome.error == "AS103 DynamicDimWasFixed"


def test_ranks():
    assert sorted(process.rank or 0 for process in processes_of("ranks")) == [0, 1]


def test_a_function_that_was_reset(tmp_path: Path):
    """Its numbers begin again: another compile 0/0 is no growth of the first."""
    events = [*compile_of("f", 0, 0, size=3), *compile_of("f", 0, 0, size=4)]
    (process,), _ = read_trace(written(tmp_path, events))
    (function,) = process.functions
    assert [entry.id for entry in function.entries] == ["0/0", "0/0"]
    assert len({entry.key for entry in function.entries}) == 2


def test_a_compile_that_was_tried_again_is_one_entry(tmp_path: Path):
    at: Any = {"compile_id": "0/0"}
    events = [
        FrameStart("f", "model.py", 1, (), **at),
        SizesSeen("f", {"L['x']": "tensor size=[2] stride=[1]"}, **at),
        RunsEagerly("why", **at),
        *compile_of("f", 0, 0, size=4),
    ]
    (process,), _ = read_trace(written(tmp_path, events))
    (entry,) = process.functions[0].entries
    assert [attempt.status for attempt in entry.attempts] == ["eager", "compiled"]
    assert entry.decided is entry.attempts[1]


def test_a_trace_that_ends_in_the_middle_of_a_compile(tmp_path: Path):
    events = compile_of("f", 0, 0, size=4)[:2]
    (process,), _ = read_trace(written(tmp_path, events))
    assert process.functions[0].entries[0].status == "unfinished"


def test_events_of_a_compile_whose_beginning_is_missing(tmp_path: Path):
    at: Any = {"compile_id": "7/3"}
    events = [
        CreateSymbol("s0", 3, "L['x'].size()[0]", "[0, int_oo]", None, **at),
        Compiled(0.1, 1, 0, **at),
        RunCount("f", 5, **at),
        RunCount("f", 5, compile_id="8/0"),
    ]
    (process,), _ = read_trace(written(tmp_path, events))
    (function,) = process.functions
    assert function.entries[0].hits == 5
    assert function.entries[0].first.symbols[0].born.symbol == "s0"
