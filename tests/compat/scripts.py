"""Scripts that are run as users would: in a process of their own, with `anyshape run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Ran(NamedTuple):
    status: int
    out: str
    log: str

    def count(self, text: str) -> int:
        return self.log.count(text)


def run(folder: Path, source: str, *arguments: str, **variables: str) -> Ran:
    """Run the text of a script; variables are added to the environment."""
    (folder / "script.py").write_text(source, encoding="utf-8")
    return command(folder, "run", "script.py", *arguments, **variables)


def command(folder: Path, *arguments: str, **variables: str) -> Ran:
    return _done(folder, ["-m", "anyshape", *arguments], variables)


def python(folder: Path, source: str, **variables: str) -> Ran:
    """Run the text of a script with Python alone."""
    (folder / "script.py").write_text(source, encoding="utf-8")
    return _done(folder, ["script.py"], variables)


def _done(folder: Path, arguments: list[str], variables: dict[str, str]) -> Ran:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
