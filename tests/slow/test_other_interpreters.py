"""The tests under other versions of Python than the one that runs these: 3.12, 3.13 and 3.14.

An interpreter that has torch and pytest runs the tests of guards and of capture; name such ones, of
environments of your own, in `ANYSHAPE_PYTHONS` (with ":" between them). One without torch, as pyenv
and systems have them, runs what needs none: guards on plain objects, algebra and policy. Tools of
the tests that are plain Python are lent to it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
VERSIONS = ("3.12", "3.13", "3.14")

WITH_TORCH = (
    "tests/guards",
    "tests/capture/test_rewrite.py",
    "tests/capture/test_source.py",
    "tests/test_served_calls.py",
)
WITHOUT_TORCH = (
    "tests/guards/test_plain_state.py",
    "tests/guards/test_watcher.py",
    "tests/policy",
    "tests/symbolic/test_expr.py",
    "tests/symbolic/test_facts.py",
    "tests/test_requirements.py::test_an_older_python",
)
#: Without compiled parts, so that they work under any version.
LENT = """\
pytest _pytest py pluggy iniconfig packaging pygments hypothesis _hypothesis_ftz_detector
_hypothesis_globals sortedcontainers attr attrs expecttest
"""
#: Fewer would mean that the tests were not found.
FEWEST = {True: 900, False: 150}


class Interpreter(NamedTuple):
    path: Path
    has_torch: bool


def candidates(version: str) -> Iterator[Path]:
    yield from map(Path, filter(None, os.environ.get("ANYSHAPE_PYTHONS", "").split(os.pathsep)))
    yield from sorted(PYENV.glob(f"{version}.*/bin/python"), reverse=True)
    found = shutil.which(f"python{version}")
    if found is not None:
        yield Path(found)


def interpreter_of(version: str) -> Interpreter | None:
    """The first with torch, else the first."""
    found: Interpreter | None = None
    for path in candidates(version):
        if answer(path, "import sys; print(*sys.version_info[:2], sep='.')") != version:
            continue
        has_torch = answer(path, "import torch, pytest, hypothesis; print('yes')") == "yes"
        if has_torch or found is None:
            found = Interpreter(path, has_torch)
        if has_torch:
            break
    return found


def answer(path: Path, script: str) -> str | None:
    try:
        done = subprocess.run([path, "-c", script], capture_output=True, text=True, timeout=120)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def lend(folder: Path) -> None:
    for name in LENT.split():
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        found = origin.parent if origin.stem == "__init__" else origin
        (folder / found.name).symlink_to(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tests_pass(version: str, tmp_path: Path):
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip("the other tests run under it")
    found = interpreter_of(version)
    if found is None:
        pytest.skip(f"no Python {version} here")
    paths = [str(ROOT / "src")]
    if not found.has_torch:
        lend(tmp_path)
        paths.append(str(tmp_path))
    done = subprocess.run(
        [
            *(found.path, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(WITH_TORCH if found.has_torch else WITHOUT_TORCH),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    print(f"Python {version}, {'with' if found.has_torch else 'without'} torch")
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= FEWEST[found.has_torch]
