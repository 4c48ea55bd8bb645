"""`anyshape explain`: the script as it is, then the advice. The programs of the guide are in
tests/slow."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from anyshape.cli import advice_text, explain
from anyshape.cli.advice_text import Run
from anyshape.explain.advice import Advice, Summary
from tests.compat.scripts import Ran, command

FLOATS = """
import sys, torch
@torch.compile(backend="eager")
def f(x, rate):
    return x * rate
for rate in (0.5, 0.25, 0.125):
    print(float(f(torch.ones(2), rate).sum()))
"""


def explained(folder: Path, source: str, *options: str, args: tuple[str, ...] = ()) -> Ran:
    (folder / "script.py").write_text(source, encoding="utf-8")
    return command(folder, "explain", *options, "script.py", *args)


def test_a_script_that_fails_is_explained_up_to_there(tmp_path: Path):
    source = FLOATS + "print(sys.argv[1:])\nsys.exit(7)\n"
    ran = explained(tmp_path, source, args=("--verify", "-m"))
    assert ran.status == 7
    printed, _, advice = ran.out.partition("\n─── anyshape explain ───\n")
    assert printed == "1.0\n0.5\n0.25\n['--verify', '-m']\n"
    assert "ended with status 7" in advice
    assert "2 compiles of 1 function" in advice
    assert "script.py:5\n" in advice
    assert "ANYSHAPE_SPECIALIZE_FLOAT=0 ANYSHAPE_DYNAMIC_SOURCES=\"L['rate']\"" in advice
    assert "Verified" not in advice


def test_a_script_that_compiles_nothing(tmp_path: Path):
    ran = explained(tmp_path, "print('hello')", "--verify")
    assert ran.status == 0
    assert ran.out.startswith("hello\n")
    assert "compiled nothing" in ran.out
    assert "Nothing to verify" in ran.out


def test_no_such_script(tmp_path: Path):
    ran = command(tmp_path, "explain", "nothing.py")
    assert (ran.status, ran.out) == (2, "")
    assert ran.log == "anyshape: there is no file nothing.py\n"


def test_no_such_module(tmp_path: Path):
    ran = command(tmp_path, "explain", "-m", "nothing.here")
    assert ran.status == 2
    assert ran.log.startswith("anyshape: there is no module nothing.here that could be run\n")
    assert ran.out == ""


# -- without a process -------------------------------------------------------------------------


def advice(**more: object) -> Advice:
    held = {
        "kind": "static_first",
        "title": "f: [bold]x[/bold]",
        "cause": "why",
        "file": "/a/f.py",
        "line": 3,
        "code": "f(x)",
        "excerpt": {2: "", 3: "f(x)"},
        "remedy": "do",
    }
    return Advice(**{**held, **more})


def test_settings_of_several_are_put_together():
    summary = Summary(
        {"f (f.py:1)": 3},
        (
            advice(settings={"dynamic_sources": "L['x']:0,L['y']"}),
            advice(settings={"specialize_float": False, "dynamic_sources": "L['y']"}),
            advice(),
        ),
    )
    assert explain.settings_of(summary) == {
        "specialize_float": False,
        "dynamic_sources": "L['x']:0,L['y']",
    }


def shown(capsys: pytest.CaptureFixture[str], first: Summary, second: Run | None = None) -> str:
    advice_text.show(first, explain.settings_of(first), 0, second is not None, second)
    return capsys.readouterr().out


def test_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]):
    text = shown(capsys, Summary({"f (f.py:1)": 2}, (advice(saves=1, ranks=(0, 3)),)))
    assert "1. f: [bold]x[/bold] (saves 1 compile)\n" in text
    assert "on rank 0, 3" in text
    assert "   >    3 | f(x)" in text


def test_before_and_after(capsys: pytest.CaptureFixture[str]):
    settings = {"dynamic_sources": "L['x']"}
    first = Summary({"f (f.py:1)": 3, "g (f.py:9)": 1}, (advice(settings=settings, saves=2),))
    text = shown(capsys, first, Run(0, Summary({"f (f.py:1)": 1, "g (f.py:9)": 1}, ())))
    assert "Verified: 4 → 2 compiles, 2 compiles less." in text
    assert "  f (f.py:1): 3 → 1\n" in text
    text = shown(capsys, first, Run(0, Summary({"f (f.py:1)": 4}, (), (("f", "L['x']"),))))
    assert "4 → 4 compiles, no compile less" in text
    assert "did not do the same" in text
    text = shown(capsys, first, Run(3, Summary({}, ()), "boom"))
    assert "ended with status 3:\n  boom\n" in text


def test_letters_that_the_output_has_not(monkeypatch: pytest.MonkeyPatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    advice_text.show(Summary({"f (f.py:1)": 2}, (advice(title="naïve → f"),)), {}, 0, False, None)
    sys.stdout.flush()
    assert b"1. na?ve ? f\n" in written.getvalue()


def test_text_for_a_shell():
    text = advice_text.shell_text({"dynamic_sources": "L['x']\\[\"$a`\"\\]:0", "duck_shape": False})
    expected = 'ANYSHAPE_DYNAMIC_SOURCES="L[\'x\']\\\\[\\"\\$a\\`\\"\\\\]:0" ANYSHAPE_DUCK_SHAPE=0'
    assert text == expected
