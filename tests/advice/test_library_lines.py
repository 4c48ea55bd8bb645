"""Lines of libraries are told as such, with the program's own line beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.events.kinds import Event, GraphBreak, Recompile, RunsEagerly
from anyshape.explain.advice import advise
from anyshape.explain.library_lines import in_library, own_line
from anyshape.support.lazy_dataclass import replace
from tests.report.made import Place, compile_of, written

LIBRARY = "/x/lib/python3.11/site-packages/transformers/models/bert.py"


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (LIBRARY, "transformers/models/bert.py"),
        ("/usr/lib/python3/dist-packages/six.py", "six.py"),
        ("/usr/lib/python3.12/functools.py", "functools.py"),
        ("/home/me/site/packages.py", ""),
        ("C:\\\\env\\\\Lib\\\\site-packages\\\\a\\\\b.py".replace("\\\\", "\\"), "a\\b.py"),
    ],
)
def test_whose_it_is(file: str, library: str):
    assert in_library(file) == library


def test_the_own_line_is_the_innermost():
    stack = [Place("a.py", 1, "f"), Place("b.py", 2, "g"), Place(LIBRARY, 3, "h")]
    assert own_line(stack) == stack[1]
    assert own_line(stack[2:]) is None


@pytest.mark.parametrize("kind", [GraphBreak, RunsEagerly])
def test_a_stop_in_a_library(tmp_path: Path, kind: type[GraphBreak | RunsEagerly]):
    told: list[Event] = compile_of("f", 0, 0, size=3)
    at = -1 if kind is GraphBreak else 2
    told.insert(at, kind("cannot trace into it", Place(LIBRARY, 7, "forward"), compile_id="0/0"))
    (advice,) = [each for each in advise(written(tmp_path, told)) if each.file == LIBRARY]
    assert "in transformers/models/bert.py: a library, not your code" in advice.cause
    assert advice.remedy.startswith("At your line model.py:10, pass arguments")


def test_a_guard_of_a_library(tmp_path: Path):
    told = [*compile_of("f", 0, 0, size=3, dynamic=True), *compile_of("f", 0, 1, size=4)]
    for number, event in enumerate(told):
        if isinstance(event, Recompile):
            reason = event.reasons[-1]._replace(
                text="L['x'].size()[0] < 4, actual 4",
                user_frame=Place(LIBRARY, 7, "forward"),
                kind="condition",
                source="L['x'].size()[0]",
            )
            told[number] = replace(event, reasons=[reason])
    found = [each for each in advise(written(tmp_path, told)) if each.file == LIBRARY]
    assert found
    assert all("a library, not your code" in each.cause for each in found)
    assert any("At your line model.py:10" in each.remedy for each in found)
