"""Whatever is in the folder, there is a list of events or a sentence that says why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anyshape.events.trace.own_events import FORMAT, VERSION
from anyshape.events.trace.reading import NotATrace, problems_in_short, read_folder

HEADER = json.dumps({"format": FORMAT, "version": VERSION, "time": 5.0})
EVENT = json.dumps({"event": "defect", "time": 1.0})


def file_in(folder: Path, text: str | bytes, name: str = "0a") -> Path:
    path = folder / f"anyshape_events_{name}.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return folder


def test_events_in_order(tmp_path: Path):
    (lines,), problems = read_folder(file_in(tmp_path, f"{HEADER}\n{EVENT}\n{EVENT}\n"))
    assert len(lines.events) == 2
    assert not lines.problems
    assert not problems


REFUSED = {
    "": "is empty",
    "\n": "is empty",
    "{}\n": "does not begin as a trace does",
    "rubbish\n": "does not begin as a trace does",
    "[1]\n": "does not begin as a trace does",
    '{"format": "anyshape-events", "version": 99}\n': "is of version 99",
    '{"format": "anyshape-events", "version": "x"}\n': "an unknown version",
    '{"format": "anyshape-events"}\n': "an unknown version",
}


@pytest.mark.parametrize("text", REFUSED)
def test_files_that_are_no_trace(tmp_path: Path, text: str):
    with pytest.raises(NotATrace, match="nothing in") as raised:
        read_folder(file_in(tmp_path, text))
    assert REFUSED[text] in str(raised.value)


def test_one_bad_file_does_not_spoil_the_others(tmp_path: Path):
    file_in(tmp_path, f"{HEADER}\n{EVENT}\n", "good")
    file_in(tmp_path, bytes(range(256)) * 10, "bad")
    (lines,), problems = read_folder(tmp_path)
    assert lines.name == "anyshape_events_good.jsonl"
    assert len(problems) == 1
    assert "anyshape_events_bad.jsonl" in problems[0]


def test_a_line_that_was_cut(tmp_path: Path):
    (lines,), _ = read_folder(file_in(tmp_path, f"{HEADER}\n{EVENT}\n{EVENT[:-3]}"))
    assert len(lines.events) == 1
    assert "ends in the middle of line 3" in lines.problems[0]


def test_lines_that_are_no_events(tmp_path: Path):
    deep = "[" * 100_000
    text = f'{HEADER}\n{EVENT}\nrubbish\n[]\n{{"event": 3}}\n{deep}\n{EVENT}\n'
    (lines,), _ = read_folder(file_in(tmp_path, text))
    assert len(lines.events) == 2
    assert [p.split(" of ")[0] for p in lines.problems] == [f"line {n}" for n in (3, 4, 5, 6)]


def test_a_folder_without_traces(tmp_path: Path):
    with pytest.raises(NotATrace, match="run the program with ANYSHAPE_TRACE="):
        read_folder(tmp_path)
    (tmp_path / "dedicated_log_torch_trace_0a.log").write_text("V1115", encoding="utf-8")
    with pytest.raises(NotATrace, match="tlparse only"):
        read_folder(tmp_path)


def test_no_folder(tmp_path: Path):
    with pytest.raises(NotATrace, match="there is no folder"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(NotATrace, match="is a file: give the folder"):
        read_folder(tmp_path / "file")


def test_a_folder_in_the_place_of_a_file(tmp_path: Path):
    (tmp_path / "anyshape_events_0a.jsonl").mkdir()
    with pytest.raises(NotATrace, match="cannot be read"):
        read_folder(tmp_path)


def test_many_problems_are_told_in_short():
    told = list(problems_in_short([str(n) for n in range(100)], 3))
    assert told == ["0", "1", "2", "and 97 more like these"]
