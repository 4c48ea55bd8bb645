"""`anyshape export` and `anyshape show`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import anyshape
from anyshape.cli import main

SCRIPT = """
import torch
from anyshape import Dim
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
example_args = (torch.randn(3, 4),)
batched = {"input": (Dim("batch", max=9), None)}
def add(x, y):
    return x + y
def make():
    return {"x": torch.ones(6), "y": torch.ones(6)}
if __name__ == "__main__":
    raise SystemExit("a script that is loaded does not run")
"""


@pytest.fixture(name="script")
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    out, err = capsys.readouterr()
    return err if status == 2 else out


def test_export_and_show(script: Path, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, "export", "script.py:net", "--dynamic-shapes", "batched")
    assert "Exported Sequential(input: float32[batch, 4])" in text
    assert "written to net.zip" in text
    assert anyshape.load("net.zip")(torch.randn(7, 4)).shape == (7, 8)
    shown = said(capsys, "show", "net.zip", "--graph")
    assert "batch = input.shape[0], at most 9" in shown
    assert "2 weights: 40 numbers, 160 bytes" in shown
    assert "torch.nn.functional.linear" in shown


def test_a_spec_on_the_command_line(script: Path, capsys: pytest.CaptureFixture[str]):
    spec = '{"x": (Dim("n"),), "y": (Dim.AUTO,)}'
    arguments = ("--args", "make", "--dynamic-shapes", spec, "-o", "out.zip")
    assert "n = x.shape[0] = y.shape[0]" in said(capsys, "export", "script.py:add", *arguments)
    assert anyshape.load("out.zip")(torch.ones(2), torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("export", "script.py"), "SCRIPT:OBJ"),
        (("export", "nothing.py:net"), "there is no script nothing.py"),
        (("export", "script.py:nothing"), "script.py has no nothing; it has Dim, add"),
        (("export", "script.py:net", "--args", "other"), "has no other"),
        (("export", "script.py:net", "--dynamic-shapes", "{"), "SyntaxError"),
        (("export", "script.py:net", "--dynamic-shapes", '{"z": "n"}'), "[AS111]"),
        (("show", "nothing.zip"), "there is no file nothing.zip"),
        (("show", "script.py"), "[AS124]"),
    ],
)
def test_failures(
    script: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
):
    assert says in said(capsys, *arguments, status=2)
