"""Two runs of two real ranks under torchrun, compared: in the terminal, and on the page at the
sizes of a phone, a laptop and a wide screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshape.cli import main
from tests.report.page.test_html import data_in
from tests.slow.browser import SIZES, Browser, start_browser

PROGRAM = Path(__file__).with_name("compared_program.py")


def launch(trace: Path, edited: bool) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    variables = {"ANYSHAPE_TRACE": str(trace), "EDITED": str(int(edited)), "ANYSHAPE_PROFILE": "0"}
    subprocess.run([*command, str(PROGRAM)], env=os.environ | variables, check=True, timeout=200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    launch(folder / "before", False)
    launch(folder / "after", True)
    return folder


def data(page: Path) -> Any:
    return data_in(page.read_text(encoding="utf-8"))


def test_ranks_side_by_side(runs: Path):
    assert main(["report", str(runs / "before")]) == 0
    held = data(runs / "before" / "report.html")
    (launched,) = held["ranks"]
    functions = {each["name"]: each for each in launched["compared"]["functions"]}
    assert [side[0] for side in launched["compared"]["sides"]] == ["rank 0", "rank 1"]
    assert [tally["compiles"] for tally in functions["step"]["tallies"]] == [2, 3]
    assert "recompiles" in functions["step"]["differing"]
    assert functions["loss"]["differing"] in ([], ["seconds"])
    assert held["runs"] is None


def test_runs_compared(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(runs / "before"), str(runs / "after")]) == 0
    said = capsys.readouterr().out
    assert "before -> after" in said
    assert re.search(r"pad \(compared_program.py:\d+\): compiles 12 -> 2, recompiles 10 -> 0", said)
    held = data(runs / "after" / "compared.html")
    functions = {each["name"]: each for each in held["runs"]["functions"]}
    assert functions["added"]["tallies"][0] is None
    assert functions["stamp"]["tallies"][1]["stopped"] == 0
    (eager,) = [c for c in functions["stamp"]["causes"] if c["kind"] == "runs eagerly"]
    assert eager["counts"][0] >= 2 > eager["counts"][1] == 0
    assert {each["run"] for each in held["processes"]} == {"before", "after"}
    assert {each["run"] for each in held["advice"]} <= {"before", "after"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from start_browser(tmp_path_factory.mktemp("chromium"))


@pytest.mark.parametrize("size", SIZES)
def test_the_page(runs: Path, browser: Browser, size: str):
    page = runs / "page.html"
    assert main(["report", str(runs / "before"), str(runs / "after"), "-o", str(page)]) == 0
    browser.resize(*SIZES[size])
    for address, texts in {
        "/runs": ("pad", "compiles 12 → 2", "new", "cannot trace into `time.time`"),
        "/ranks": ("rank 0", "recompiles 1 / 2", "Compile by compile", "before: ", "after: "),
        "/overview": ("Compare the runs", "before rank 0"),
    }.items():
        browser.open(page, address)
        for text in texts:
            assert text in browser.text(), (address, text)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), address
        # All that is marked or counted is inside of its box, also on a phone.
        assert browser.run(
            "return [...document.querySelectorAll('table.numbers')].every("
            "(each) => each.scrollWidth <= each.parentNode.clientWidth)"
        ), address
    assert browser.complaints() == []
