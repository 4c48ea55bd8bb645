"""The guide to export: every block runs, and gives what the text says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import anyshape
from tests.export.doc_snippets import snippets_of
from tests.snippets import run_program

GUIDE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:anyshape")
def test_every_block_gives_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    checked = 0
    for index, (kind, code, shown) in enumerate(snippets_of(GUIDE)):
        if kind == "onnx" and importlib.util.find_spec("onnxruntime") is None:
            continue
        file = tmp_path / f"block_{index}.py"
        if kind == "error":
            with pytest.raises(anyshape.AnyshapeError) as caught:
                run_program(code, scope, file)
            assert str(caught.value).startswith(shown)
            continue
        count, printed = run_program(code, scope, file)
        checked += count
        if printed:
            assert printed == shown
    assert checked >= 13
