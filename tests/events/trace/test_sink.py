"""The files of a trace, event by event: whatever texts are in them, `tlparse` reads them."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anyshape.events import kinds as module
from anyshape.events.kinds import (
    CallCounts,
    CallRun,
    CallsServed,
    Compiled,
    CompileFailed,
    CompilerCollective,
    CreateSymbol,
    Decided,
    Defect,
    Event,
    FrameStart,
    GraphBreak,
    GraphCompiled,
    GraphRecorded,
    GuardAdded,
    GuardFailure,
    GuardSaid,
    KernelMeasured,
    MarkedDynamic,
    MarkIgnored,
    Measures,
    NotVerified,
    OutputCode,
    ProfileState,
    ProgramEnded,
    ProgramExported,
    RangeUpdated,
    Recompile,
    RecompileLimit,
    Replaced,
    RunCount,
    RunsEagerly,
    Schedule,
    SizesSeen,
    Specialised,
    Stage,
    SymbolShared,
    TrainingGraphs,
    VerificationFailed,
)
from anyshape.events.stream import Stream
from anyshape.events.trace import TraceSink, start_trace
from anyshape.events.trace.background import LONGEST_SECONDS, Background
from anyshape.events.trace.own_events import FORMAT, VERSION, event_name
from tests.events.trace.test_tlparse import read_by_tlparse


class Place(NamedTuple):
    filename: str
    line: int
    function: str


HERE = Place(__file__, 3, "f")
MEASURES = Measures("f", __file__, 1, [Stage("capture", 1e9, 0.01)], 1, 2, 3, 4)


def every_event(text: str) -> list[Event]:
    """One compile with everything that can happen in it; `text` stands for all names and texts."""
    here = Place(text, -5, text)
    at: Any = {"compile_id": "0/0"}
    events: list[Event] = [
        Recompile(text, text, 1, [GuardFailure("0/0", text, here)], compile_id="0/1"),
        FrameStart(text, text, 1, [HERE, here], **at),
        ProfileState("get", False, text, **at),
        ProfileState("get", True, text, **at),
        MarkedDynamic(text, text, **at),
        MarkIgnored(text, text),
        CreateSymbol("s0", 5, text, text, here, text, **at),
        CreateSymbol(text, None, text, text, here, text, **at),
        GuardAdded(text, here, text, text, **at),
        GuardAdded(text, None, at_run_time=True, **at),
        RangeUpdated(text, text, **at),
        Replaced(text, text, text, **at),
        SymbolShared(text, text, here, **at),
        ProgramExported(text, text, [text], [text], **at),
        Specialised(text, [text, text], 5, text, here, **at),
        SizesSeen(text, {text: text}, {text: Decided(text, text)}, **at),
        ProfileState("put", False, text, **at),
        ProfileState("put", True, text, **at),
        CompilerCollective(text, 1, [0, 1], [2], 0.5, {text: text}, **at),
        Schedule(text, **at),
        KernelMeasured(text, text, text, 2, 1.5, 0.5, **at),
        GraphRecorded(text, text, 0.5, 7, 8, text, **at),
        GraphRecorded(text, **at),
        TrainingGraphs(text, text, text, **at),
        OutputCode(text, text, **at),
        OutputCode(text, **at),
        GraphBreak(text, here, [text], **at),
        GraphCompiled(text, {text: [1, text]}, text, [text], {text: text}, [text], **at),
        GraphCompiled(text, number=1, after=0, outcome=text, asks=text, user_frame=here, **at),
        Compiled(
            0.1, 1, 1, [GuardSaid("SHAPE_GUARD", text, text, text, here)], text, MEASURES, **at
        ),
        RunsEagerly(text, here, [text], text, MEASURES, compile_id="1/0"),
        CompileFailed(text, text, here, MEASURES, compile_id="2/0"),
        CompileFailed(text, text, None, compile_id="2/0"),
        RecompileLimit(text, text, 1, 64, text, compile_id="0/64"),
        NotVerified(text, text, **at),
        VerificationFailed(text, [text], text, **at),
        Defect(text, text),
        Defect(text, text, compile_id=text),
        RunCount(text, 3, **at),
        CallCounts(text, text, 1, 5, 6, compile_id="0"),
        ProgramEnded(),
        CallsServed(text, [text], [CallRun(1.0, 2.0, 3, [[4, 5]])], 1, **at),
    ]
    return events


def test_every_kind_is_here():
    found = {k for k in vars(module).values() if isinstance(k, type) and issubclass(k, Event)}
    assert {type(event) for event in every_event("")} == found - {Event}


def written(folder: Path, events: list[Event], rank: int | None = None) -> tuple[Path, Path]:
    sink = TraceSink(folder, lambda: rank, {"torch": "2.13"})
    for event in events:
        sink(event)
    sink.close()
    assert not sink.failures
    (trace,) = folder.glob("*.log")
    (own,) = folder.glob("*.jsonl")
    return trace, own


TEXTS = {
    "plain": "name",
    "empty": "",
    "lines": "one\n\ntwo\r\n\r\nthree\rfour\n",
    "tabs": "\tone\n\t\ttwo\t",
    "markup": "</script><script>alert(1)</script><!-- &amp; \" ' `",
    "like a line of the trace": 'V1115 07:11:02.123456 42 a/b.py:1] {"artifact": {}}\nV1115',
    "other alphabets": "größe 形状 \U0001f600",
    "odd characters": "\x00\x1b[31m\x7f\u2028\u2029\x85\x0b\x0c",
    "half a character": "\ud800 and \udfff",
    "long": "x" * 100_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_read_back(tmp_path: Path, name: str):
    text = TEXTS[name]
    events = every_event(text)
    trace, own = written(tmp_path / "trace", events)
    read_by_tlparse(trace, tmp_path / "pages")
    for page in (tmp_path / "pages").rglob("*.html"):
        assert "<script>alert(1)" not in page.read_text(encoding="utf-8"), page
    head, *lines = map(json.loads, own.read_text(encoding="utf-8").split("\n")[:-1])
    assert (head["format"], head["version"]) == (FORMAT, VERSION)
    told = [line for line in lines if line["event"] != "source"]
    assert [line["event"] for line in told] == [event_name(type(event)) for event in events]
    for line, event in zip(told, events, strict=True):
        assert set(line) == {"event", "time", *(field.name for field in fields(event))}
    assert told[6]["source"] == text


def test_places_come_with_the_lines_around_them(tmp_path: Path):
    _, own = written(tmp_path, [GuardAdded("s0 < 2", HERE), GuardAdded("s0 < 1", HERE)])
    lines = [json.loads(line) for line in own.read_text(encoding="utf-8").splitlines()]
    (source,) = [line for line in lines if line.get("event") == "source"]
    assert source["file"] == __file__
    assert source["first_line"] == 1
    assert source["lines"][2] == "from __future__ import annotations"
    assert lines.index(source) == 1
    assert lines[2]["user_frame"] == [__file__, 3, "f"]


def test_two_runs_in_one_folder(tmp_path: Path):
    for _ in range(2):
        start_and_stop(tmp_path)
    assert len(list(tmp_path.glob("*.log"))) == len(list(tmp_path.glob("*.jsonl"))) == 2


def start_and_stop(folder: Path) -> None:
    stream = Stream()
    stop = start_trace(folder, events=stream)
    stream.emit(Defect("ops", "text"))
    stop()


def test_a_rank_that_is_known_late_has_another_file(tmp_path: Path):
    rank: list[int | None] = [None]
    sink = TraceSink(tmp_path, lambda: rank[0])
    sink(Defect("ops", "before"))
    sink.close()
    rank[0] = 1
    sink(Defect("ops", "after"))
    sink.close()
    (late,) = tmp_path.glob("dedicated_log_torch_trace_rank_1_*.log")
    assert "after" in late.read_text(encoding="utf-8")
    assert len(list(tmp_path.glob("*.log"))) == 2
    for number, trace in enumerate(tmp_path.glob("*.log")):
        read_by_tlparse(trace, tmp_path / f"pages{number}")


def _emit_in_child(sink: TraceSink) -> None:
    sink(Defect("ops", "in the child"))
    os._exit(0)


def test_a_forked_process_writes_files_of_its_own(tmp_path: Path):
    sink = TraceSink(tmp_path)
    os.register_at_fork(after_in_child=sink.after_fork)
    sink(Defect("ops", "in the parent"))
    child = multiprocessing.get_context("fork").Process(target=_emit_in_child, args=(sink,))
    child.start()
    child.join()
    sink.close()
    texts = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*.jsonl")]
    assert sorted("in the child" in text for text in texts) == [False, True]
    assert sum("in the parent" in text for text in texts) == 1


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    sink = TraceSink(tmp_path / "file" / "below")

    def write() -> None:
        for _ in range(3):
            sink(Defect("ops", "text"))
        sink.close()

    # From the first event on: the thread that writes may be at it before `close`.
    with pytest.warns(RuntimeWarning, match="the trace in .*below lacks .*: Not a dir") as warned:
        write()
    assert len(warned) == 1


def test_what_waits_is_written_in_the_background():
    background, done = Background(), threading.Event()
    order: list[Any] = []
    for number in range(100):
        background.put(lambda number=number: order.append(number))
    background.put(done.set)
    assert done.wait(20 * LONGEST_SECONDS)
    assert order == list(range(100))
    # And again, after it was idle.
    done.clear()
    background.put(done.set)
    assert done.wait(20 * LONGEST_SECONDS)


def test_events_that_are_made_later(tmp_path: Path):
    stream = Stream()
    stop = start_trace(tmp_path, events=stream)
    made: list[str] = []

    def make() -> Event:
        made.append(threading.current_thread().name)
        return Defect("ops", "made later")

    seen: list[Event] = []
    stream.emit_made(Defect, make)
    unsubscribe = stream.subscribe(seen.append, [Defect])
    stream.emit_made(Defect, make)
    stop()
    unsubscribe()
    # Whoever wants it now gets it now; for all others it is made once.
    assert [type(event) for event in seen] == [Defect]
    assert len(made) == 2
    (own,) = tmp_path.glob("*.jsonl")
    assert own.read_text(encoding="utf-8").count("made later") == 2
