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
class Net(torch.nn.Module):
    pass
calls = [(torch.ones(2, 4),), (torch.ones(5, 4),)]
def wrong():
    return x
def fails(x):
    return x + torch.ones(9)
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


def test_examples_and_onnx(script: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnx")
    text = said(capsys, "export", "script.py:net", "--examples", "calls", "--onnx", "net.onnx")
    assert "s0 = input.shape[0]" in text
    assert "written to net.zip" in text
    assert "written to net.onnx" in text
    inner = said(capsys, "export", "script.py:net.0", "--dynamic-shapes", '{"input": "n 4"}')
    assert "Exported Linear(input: float32[n, 4])" in inner


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(("export", "--help"))
    out, _ = capsys.readouterr()
    assert "anyshape export model.py:net --examples calls --onnx net.onnx" in out


def test_a_script_that_ends_itself(script: Path, capsys: pytest.CaptureFixture[str]):
    script.write_text("import sys\nsys.exit(3)\n")
    text = said(capsys, "export", "script.py:net", status=2)
    assert "script.py ended itself, with status 3" in text


def test_a_script_that_fails_is_shown_by_its_own_lines(
    script: Path, capsys: pytest.CaptureFixture[str]
):
    script.write_text("def f():\n    return 1 / 0\nf()\n")
    text = said(capsys, "export", "script.py:f", status=2)
    assert text.splitlines()[0] == "anyshape: script.py failed:"
    assert "line 3" in text.splitlines()[1]
    assert "ZeroDivisionError" in text
    assert "runpy" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("export", "script.py:Net"), "Net is a class; name an object of it"),
        (("export", "script.py:net.nothing"), "net in script.py has no nothing"),
        (("export", "script.py:add", "--args", "wrong"), "NameError: name 'x' is not defined"),
        (("export", "script.py:fails"), "return x + torch.ones(9)"),
        (("export", "script.py:net", "-o", "nowhere/net.zip"), "nowhere/net.zip cannot be written"),
        (("export", "script.py"), "SCRIPT:OBJ"),
        (("export", "nothing.py:net"), "there is no script nothing.py"),
        (("export", "script.py:nothing"), "script.py has no nothing; it has Dim, Net, add"),
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
