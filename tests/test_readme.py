"""The README's program runs, and each of its lines gives what the comment beside it says."""

from __future__ import annotations

from pathlib import Path

from tests.snippets import Page, check_program

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_program_says_what_its_comments_say(tmp_path: Path):
    assert check_program(Page(README).program, tmp_path / "example.py") >= 4
