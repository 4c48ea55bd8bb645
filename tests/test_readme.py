"""The README's programs run, and each of their lines gives what the comment beside it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.snippets import run_snippet, snippets_of

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_programs_say_what_their_comments_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    programs = snippets_of(README)
    assert len(programs) == 2
    checked = 0
    for index, (_, code, _) in enumerate(programs):
        # What follows the value is prose.
        count, _ = run_snippet(code, scope, tmp_path / f"example_{index}.py", ", and|: ")
        checked += count
    assert checked >= 7
