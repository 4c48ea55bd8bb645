"""The tests of this folder in processes that can import Triton, which `make` puts into a folder of
its own: where other tests could import it, torch and libraries would do other things."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TRITON = Path(sys.prefix) / "triton"


FILES = sorted({each.name for each in HERE.glob("test_*.py")} - {Path(__file__).name})


@pytest.mark.parametrize("name", FILES)
def test_in_a_process(name: str) -> None:
    if not TRITON.exists():
        pytest.skip("Triton is not in its folder: `make test` brings it")
    paths = [str(TRITON), os.environ.get("PYTHONPATH", "")]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / name)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-5000:]
