"""A hook of mkdocs: pages of the site that are made of files outside of docs/, or of several.

The README is the front page. A link that leaves docs/ leads to the page that is made of its file;
if there is none, it is text: a site has no sources.
"""

from __future__ import annotations

import argparse
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from anyshape.cli import command_line

ROOT = Path(__file__).parents[1]

#: file of the repository -> page
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if page == "index.md":
            text = f"---\nhide: [navigation, toc]\n---\n{text}"
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "commands.md", content=_commands()))
    files.append(File.generated(config, "decisions/README.md", content=_decisions()))
    return files


def _decisions() -> str:
    """The list of the records."""
    lines = [
        "# Decisions",
        "",
        "Choices that are hard to undo: the problem, what was weighed, the cost.",
        "",
    ]
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)


def _commands() -> str:
    """What each command says with `--help`."""
    lines = ["# Commands", "", "`anyshape COMMAND`, or `python -m anyshape COMMAND`.", ""]
    for parser in _parsers(command_line()):
        name = parser.prog.removeprefix("anyshape").strip()
        lines += [f"## {name}", ""] if name else []
        lines += ["```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command, and its own commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _parsers(each)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = {made: source for source, made in PAGES.items()}.get(page.file.src_uri)
    folder = (
        "" if source is not None else posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    )

    def led(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups(default="")
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        place = posixpath.normpath(posixpath.join(folder, target))
        if place in PAGES:
            uri = PAGES[place]
        elif place == "docs/README.md" or place == "docs":
            uri = "index.md"
        elif place.startswith("docs/"):
            uri = place.removeprefix("docs/")
            uri = f"{uri}/README.md" if (ROOT / place).is_dir() else uri
        else:
            return text
        start = posixpath.dirname(page.file.src_uri)
        return f"{mark}[{text}]({posixpath.relpath(uri, start or '.')}{anchor})"

    return _LINK.sub(led, markdown)
