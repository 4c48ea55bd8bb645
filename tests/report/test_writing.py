"""From a folder to a page, also where the folder is damaged or hostile."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshape.explain.report import NotATrace, write_report
from tests.events.trace.test_sink import TEXTS, every_event
from tests.report.made import many, written
from tests.report.page.test_html import data_in
from tests.report.recordings import FOLDER, NAMES


def report(folder: Path, output: Path) -> Any:
    return data_in(write_report(folder, output).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_recorded(tmp_path: Path, name: str):
    data = report(FOLDER / name, tmp_path / "new" / "page.html")
    assert data["functions"]
    assert data["problems"] == []
    assert not data["advised"]


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_in_any_place(tmp_path: Path, name: str):
    folder = written(tmp_path / "trace", every_event(TEXTS[name]))
    data = report(folder, tmp_path / "page.html")
    assert any(entry["id"] == "0/0" for entry in data["entries"].values())


def test_cut_anywhere(tmp_path: Path):
    """A page or a sentence, whatever part of the file there is."""
    (whole,) = (FOLDER / "specialised").glob("*.jsonl")
    content = whole.read_bytes()
    cut = tmp_path / whole.name
    pages = 0
    for end in range(0, len(content), 701):
        cut.write_bytes(content[:end])
        try:
            data = report(tmp_path, tmp_path / "page.html")
        except NotATrace:
            continue
        pages += 1
        is_whole_line = content[end - 1 : end] == b"\n"
        assert is_whole_line or "ends in the middle" in data["problems"][0]
    assert pages > 10


def test_bytes_changed_anywhere(tmp_path: Path):
    (whole,) = (FOLDER / "branches_on_data").glob("*.jsonl")
    content = whole.read_bytes()
    chance = random.Random(0)
    for _ in range(25):
        changed = bytearray(content)
        for _ in range(20):
            changed[chance.randrange(300, len(changed))] = chance.randrange(256)
        (tmp_path / whole.name).write_bytes(bytes(changed))
        report(tmp_path, tmp_path / "page.html")


VALUES: list[Any] = [
    None, True, -1, 10**30, 1e308, "text", [], {}, [[]], [None, 1, "x", [2]], {"a": None},
    float("nan"), float("-inf"), "__proto__",
]  # fmt: skip


def changed_events(events: list[Any], chance: random.Random) -> Iterator[Any]:
    """Each event with one of its fields, or of the fields of its fields, replaced."""
    for event in events:
        held = json.loads(json.dumps(event))
        inner = held
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            keys = [key for key in keys if key not in ("event", "format", "version")]
            if not keys:
                break
            key = chance.choice(keys)
            if isinstance(inner[key], dict | list) and chance.random() < 0.6:
                inner = inner[key]
                continue
            inner[key] = chance.choice(VALUES)
            break
        yield held


@pytest.mark.parametrize("name", ["module", "ranks", "branches_on_data"])
def test_fields_of_the_wrong_type(tmp_path: Path, name: str):
    chance = random.Random(name)
    for round in range(12):
        for file in (FOLDER / name).glob("*.jsonl"):
            events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            lines = [json.dumps(each) for each in changed_events(events, chance)]
            (tmp_path / file.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        report(tmp_path, tmp_path / f"{round}.html")


def test_two_runs_in_one_folder(tmp_path: Path):
    for number in range(2):
        (file,) = (FOLDER / "automatic").glob("*.jsonl")
        shutil.copy(file, tmp_path / f"anyshape_events_{number}.jsonl")
    data = report(tmp_path, tmp_path / "page.html")
    assert len(data["processes"]) == len(data["ranks"]) == 2
    assert len(data["functions"]) == 2
    assert all(launch["functions"] == [] for launch in data["ranks"])


def test_a_file_of_another_version_is_named(tmp_path: Path):
    shutil.copytree(FOLDER / "automatic", tmp_path / "trace")
    other = tmp_path / "trace" / "anyshape_events_new.jsonl"
    other.write_text('{"format": "anyshape-events", "version": 2}\n', encoding="utf-8")
    data = report(tmp_path / "trace", tmp_path / "page.html")
    assert "anyshape_events_new.jsonl is of version 2" in data["problems"][0]


def test_advice_is_shown_as_it_is_given(tmp_path: Path):
    advice = [{"title": "<b>", "saves": 3, "settings": {"a": 1}}]
    page = write_report(FOLDER / "automatic", tmp_path / "page.html", advice, ["a note"])
    data: Any = data_in(page.read_text(encoding="utf-8"))
    assert (data["advice"], data["advised"], data["problems"]) == (advice, True, ["a note"])


def test_the_page_of_many_compiles_stays_small(tmp_path: Path):
    """Of each compile only what is near it: not all entries that came before."""
    page = write_report(many(tmp_path / "trace", 1, 150), tmp_path / "page.html")
    assert page.stat().st_size < 1_200_000
