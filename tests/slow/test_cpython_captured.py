"""CPython's tests of its data model give the same outcomes when they are captured.

`run_cpython_captured.py` runs them twice: as they are, and each as a compiled function, called two
times. Most end their capture early, since they define classes; what comes before has to be right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULES = """\
augassign binop bool class compare contains index operator richcmp slice sort unary
"""


def run(mode: str) -> dict[str, Any]:
    names = [f"test.test_{name}" for name in MODULES.split()]
    finished = subprocess.run(
        [sys.executable, ROOT / "tests/slow/run_cpython_captured.py", mode, *names],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named 'test" in finished.stderr:
        pytest.skip("this Python has no tests of its own")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_outcomes_are_those_of_plain_python() -> None:
    native, captured = run("native"), run("captured")
    differences = {
        name: (outcome, captured["outcomes"].get(name))
        for name, outcome in native["outcomes"].items()
        if captured["outcomes"].get(name) != outcome
    }
    assert not differences
    assert len(native["outcomes"]) > 250
    assert captured["whole"] > 30
