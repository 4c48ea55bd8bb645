"""Take the pictures of docs/screenshots: front page, guide and a report on a phone, a laptop and a
wide screen. They are there to be looked at when pages or styles change."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from anyshape.cli import main as command_line
from scripts.report_screenshots import report_of
from tests.slow.browser import SIZES, Browser, served, start_browser
from tests.slow.test_report_compared import launch

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "screenshots"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = build_site(folder / "site")
        report = report_of("specialised", folder / "report")
        compared = compared_report(folder)
        browsers = start_browser(folder / "chromium")
        browser = next(browsers)
        with served(site) as server:
            pages = {
                "front": (f"{server}/index.html", ""),
                "guide": (f"{server}/guide.html", ""),
                "report": (report, "/function/p0-f0/tree"),
                "overview": (report, "/overview"),
                "ranks": (compared, "/ranks"),
                "runs": (compared, "/runs"),
            }
            for size, (width, height) in SIZES.items():
                browser.resize(width, height)
                for page, (place, address) in pages.items():
                    browser.prefer("light")
                    browser.open(place, address)
                    save(browser, FOLDER / f"{page}_{size}.png")
        browsers.close()


def compared_report(folder: Path) -> Path:
    """Two runs of two ranks."""
    runs = [folder / "before", folder / "after"]
    for edited, run in enumerate(runs):
        launch(run, bool(edited))
    assert command_line(["report", *map(str, runs)]) == 0
    return runs[-1] / "compared.html"


def build_site(folder: Path) -> Path:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT)))
    variables = {"PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([*command, str(folder)], cwd=ROOT, env=os.environ | variables, check=True)
    return folder


def save(browser: Browser, file: Path) -> None:
    picture = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    main()
