"""Documentation is true: pages run, generated ones are current, links lead somewhere."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import anyshape
from scripts import error_pages, settings_page, torch_names
from tests import forks
from tests.snippets import Page, check_command

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
RUN = [path for path in PAGES if "<!-- snippets: run -->" in path.read_text(encoding="utf-8")]


def name(path: object) -> str:
    return path.name if isinstance(path, Path) else str(path)


def test_there_is_a_guide_that_runs():
    assert {"guide.md", "coming_from_torch_compile.md"} <= {path.name for path in RUN}


@pytest.mark.parametrize("path", RUN, ids=name)
def test_the_program_of_a_page(path: Path, tmp_path: Path):
    # In a process of its own: a page may change torch, and one adds a file to the package.
    bare = path.name == "extending.md"
    ran = forks.run(["-m", "tests.snippets", str(path), str(tmp_path)], ROOT, bare=bare)
    assert ran.returncode == 0, ran.stderr


COMMANDS = [
    pytest.param(path, number, id=f"{path.name}: {command}")
    for path in RUN
    for number, (command, _) in enumerate(Page(path.read_text(encoding="utf-8")).commands)
]


@pytest.mark.parametrize(("path", "number"), COMMANDS)
def test_a_command_of_a_page(path: Path, number: int, tmp_path: Path):
    page = Page(path.read_text(encoding="utf-8"))
    for file, text in page.files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    check_command(*page.commands[number], tmp_path)


def test_pages_of_errors_are_current():
    """`make docs` writes them."""
    there = {path.name: path.read_text(encoding="utf-8") for path in error_pages.FOLDER.iterdir()}
    assert there == error_pages.pages()


def test_the_page_of_settings_is_current():
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page()


def test_the_table_of_names_is_current():
    text = torch_names.PAGE.read_text(encoding="utf-8")
    assert text == torch_names.page(text)


def test_every_mapped_name_is_described():
    assert set(torch_names.HERE) == set(torch_names.names())


def test_every_page_has_a_place_in_the_site():
    """A page that is new is put under tutorial, how-to, reference or explanation in mkdocs.yml."""
    placed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {path.name for path in PAGES} - {"README.md"} <= placed


def test_the_reference_has_every_public_name():
    shown = re.findall(
        r"^::: ([\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE
    )
    found = {each.rpartition(".")[2] for each in shown}
    assert set(anyshape.__all__) - {"__version__", "config"} <= found
    for each in shown:
        module, _, name = each.rpartition(".")
        assert hasattr(import_module(module), name), each


@pytest.mark.parametrize("path", [ROOT / "README.md", *PAGES], ids=name)
def test_links_lead_somewhere(path: Path):
    code = r"^```.*?^```|`[^`\n]*`"
    text = re.sub(code, "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (path.parent / target).resolve().exists(), target


#: what a reader is to write, and what a command makes
_NOT_YET_THERE = re.compile(r"FAMILY|^benchmarks/results/")


@pytest.mark.parametrize(
    "path",
    [*PAGES, *(ROOT / each for each in ("README.md", "CONTRIBUTING.md", "tests/README.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_files_that_are_named_are_there(path: Path):
    named = re.findall(
        r"`((?:benchmarks|docs|examples|scripts|src|tests)/[\w/.]+)`", path.read_text("utf-8")
    )
    for each in named:
        assert _NOT_YET_THERE.search(each) or (ROOT / each).exists(), each
