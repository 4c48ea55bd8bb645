"""Our own code that is known by its file and name: a move or a rename must not make it unknown."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from anyshape.capture.hooks import caller_frames, watched_code
from anyshape.ops import symint_guards

_FRAMES = (caller_frames._CAPTURE, caller_frames._REGION, caller_frames._MODULE)


@pytest.mark.parametrize(("file", "function"), _FRAMES)
def test_frames_are_of_functions_that_are_there(file: str, function: str):
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file", sorted(watched_code._OURS_WATCHED))
def test_watched_files_are_there(file: str):
    assert Path(file).is_file()


def test_files_that_ask_for_others_name_themselves():
    assert symint_guards.__file__.endswith(symint_guards._RELAYS)
