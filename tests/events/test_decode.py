"""What was written is read back, whatever anyshape wrote it, and whatever became of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anyshape.events.decode import event_of, record_of
from anyshape.events.kinds import (
    CallRun,
    CallsServed,
    Compiled,
    CreateSymbol,
    Event,
    FrameStart,
    GuardFailure,
    Measures,
    Place,
    Recompile,
    SizesSeen,
    Stage,
)
from anyshape.events.trace.own_events import OwnEvents, Source
from anyshape.events.trace.reading import read_file
from tests.events.trace.test_sink import TEXTS, every_event, written


def lines_of(event: Event) -> list[str]:
    lines: list[str] = []
    OwnEvents(lines.append).write(1.5, event)
    return [line for line in lines if '"event": "source"' not in line]


@pytest.mark.parametrize("name", TEXTS)
def test_every_event_is_what_it_was(tmp_path: Path, name: str):
    events = every_event(TEXTS[name])
    _, own = written(tmp_path, events)
    read = read_file(own)
    assert not read.problems
    told = [each.event for each in read.events if not isinstance(each.event, Source)]
    assert [type(event) for event in told] == [type(event) for event in events]
    assert [lines_of(event) for event in told] == [lines_of(event) for event in events]


def test_lines_of_the_program():
    record = {"event": "source", "file": "a.py", "first_line": 3, "lines": ["x", 5, "y"]}
    assert event_of(record) == Source("a.py", 3, ("x", "", "y"))


AT: Any = {"compile_id": "0/0"}
CASES: dict[str, tuple[Mapping[str, object], Event | None]] = {
    "an unknown kind": ({"event": "of_tomorrow"}, None),
    "a kind that is no text": ({"event": ["compiled"]}, None),
    "the class of all": ({"event": "event"}, None),
    "an unknown field": (
        {"event": "frame_start", "function": "f", "file": "a", "line": 1, "new": [1]},
        FrameStart("f", "a", 1),
    ),
    "no fields": (
        {"event": "compiled", "compile_id": "0/0"},
        Compiled(0.0, 0, 0, (), "", Measures(), **AT),
    ),
    "wrong fields": (
        {"event": "create_symbol", "symbol": 3, "value": True, "source": None, "user_frame": [1]},
        CreateSymbol("", None, "", ""),
    ),
    "a failure of an older anyshape": (
        {"event": "recompile", "reasons": [["0/0", "text"], 5, ["0/1", 7, ["a", 1, "f"], "size"]]},
        Recompile(
            "",
            "",
            0,
            (GuardFailure("0/0", "text"), GuardFailure("0/1", "", Place("a", 1, "f"), "size")),
        ),
    ),
    "places that are none": (
        {
            "event": "frame_start",
            "stack": [["a", 1, "f"], ["a", "1", "f"], None, ["b", 10**30, ""]],
        },
        FrameStart("", "", 0, (Place("a", 1, "f"), Place("b", 0, ""))),
    ),
    "numbers beyond all bounds": (
        {
            "event": "compiled",
            "seconds": float("inf"),
            "graphs": 10**30,
            "measures": {"line": 2.5, "stages": [["capture", float("nan"), 1]]},
        },
        Compiled(0.0, 0, 0, measures=Measures(stages=(Stage("capture", 0.0, 1.0),))),
    ),
    "values of calls": (
        {"event": "calls_served", "sources": ["a"], "calls": [[1, 2.0, 3, [[4, 5], 6, "x", 1.5]]]},
        CallsServed("", ("a",), (CallRun(1.0, 2.0, 3, ((4, 5), 6, None, None)),)),
    ),
    "mappings": (
        {"event": "sizes_seen", "seen": {"a": 3, "b": "x"}, "decisions": {"a": 3}},
        SizesSeen("", {"a": "", "b": "x"}),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_file_may_hold(name: str):
    record, expected = CASES[name]
    assert event_of(record) == expected


@pytest.mark.parametrize("line", ["", "rubbish", "[]", "3", '{"event": ', "[" * 100_000, "{}\x00"])
def test_lines_that_are_no_objects(line: str):
    assert record_of(line) is None
    assert record_of(json.dumps({"event": "x"})) == {"event": "x"}
