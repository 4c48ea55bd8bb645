"""Files that grow, are cut, replaced or removed: what is whole is told once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyshape.explain.following import FollowedTrace, state_of, under_way
from tests.events.trace.test_sink import TEXTS, every_event
from tests.report.made import compile_of, written


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    """A trace of two compiles."""
    events = [*compile_of("f", 0, 0, size=3), *compile_of("f", 0, 1, size=4)]
    (file,) = written(tmp_path / "made", events).glob("*.jsonl")
    return file.read_bytes().splitlines(keepends=True)


def kinds(trace: FollowedTrace) -> list[str]:
    return [each.kind for each in trace.look()]


def test_a_folder_that_is_not_there_yet(tmp_path: Path, lines: list[bytes]):
    trace = FollowedTrace(tmp_path / "later")
    assert (trace.look(), trace.processes) == ([], [])
    (tmp_path / "later").mkdir()
    assert trace.look() == []
    (tmp_path / "later" / "anyshape_events_1.jsonl").write_bytes(b"".join(lines))
    assert kinds(trace) == ["compiled", "recompile", "compiled"]
    assert trace.look() == []


def test_every_cut_through_a_file(tmp_path: Path, lines: list[bytes]):
    """Wherever a writer was interrupted, nothing is lost and nothing is told twice."""
    whole = b"".join(lines)
    for cut in range(0, len(whole), 97):
        file = tmp_path / f"{cut}" / "anyshape_events_1.jsonl"
        file.parent.mkdir()
        file.write_bytes(whole[:cut])
        trace = FollowedTrace(file.parent)
        first = kinds(trace)
        with file.open("ab") as opened:
            opened.write(whole[cut:])
        assert first + kinds(trace) == ["compiled", "recompile", "compiled"], cut


def test_a_file_that_is_replaced_cut_or_removed(tmp_path: Path, lines: list[bytes]):
    file = tmp_path / "anyshape_events_1.jsonl"
    file.write_bytes(b"".join(lines))
    trace = FollowedTrace(tmp_path)
    assert len(trace.look()) == 3
    other = tmp_path / "other"
    other.write_bytes(b"".join(lines) + b"\n" * 100)
    os.replace(other, file)
    assert len(trace.look()) == 3
    assert len(trace.processes) == 1
    file.write_bytes(lines[0])
    assert trace.look() == []
    assert trace.processes[0].functions == []
    file.unlink()
    assert trace.look() == []
    assert len(trace.processes) == 1


def test_rubbish_is_passed_over(tmp_path: Path, lines: list[bytes]):
    file = tmp_path / "anyshape_events_1.jsonl"
    file.write_bytes(lines[0] + b"\xff\xfe{]\n[1]\n{}\nnull\n" + b"".join(lines[1:]))
    (tmp_path / "anyshape_events_2.jsonl").write_bytes(b"no trace\n" + b"".join(lines[1:]))
    trace = FollowedTrace(tmp_path)
    assert kinds(trace) == ["compiled", "recompile", "compiled"]
    assert len(trace.processes) == 1


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_event(tmp_path: Path, text: str):
    written(tmp_path, every_event(text))
    trace = FollowedTrace(tmp_path)
    assert {"recompile", "graph break", "runs eagerly", "failed"} <= set(kinds(trace))
    assert state_of(trace.processes[0]) == "ended"


def test_a_compile_that_is_under_way(tmp_path: Path, lines: list[bytes]):
    begun = next(n for n, line in enumerate(lines) if b'"frame_start"' in line)
    (tmp_path / "anyshape_events_1.jsonl").write_bytes(b"".join(lines[: begun + 1]))
    trace = FollowedTrace(tmp_path)
    trace.look()
    assert [function.name for function, _ in under_way(trace.processes[0])] == ["f"]
    assert state_of(trace.processes[0]) == "running"
