"""`make site`: every link of the built pages leads somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.slow.browser import served, start_browser

ROOT = Path(__file__).parents[2]

pytest.importorskip("mkdocs")


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as the Makefile does: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT)))
    built = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


class Parsed(HTMLParser):
    """The names and the links of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        #: what a browser loads with the page
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source"):
            self.loaded += [given["src"]] if "src" in given else []
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])


def pages(site: Path) -> Iterator[Path]:
    # Of that one, links begin at the root of a server.
    return (page for page in site.rglob("*.html") if page.name != "404.html")


def test_there_is_a_page_for_each(site: Path):
    made = {str(page.relative_to(site)) for page in pages(site)}
    written = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} - {"README.html"}
    assert written | {"index.html", "changelog.html", "commands.html"} <= made


def test_links_lead_somewhere(site: Path):
    parsed = {page: Parsed(page) for page in pages(site)}
    dead: list[str] = []
    for page, found in parsed.items():
        for link in [*found.links, *found.loaded]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            is_there = target.is_file() and (
                not parts.fragment
                or target not in parsed
                or unquote(parts.fragment) in parsed[target].names
            )
            dead += [] if is_there else [f"{page.relative_to(site)}: {link}"]
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(site: Path):
    for page in pages(site):
        assert [each for each in Parsed(page).loaded if urlsplit(each).netloc] == []


def test_in_a_browser(site: Path, tmp_path: Path):
    """Nothing is missing, and the search finds a name."""
    browsers = start_browser(tmp_path)
    browser = next(browsers)
    with served(site) as address:
        browser.open(f"{address}/index.html")
        browser.until(lambda: browser.one(".md-search__input").is_displayed())
        browser.one(".md-search__input").click()
        browser.press("mark_dynamic")
        browser.until(lambda: browser.all(".md-search-result__link"))
        assert browser.complaints() == []
    browsers.close()


def test_the_reference_has_docstrings_and_signatures(site: Path):
    text = (site / "reference.html").read_text(encoding="utf-8")
    for name in ("mark_dynamic", "export", "Exported", "Dim"):
        assert f"anyshape.{name}" in text or f".{name}" in text
    assert "Compile a function, method, callable object or module" in text
