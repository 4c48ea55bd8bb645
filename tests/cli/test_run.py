"""`anyshape run`: a script runs as Python would run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.scripts import command, python, run


def test_a_script_is_the_main_module(tmp_path: Path):
    source = """
import sys, os, __main__
print(__name__, sys.argv, os.path.dirname(__file__) == sys.path[0], __main__.x if 0 else "")
x = 1
print(__main__.x, sys.modules["__main__"].__dict__ is globals())
"""
    ran = run(tmp_path, source, "--flag", "-m", "value")
    assert (ran.status, ran.log) == (0, "")
    file = str(tmp_path / "script.py")
    assert ran.out.splitlines() == [
        f"__main__ {[file, '--flag', '-m', 'value']} True ",
        "1 True",
    ]


@pytest.mark.parametrize(
    ("source", "status"),
    [("import sys; sys.exit(3)", 3), ("raise SystemExit", 0), ("import os; os._exit(4)", 4)],
)
def test_the_status_of_the_script(tmp_path: Path, source: str, status: int):
    assert run(tmp_path, source).status == status


def test_an_error_of_the_script_shows_its_own_frames(tmp_path: Path):
    ran = run(tmp_path, "def f():\n    return 1 / 0\n\nf()\n")
    assert ran.status == 1
    assert ran.log.splitlines()[:3] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "script.py"}", line 4, in <module>',
        "    f()",
    ]
    assert ran.log.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_a_mistake_in_the_script(tmp_path: Path):
    ran = run(tmp_path, "if True\n    pass\n")
    assert ran.status == 1
    assert "SyntaxError" in ran.log


def test_no_such_script(tmp_path: Path):
    ran = command(tmp_path, "run", "nothing.py")
    assert (ran.status, ran.log) == (2, "anyshape: there is no file nothing.py\n")
    ran = command(tmp_path, "run", "-m", "nothing.here")
    assert ran.status == 2
    assert "nothing.here" in ran.log


@pytest.mark.parametrize("name", ["run", "explain"])
def test_only_the_script_is_required(tmp_path: Path, name: str):
    assert command(tmp_path, name).log.endswith("are required: SCRIPT\n")


def test_a_module(tmp_path: Path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "package" / "part.py").write_text("x = 5\n", encoding="utf-8")
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys\nfrom package.part import x\nfrom .part import x as again\n"
        "print(x, again, sys.argv[1:], __package__)\n",
        encoding="utf-8",
    )
    ran = command(tmp_path, "run", "-m", "package", "a")
    assert (ran.status, ran.out) == (0, "5 5 ['a'] package\n")


def test_what_runs_at_the_end_finds_its_names(tmp_path: Path):
    source = "import atexit\nname = 'still here'\natexit.register(lambda: print(name))\n"
    assert run(tmp_path, source).out == "still here\n"


def test_pickle_finds_classes_of_the_script(tmp_path: Path):
    source = """
import pickle
class Thing:
    pass
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
"""
    assert run(tmp_path, source).out == "True\n"


def test_variables_of_torch_are_honoured(tmp_path: Path):
    source = """
import torch
f = torch.compile(lambda x: x * 2)
for size in (2, 3):
    f(torch.rand(size))
"""
    trace = tmp_path / "trace"
    variables = {"TORCH_LOGS": "recompiles", "TORCH_TRACE": str(trace)}
    # Torch reads them when it is loaded.
    ran = python(tmp_path, source, "-m", "anyshape", "run", **variables)
    assert ran.status == 0
    assert "[0/1] [__recompiles] Recompiling function" in ran.log
    assert [path.suffix for path in sorted(trace.iterdir())] == [".jsonl", ".log"]
