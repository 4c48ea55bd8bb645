"""The line at the end of a process that had functions without a graph."""

from __future__ import annotations

from pathlib import Path

from anyshape.dispatch.eager_summary import EagerSummary, RanEagerly
from anyshape.dispatch.entry import Counts
from tests import forks

PROGRAM = """
import torch, anyshape

def unwatched(x):
    return eval("x + 1")

def in_parts(x):
    y = x * 2
    open("/dev/null").close()
    return torch.relu(y) - 1

def whole(x):
    return x * 2

for function in (unwatched, in_parts, whole):
    compiled = anyshape.compile(function)
    for size in (3, 4, 5, 6):
        assert torch.equal(compiled(torch.ones(size)), function(torch.ones(size)))
    del compiled
"""


def _stderr(tmp_path: Path, **environment: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = forks.run([str(script)], tmp_path, environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_one_line_names_what_ran_eagerly(tmp_path: Path) -> None:
    told = [line for line in _stderr(tmp_path).splitlines() if line.startswith("anyshape: ")]
    assert len(told) == 1
    assert (
        "1 compiled function ran eagerly: unwatched (script.py:4; 4 calls): graph break" in told[0]
    )
    assert "eval" in told[0]
    assert "in_parts" not in told[0]


def test_not_where_it_is_not_wanted(tmp_path: Path) -> None:
    assert "ran eagerly" not in _stderr(tmp_path, ANYSHAPE_REPORT_EAGER="0")
    assert "ran eagerly" not in _stderr(tmp_path, RANK="1")


def test_the_most_eager_are_named_first() -> None:
    summary = EagerSummary()
    assert summary.text() == ""
    for calls in range(1, 6):
        own = Counts(eager_calls=calls)
        summary.note(RanEagerly(f"f{calls}", "a/b.py", 1, "a\nb" * 100, "", own, []))
    summary.note(RanEagerly("parts", "b.py", 1, "r", "", Counts(eager_calls=9), [Counts(graphs=1)]))
    text = summary.text()
    assert "\n" not in text
    assert text.startswith("anyshape: 5 compiled functions ran eagerly: f5 (b.py:1; 5 calls)")
    assert "f3" in text
    assert "f2" not in text
    assert "; and 2 more" in text
    summary.forget()
    assert summary.text() == ""
