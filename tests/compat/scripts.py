"""Scripts that are run as users would: in a process of their own, with `anyshape run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests import forks


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
    return _ran(forks.run(["-m", "anyshape", *arguments], folder, variables))


def python(folder: Path, source: str, *command: str, **variables: str) -> Ran:
    """Run the text of a script with Python alone, or what is put before it, in a process that has
    nothing of this one: it loads torch itself."""
    (folder / "script.py").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *command, "script.py"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return _ran(done)


def _ran(done: subprocess.CompletedProcess[str]) -> Ran:
    return Ran(done.returncode, done.stdout, done.stderr)
