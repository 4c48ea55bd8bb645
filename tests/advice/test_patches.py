"""A patch puts lines above a call, where they are run as often, and as early, as its arguments."""

from __future__ import annotations

import ast

import pytest

from anyshape.events.kinds import FrameStart, Place
from anyshape.explain.advice.calls import call_of, is_run_once, with_variables
from anyshape.explain.advice.history import Compile, FunctionHistory
from anyshape.explain.advice.source_lines import Listing
from anyshape.explain.trace_model import Attempt, TracedEntry

#: A statement, and whether what it passes to `f` may be computed on a line above it.
STATEMENTS = {
    "f(torch.ones(n))": True,
    "y = 2 * f(torch.ones(n))": True,
    "print(f(torch.ones(n)), g())": True,
    "if f(torch.ones(n)) > 3: pass": True,
    "for y in f(torch.ones(n)): pass": True,
    "with f(torch.ones(n)) as y: pass": True,
    "while n < 4 and f(torch.ones(n)) < 3: pass": False,
    "while f(torch.ones(n)): pass": False,
    "while (i := i + 1) < 4: f(torch.ones(i))": False,
    "for i in (2, 3): f(torch.ones(i))": False,
    "if ready: f(torch.ones(n))": False,
    "b = draw(); f(b)": False,
    "n and f(torch.ones(n))": False,
    "y = f(torch.ones(n)) if n else 0": False,
    "y = lambda: f(torch.ones(n))": False,
    "y = [f(torch.ones(i)) for i in sizes]": False,
    "1 < n < f(torch.ones(n))": False,
    "print(draw(), f(torch.ones(n)))": False,
}


def listing_of(lines: list[str]) -> Listing:
    return Listing("", {"a.py": dict(enumerate(lines, 1))})


def called_at(line: int) -> Compile:
    attempt = Attempt(0.0)
    attempt.tell(FrameStart("f", "a.py", 1, [Place("a.py", line, "main")]))
    return Compile(TracedEntry("0/1", "", [attempt]))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_line_above_runs_as_often_and_as_early(statement: str) -> None:
    listing = listing_of(["def f(x):", "    return x", "", statement])
    function = FunctionHistory("f", "a.py", 1)
    found = call_of(function, called_at(4), listing)
    made = None if found is None else with_variables(found, ["x"], listing)
    assert (made is not None) == STATEMENTS[statement]


def test_arguments_that_all_get_variables_keep_their_turns() -> None:
    listing = listing_of(["def f(x, y):", "    return x", "", "f(draw(1), draw(2))"])
    call = call_of(FunctionHistory("f", "a.py", 1), called_at(4), listing)
    assert call is not None
    made = with_variables(call, ["y", "x"], listing)
    assert made is not None
    assert list(made.before) == ["x_in = draw(1)", "y_in = draw(2)"]
    assert with_variables(call, ["y"], listing) is None


@pytest.mark.parametrize("name", ["body", "orelse"])
def test_bodies_are_not_the_statement_itself(name: str) -> None:
    text = "if a: f(1)" if name == "body" else "if a: pass\nelse: f(1)"
    (statement,) = ast.parse(text).body
    (call,) = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    assert not is_run_once(statement, call)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["import anyshape"], "anyshape"),
        (["import torch, anyshape"], "anyshape"),
        (["import anyshape as ash", "from anyshape import compile"], "ash"),
        (["from anyshape import compile"], ""),
        (["import anyshape_tools"], ""),
        (["    import anyshape"], ""),
    ],
)
def test_the_package_has_the_name_that_the_program_gives_it(lines: list[str], name: str) -> None:
    assert listing_of(lines).name_of_anyshape("a.py") == name
