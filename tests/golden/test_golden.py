"""What anyshape makes of programs, compared with the texts that were reviewed (`texts/`).

    pytest tests/golden --refresh-goldens

writes them anew: a change of the package shows in their diff what it changes.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import torch

pytest.importorskip("onnx", reason="the texts have ONNX models")

from tests import forks
from tests.golden.render import NAMES, helpers_text

TEXTS = Path(__file__).parent / "texts"
#: That of constraints.txt: modules of torch are part of what is compiled.
MADE_WITH = "2.13"
#: lines of a difference that are shown
LONGEST = 200
#: the text of what all native code calls
HELPERS = "host_helpers"


needs_torch = pytest.mark.skipif(
    not torch.__version__.startswith(f"{MADE_WITH}."),
    reason=f"the texts are made with torch {MADE_WITH}",
)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts of all programs, made by a process that nothing else has run in: numbers of hooks
    and of replaced functions go by what a process has done before."""
    folder = tmp_path_factory.mktemp("rendered")
    ran = forks.run(["-m", "tests.golden.render", str(folder)], Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr
    return folder


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_program(name: str, rendered: Path, request: pytest.FixtureRequest) -> None:
    compare(name, (rendered / f"{name}.txt").read_text(), request.config)


def test_helpers(request: pytest.FixtureRequest) -> None:
    compare(HELPERS, helpers_text(), request.config)


def compare(name: str, made: str, config: pytest.Config) -> None:
    """Fail with the difference; or keep the text, if that is asked for."""
    path = TEXTS / f"{name}.txt"
    if config.getoption("--refresh-goldens"):
        path.write_text(made)
    kept = path.read_text() if path.exists() else ""
    if made == kept:
        return
    old, new = kept.splitlines(), made.splitlines()
    lines = list(difflib.unified_diff(old, new, f"texts/{name}.txt", "now", lineterm=""))
    if len(lines) > LONGEST:
        lines[LONGEST:] = [f"... and {len(lines) - LONGEST} lines more"]
    advice = "If it is meant to be so: pytest tests/golden --refresh-goldens, and review the diff."
    pytest.fail("\n".join([*lines, "", advice]), pytrace=False)


def test_every_text_has_a_program() -> None:
    assert sorted(path.stem for path in TEXTS.glob("*")) == sorted([*NAMES, HELPERS])


def test_texts_are_short_enough_to_review() -> None:
    assert sum(path.stat().st_size for path in TEXTS.glob("*")) < 1_500_000
