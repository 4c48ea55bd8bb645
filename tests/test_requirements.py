"""Whoever has a Python or a torch that is too old is told so, in one line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import anyshape
from anyshape import cli
from anyshape.support.requirements import TooOld, require_python, require_torch

ROOT = Path(__file__).parents[1]


def test_they_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = project["requires-python"].removeprefix(">=")
    [torch] = [each for each in project["dependencies"] if each.startswith("torch")]
    with pytest.raises(TooOld, match=f"needs Python {python} or later, and this is Python 3.10.4$"):
        require_python((3, 10, 4))
    oldest = torch.removeprefix("torch>=")
    with pytest.raises(TooOld, match=f"needs torch {oldest} or later, and this is torch 2.9.1$"):
        require_torch("2.9.1")


@pytest.mark.parametrize(
    "version", ["2.11.0", "2.13.0+cpu", "2.14.0a0+git1234", "3.0", "(not installed)", "git"]
)
def test_others_are_let_through(version: str):
    require_torch(version)
    require_python((3, 11, 0))
    require_python((4, 0))


def test_an_older_python():
    """The first thing that goes wrong is the one that is told."""
    script = (
        "import sys, typing; sys.version_info = (3, 10, 4, 'final', 0);"
        "del typing.dataclass_transform, typing.Self, typing.assert_never; import anyshape"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "anyshape.support.requirements.TooOld: anyshape needs Python 3.11 or later"
    )


def test_an_older_torch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    older = ModuleType("torch")
    older.__version__ = "2.10.1+cpu"  # pyright: ignore[reportAttributeAccessIssue] as torch has it
    monkeypatch.setitem(sys.modules, "torch", older)
    monkeypatch.delitem(vars(anyshape), "compile", raising=False)
    with pytest.raises(ImportError, match=r"this is torch 2\.10\.1"):
        anyshape.compile  # noqa: B018
    monkeypatch.setattr(metadata, "version", lambda name: "2.10.1")
    assert cli.main(["profile", "show"]) == 2
    assert "anyshape needs torch 2.11 or later" in capsys.readouterr().err


def test_the_command_line_says_the_versions(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("anyshape ")
    assert f"torch {metadata.version('torch')}" in said
