"""Take the pictures of docs/report: the report of each program that traces are made of."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from anyshape.cli import main as command_line
from tests.events.trace.programs import HEAD, PROGRAMS
from tests.slow.browser import start_browser

FOLDER = Path(__file__).parents[1] / "docs" / "report"

#: program -> the view, and light or dark
VIEWS = {
    "static_each_time": ("/function/p0-f0/tree", "light"),
    "automatic": ("/similar/0", "light"),
    "specialised": ("/function/p0-f0/tree", "light"),
    "accidental_equality": ("/entry/p0-e0-0/symbols", "dark"),
    "unbacked": ("/function/p0-f0/timeline", "light"),
    "branches_on_data": ("/function/p0-f0/tree", "dark"),
    "module": ("/function/p0-f0/tree", "dark"),
    "broken_mark": ("/entry/p0-e0-0", "light"),
    "an_error_of_the_program": ("/overview", "dark"),
    "hostile_names": ("/function/p0-f0/states", "light"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        browsers = start_browser(Path(folder) / "chromium")
        browser = next(browsers)
        FOLDER.mkdir(exist_ok=True)
        for name, (address, scheme) in VIEWS.items():
            page = report_of(name, Path(folder) / name)
            browser.prefer(scheme)
            browser.open(page, address)
            browser.driver.save_screenshot(str(FOLDER / f"{name}.png"))
        browsers.close()


def report_of(name: str, folder: Path) -> Path:
    folder.mkdir()
    program = folder / f"{name}.py"
    program.write_text(HEAD + PROGRAMS[name], encoding="utf-8")
    variables = {
        "ANYSHAPE_TRACE": str(folder / "trace"),
        "ANYSHAPE_PROFILE": "1",
        "ANYSHAPE_CACHE_DIR": str(folder / "cache"),
    }
    command = [sys.executable, program.name]
    subprocess.run(command, cwd=folder, env={**os.environ, **variables}, check=True, timeout=100)
    assert command_line(["report", str(folder / "trace")]) == 0
    return folder / "trace" / "report.html"


if __name__ == "__main__":
    main()
