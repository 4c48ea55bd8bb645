"""Programs in processes of their own: what they do to a GPU, or to a cache, stays with them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path

_START = """
import os, sys, torch, anyshape, warnings
DEVICE = os.environ.get("ANYSHAPE_TEST_DEVICE", "cuda")
torch.set_grad_enabled(False)
"""


def output(program: str, variables: Mapping[str, str] | None = None) -> str:
    """What it prints. Its names: torch, anyshape, DEVICE."""
    root = Path(__file__).parents[2]
    places = [str(root / "src"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "ANYSHAPE_PROFILE": "0"}
    with tempfile.TemporaryDirectory() as folder:
        # A file: capture reads the sources of functions.
        script = Path(folder, "program.py")
        script.write_text(_START + textwrap.dedent(program), encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, str(script)],
            env={**environment, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert ran.returncode == 0, f"{ran.returncode}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout
