"""Every function of the standard library can be instrumented, on each Python that is installed.

Functions are refused for reasons that are listed here; "its source has changed" would mean that we
do not recognise text that did compile to the code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"

EXPECTED_REASONS = (
    "it is asynchronous",
    "it has asynchronous code",
    "which looks at the frame of its caller",
    "it replaces the code of a function",
)
# Text that compiles to other code on its own than in its file.
_OF_TYPE_PARAMETERS = "code of a definition with type parameters is not a function"
EXPECTED_CHANGED = {
    "unittest/mock.py": "the module redefines `super`, and the compiler knows",
    "typing.py": _OF_TYPE_PARAMETERS,
}
EXPECTED_UNAVAILABLE = {"typing.py": _OF_TYPE_PARAMETERS}


def interpreters() -> dict[str, Path]:
    found = {"default": Path(sys.executable)}
    for version in ("3.12", "3.13", "3.14"):
        paths = sorted(PYENV.glob(f"{version}.*/bin/python"))
        if paths:
            found[version] = paths[-1]
    return found


@pytest.mark.parametrize(("name", "interpreter"), interpreters().items(), ids=list(interpreters()))
def test_every_function_is_instrumented_or_refused_for_a_known_reason(
    name: str, interpreter: Path
) -> None:
    finished = subprocess.run(
        [interpreter, ROOT / "tests/slow/survey_standard_library.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    survey = json.loads(finished.stdout)
    unexpected = {
        reason: names
        for reason, (_, names) in survey["refused"].items()
        if not reason.endswith(EXPECTED_REASONS)
        and not all(is_expected(where, reason) for where in names)
    }
    assert not survey["crashed"]
    assert not unexpected
    assert survey["total"] > 10_000
    assert survey["instrumented"] / survey["total"] > 0.97


def is_expected(where: str, reason: str) -> bool:
    known = {
        "its source has changed": EXPECTED_CHANGED,
        "its source is not available": EXPECTED_UNAVAILABLE,
    }.get(reason, {})
    path = where.rpartition(":")[0]
    return any(path.endswith(suffix) for suffix in known)
