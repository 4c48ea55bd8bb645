"""Traces that are cut off, damaged, of another version, or written by somebody who means harm."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from anyshape.explain.advice import advise, summary_of_trace

HEADER = {"format": "anyshape-events", "version": 1, "rank": None, "folder": "/home/me"}


def started(compile_id: str, line: int = 3) -> dict[str, Any]:
    return {
        "event": "frame_start",
        "compile_id": compile_id,
        "function": "f",
        "file": "/home/me/f.py",
        "line": line,
        "stack": [["<frozen runpy>", 1, "run"], ["/home/me/f.py", 8, "<module>"]],
    }


def seen(compile_id: str, size: int, choice: str) -> dict[str, Any]:
    return {
        "event": "sizes_seen",
        "compile_id": compile_id,
        "function": "f",
        "seen": {"L['x']": f"tensor size=[{size}] stride=[1]"},
        "decisions": {"L['x'].size()[0]": [choice, "nothing says that it changes"]},
    }


def compiled(compile_id: str) -> dict[str, Any]:
    guard = ["TENSOR_MATCH", "tensor 'x': dtype=torch.float32, size=[4]", "L['x']", "read", None]
    return {"event": "compiled", "compile_id": compile_id, "guard_lines": [guard]}


def graph(compile_id: str) -> dict[str, Any]:
    inputs = {"L_x": "f32[4]"}
    held = {"event": "graph_compiled", "compile_id": compile_id, "operators": ["add"]}
    return {**held, "inputs": inputs}


RECOMPILE = {
    "event": "recompile",
    "compile_id": "0/1",
    "reasons": [
        [
            "0/0",
            "tensor 'x' size mismatch at index 0. expected 4, actual 7",
            ["/home/me/f.py", 5, "f"],
        ]
    ],
}
SOURCE = {
    "event": "source",
    "file": "/home/me/f.py",
    "first_line": 3,
    "lines": ["@torch.compile", "def f(x):", "    return x + 1", "", "for x in xs:", "    f(x)"],
}
EVENTS: list[dict[str, Any]] = [
    SOURCE,
    *(started("0/0"), seen("0/0", 4, "static"), graph("0/0"), compiled("0/0")),
    RECOMPILE,
    *(started("0/1"), seen("0/1", 7, "dynamic"), graph("0/1"), compiled("0/1")),
]


def write(folder: Path, events: list[Any], header: object = HEADER, name: str = "a") -> Path:
    lines = [json.dumps(each) for each in (header, *events)]
    (folder / f"anyshape_events_{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_a_trace(tmp_path: Path):
    (advice,) = advise(write(tmp_path, EVENTS))
    assert (advice.kind, advice.place, advice.saves) == ("static_first", "/home/me/f.py:5", 1)
    assert advice.patch == (
        "--- a/f.py\n+++ b/f.py\n@@ -5,4 +5,5 @@\n     return x + 1\n \n for x in xs:\n"
        "+    torch._dynamo.mark_dynamic(x, 0)\n     f(x)\n"
    )
    assert advice.environment == {"ANYSHAPE_DYNAMIC_SOURCES": "L['x']:0"}
    json.dumps(advice.to_json())


def test_one_file(tmp_path: Path):
    write(tmp_path, EVENTS)
    assert len(advise(tmp_path / "anyshape_events_a.jsonl")) == 1


def test_nothing_there(tmp_path: Path):
    assert advise(tmp_path) == []
    assert advise(tmp_path / "nothing") == []
    (tmp_path / "anyshape_events_empty.jsonl").write_bytes(b"")
    (tmp_path / "anyshape_events_other.jsonl").write_bytes(b"\xff\xfe\x00{")
    assert advise(tmp_path) == []


def test_cut_off(tmp_path: Path):
    file = write(tmp_path, EVENTS) / "anyshape_events_a.jsonl"
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        advise(tmp_path)


@pytest.mark.parametrize(
    "header", [{**HEADER, "version": 2}, {**HEADER, "format": "else"}, [], "x", {}]
)
def test_another_format(tmp_path: Path, header: object):
    assert advise(write(tmp_path, EVENTS, header)) == []


def test_two_ranks_are_told_together(tmp_path: Path):
    write(tmp_path, EVENTS, {**HEADER, "rank": 1}, "rank_1_b")
    write(tmp_path, EVENTS, {**HEADER, "rank": 0}, "rank_0_a")
    (advice,) = advise(tmp_path)
    assert (advice.ranks, advice.saves) == ((0, 1), 2)
    assert summary_of_trace(tmp_path).compiles == 4


def test_earlier_runs_in_the_folder_are_left_out(tmp_path: Path):
    write(tmp_path, EVENTS)
    assert summary_of_trace(tmp_path, {"anyshape_events_a.jsonl"}).compiles == 0


def test_a_reset_begins_a_function_anew(tmp_path: Path):
    summary = summary_of_trace(write(tmp_path, EVENTS + EVENTS))
    assert summary.compiles == 4
    assert [advice.saves for advice in summary.advice] == [2]


def test_growing_is_a_compile_too(tmp_path: Path):
    grown = [started("0/1"), graph("0/1"), compiled("0/1")]
    assert summary_of_trace(write(tmp_path, EVENTS + grown)).compiles == 3


HOSTILE: list[Any] = [
    *(None, 0, -1, 2**80, "", "x" * 5000, [], {}, [[]], {"a": {"b": []}}, True, 1.5, "\x00"),
    *("<script>alert(1)</script>", "{names}", "%s", "tensor '' size mismatch", "L['", "\ud800"),
]


def test_whatever_it_holds(tmp_path: Path):
    chance = random.Random(0)
    for _ in range(300):
        events: list[Any] = json.loads(json.dumps(EVENTS))
        for _ in range(3):
            event = chance.choice(events)
            key = chance.choice(list(event))
            event[key] = chance.choice(HOSTILE)
            if isinstance(event.get("event"), str) is False:
                event.pop("event", None)
        chance.shuffle(events) if chance.random() < 0.3 else None
        advise(write(tmp_path, events))


def test_names_of_the_program_are_no_templates(tmp_path: Path):
    text = json.dumps(EVENTS).replace("L['x']", "L['{names}']").replace('"f"', '"{0.__class__}"')
    for advice in advise(write(tmp_path, json.loads(text))):
        assert "{0.__class__}" in advice.title
