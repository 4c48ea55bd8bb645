"""The step-by-step guide, replayed: `anyshape explain` on the programs that are written for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compat.scripts import command

GUIDE = Path(__file__).parents[2] / "examples" / "guide"


class Expected(NamedTuple):
    kind: str
    code: str
    remedy: str
    settings: dict[str, object]
    saves: int


class Case(NamedTuple):
    script: str
    before: int
    after: int
    advice: list[Expected]


CASES = [
    Case(
        "converges.py",
        2,
        1,
        [
            Expected(
                "static_first",
                "scores = queries @ documents.T",
                "dynamic",
                {"dynamic_sources": "L['queries']:0"},
                1,
            )
        ],
    ),
    Case(
        "specialises.py",
        6,
        2,
        [
            Expected(
                "held_static",
                "if self.x == 33:",
                "allow_unspec_int_on_nn_module = True",
                {"dynamic_sources": "L['self'].x"},
                4,
            ),
            Expected("branch", "if self.x == 33:", "torch._check", {}, 1),
        ],
    ),
    Case(
        "not_a_size.py",
        3,
        2,
        [
            Expected(
                "state",
                "weights = update(weights, gradient, 0.1 * 0.5**step)",
                "torch.no_grad()",
                {},
                1,
            ),
            Expected(
                "float",
                "return weights - rate * gradient",
                "specialize_float = False",
                {"specialize_float": False, "dynamic_sources": "L['rate']"},
                1,
            ),
        ],
    ),
]


def explained(folder: Path, script: str) -> dict[str, Any]:
    ran = command(folder, "explain", "--json", "--verify", script)
    assert ran.status == 0, ran.log
    return json.loads(ran.out)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_cause_line_remedy_and_what_it_saves(case: Case, tmp_path: Path):
    shutil.copy(GUIDE / case.script, tmp_path)
    found = explained(tmp_path, case.script)
    lines = (GUIDE / case.script).read_text().splitlines()
    assert len(found["advice"]) == len(case.advice)
    for advice, expected in zip(found["advice"], case.advice, strict=True):
        assert (advice["kind"], advice["code"]) == (expected.kind, expected.code)
        assert lines[advice["line"] - 1].strip() == expected.code
        assert expected.remedy in advice["remedy"]
        assert (advice["settings"], advice["saves"]) == (expected.settings, expected.saves)
    assert found["compiles"] == case.before
    assert found["verified"] == {
        "status": 0,
        "compiles": case.after,
        "functions": {next(iter(found["functions"])): case.after},
        "same_calls": True,
    }


def test_a_patch_that_is_proposed_applies_and_saves(tmp_path: Path):
    shutil.copy(GUIDE / "converges.py", tmp_path)
    (advice,) = explained(tmp_path, "converges.py")["advice"]
    (tmp_path / "change.patch").write_text(advice["patch"])
    subprocess.run(["git", "apply", "change.patch"], cwd=tmp_path, check=True)
    found = explained(tmp_path, "converges.py")
    assert (found["compiles"], found["advice"]) == (1, [])


UNLIKE = """
import os, torch
@torch.compile(backend="eager")
def f(x):
    return x + 1
start = int.from_bytes(os.urandom(6), "big")
for n in range(2):
    f(torch.ones(1 + (start + n) % 100003, 1))
if os.environ.get("ANYSHAPE_DYNAMIC_SOURCES"):
    print("it breaks", flush=True)
    os.abort()
"""


def test_a_program_that_is_another_each_time(tmp_path: Path):
    (tmp_path / "script.py").write_text(UNLIKE.replace("    os.abort()", "    pass"))
    ran = command(tmp_path, "explain", "--verify", "script.py")
    assert ran.status == 0
    assert "did not do the same" in ran.out


def test_a_second_run_that_crashes(tmp_path: Path):
    (tmp_path / "script.py").write_text(UNLIKE)
    ran = command(tmp_path, "explain", "--verify", "script.py")
    assert ran.status == 1
    assert "With these settings the program ended with status 134:" in ran.out
    assert "  it breaks\n" in ran.out.partition("ended with status")[2]


OWN = """
import anyshape, torch
@anyshape.compile(backend="eager")
def f(x):
    return x + 1
for n in (3, 4):
    f(torch.ones(n))
"""


def test_a_module_that_uses_anyshape_itself(tmp_path: Path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "program.py").write_text(OWN)
    ran = command(tmp_path, "explain", "--trace", "kept", "-m", "package.program")
    assert ran.status == 0
    assert re.search(r"\+\s+anyshape\.mark_dynamic\(x_in, 0\)", ran.out)
    assert len(list((tmp_path / "kept").glob("anyshape_events_*.jsonl"))) == 1
    # Another run into the same folder is about itself alone.
    ran = command(tmp_path, "explain", "--trace", "kept", "-m", "package.program")
    assert "2 compiles of 1 function" in ran.out
