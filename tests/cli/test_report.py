"""`anyshape report DIR`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyshape.cli import main
from tests.report.page.test_html import data_in
from tests.report.recordings import FOLDER


def test_a_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    output = tmp_path / "page.html"
    assert main(["report", str(FOLDER / "automatic"), "-o", str(output)]) == 0
    assert str(output) in capsys.readouterr().out
    assert "anyshape report" in output.read_text(encoding="utf-8")


def test_advice_is_in_it(tmp_path: Path):
    assert main(["report", str(FOLDER / "automatic"), "-o", str(tmp_path)]) == 0
    data: Any = data_in((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert data["advised"]
    assert [each["kind"] for each in data["advice"]] == ["static_first"]


def test_into_a_folder(tmp_path: Path):
    assert main(["report", str(FOLDER / "automatic"), "-o", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("where", ["nowhere", "."])
def test_nothing_to_report_on(tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str):
    assert main(["report", str(tmp_path / where), "-o", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("anyshape: ")
    assert "Traceback" not in said


def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("", encoding="utf-8")
    output = str(tmp_path / "file" / "page.html")
    assert main(["report", str(FOLDER / "automatic"), "-o", output]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_torch_is_not_needed(tmp_path: Path):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from anyshape.cli import main\n"
        f"sys.exit(main(['report', {str(FOLDER / 'automatic')!r}, '-o', {str(tmp_path)!r}]))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert (tmp_path / "report.html").exists()
