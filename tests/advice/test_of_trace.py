"""Advice for programs that each have one reason to be compiled again."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import anyshape
from anyshape.events.trace import start_trace
from anyshape.explain.advice import Advice, advise, summary_of_trace
from tests.advice import programs


class Case(NamedTuple):
    program: Callable[[Any], None]
    kind: str
    saves: int
    #: what the title, cause or remedy say
    words: tuple[str, ...]
    settings: dict[str, object] = {}  # noqa: RUF012 a constant
    patch: tuple[str, ...] = ()


CASES = [
    Case(
        programs.static_first,
        "static_first",
        1,
        ("x.size(0)", "4, 7"),
        {"dynamic_sources": "L['x']:0"},
        ("+        anyshape.mark_dynamic(x, 0)",),
    ),
    Case(
        programs.two_sizes_one_after_the_other,
        "static_first",
        2,
        ("x.size(0), y.size(0)", "x.size(0) was seen as 4, 6, 7 and y.size(0) as 5, 8"),
        {"dynamic_sources": "L['x']:0,L['y']:0"},
        (
            "-        function(torch.ones(n), torch.ones(m))",
            "+        x_in = torch.ones(n)",
            "+        y_in = torch.ones(m)",
            "+        anyshape.mark_dynamic(y_in, 0)",
            "+        function(x_in, y_in)",
        ),
    ),
    Case(
        programs.integer_first,
        "static_first",
        1,
        ("n", "4, 7"),
        {"dynamic_sources": "L['n']"},
        ("+        function(torch.ones(3), anyshape.DynamicInt(n))",),
    ),
    Case(
        programs.automatic_off,
        "automatic_off",
        2,
        ("automatic_dynamic", "4, 7, 9"),
        {"dynamic_sources": "L['x']:0"},
        ("anyshape.mark_dynamic(x_in, 0)",),
    ),
    Case(
        programs.zero_one,
        "zero_one",
        1,
        ("specialize_zero_one", "4, 1"),
        {"specialize_zero_one": False},
    ),
    Case(
        programs.one_zero,
        "zero_one",
        1,
        ("specialize_zero_one", "1, 4"),
        {"specialize_zero_one": False},
    ),
    Case(
        programs.dynamic_false,
        "dynamic_false",
        2,
        ("dynamic=False", "4, 7, 9"),
        {"dynamic_sources": "L['x']:0"},
        ("-    @compile(dynamic=False)", "+    @compile"),
    ),
    Case(
        programs.marked_static,
        "marked_static",
        2,
        ("mark_static",),
        {"dynamic_sources": "L['x']:0"},
    ),
    Case(
        programs.module_integer,
        "held_static",
        2,
        ("self.x", "allow_unspec_int_on_nn_module = True", "`if self.x == 33:"),
        {"dynamic_sources": "L['self'].x"},
    ),
    Case(programs.module_integer, "branch", 1, ("self.x", "`if self.x == 33:", "check")),
    Case(
        programs.parameter,
        "held_static",
        2,
        ("self.weight.size(0)", "force_parameter_static_shapes = False"),
        {"dynamic_sources": "L['self']._parameters['weight']:0"},
    ),
    Case(
        programs.branch,
        "static_first",
        1,
        ("x.size(0)",),
        {"dynamic_sources": "L['x']:0"},
        ("maybe_mark_dynamic(x_in, 0)",),
    ),
    Case(programs.branch, "branch", 1, ("x.size(0) != 8", "`if x.shape[0] == 8:")),
    Case(programs.branch_seen_first, "branch", 1, ("x.size(0)", "`if x.shape[0] == 8:")),
    Case(programs.loop, "loop", 2, ("n was seen as 2, 3, 4", "unrolled")),
    Case(programs.constant, "constant", 2, ("n was seen as 2, 3, 4", "`comb` takes it")),
    Case(
        programs.tied,
        "tied",
        1,
        ("y.size(0)",),
        {"dynamic_sources": "L['y']:0"},
        ("anyshape.mark_dynamic(y_in, 0)",),
    ),
    Case(programs.one_symbol, "one_symbol", 1, ("duck_shape",), {"duck_shape": False}),
    Case(programs.stretched, "equality", 1, ("x.size(0)", "y.size(0)", "expand")),
    Case(
        programs.rate,
        "float",
        1,
        ("rate", "0.1, 0.2"),
        {"specialize_float": False, "dynamic_sources": "L['rate']"},
    ),
    Case(
        programs.global_float,
        "float",
        1,
        ("SCALE", "1.5, 2.5"),
        {"specialize_float": False, "dynamic_sources": "G['SCALE']"},
    ),
    Case(programs.attribute, "value", 2, ("self.name", "'a', 'b', 'c'")),
    Case(programs.training, "training", 1, ("self.training", "model.eval()")),
    Case(programs.grad_mode, "state", 1, ("grad mode", "True, False", "torch.no_grad()")),
    Case(programs.autocast, "state", 1, ("autocast",)),
    Case(programs.grad_mode_and_size, "state", 1, ("grad mode",)),
    Case(programs.dtype, "dtype", 1, ("x", "torch.float32, torch.float64")),
    Case(programs.requires_grad, "requires_grad", 1, ("x", "False, True")),
    Case(programs.rank, "rank", 1, ("1, 2 dimensions",)),
    Case(programs.layout, "layout", 1, (".contiguous()",), {}, ("x_in = x_in.contiguous()",)),
    Case(programs.kind, "type", 1, ("y", "Tensor, float")),
    Case(programs.length, "length", 2, ("xs", "torch.stack")),
    Case(programs.keys, "keys", 1, ("options", "same order")),
    Case(programs.same_object, "same_object", 1, ("y is x",)),
    Case(programs.closure, "value", 1, ("factor", "'a', 'bc'")),
    Case(programs.graph_break, "graph_break", 1, ("torch.where",)),
    Case(
        programs.limit, "recompile_limit", 0, ("the recompile limit of 2", "config.recompile_limit")
    ),
]


#: What they set stands above what is advised.
SET_THEMSELVES = {programs.one_symbol, programs.zero_one, programs.one_zero}


@functools.cache
def traced(program: Callable[[Any], None], folder: Path) -> list[Advice]:
    stop = start_trace(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the limit
            program(functools.partial(anyshape.compile, backend="eager"))
    finally:
        stop()
        anyshape.reset()
    return advise(folder)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def blamed_line(program: Callable[[Any], None]) -> int:
    """That of the program, or of the one class that it uses."""
    used = [
        each for each in program.__code__.co_names if isinstance(getattr(programs, each, 0), type)
    ]
    subject = getattr(programs, used[0]) if used else program
    lines, first = inspect.getsourcelines(subject)
    return next(first + i for i, line in enumerate(lines) if line.rstrip().endswith("# blame"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.program.__name__}-{case.kind}")
def test_cause_line_and_remedy(case: Case, folder: Path):
    found = traced(case.program, folder / case.program.__name__)
    assert case.kind in [each.kind for each in found]
    (advice,) = (each for each in found if each.kind == case.kind)
    assert (advice.file, advice.line) == (programs.__file__, blamed_line(case.program))
    assert advice.saves == case.saves
    assert advice.settings == case.settings
    said = " ".join([advice.title, advice.cause, advice.remedy])
    for words in case.words:
        assert words in said
    for line in case.patch:
        assert line in advice.patch
    assert bool(case.patch) == bool(advice.patch)
    assert "# blame" in advice.code
    assert advice.excerpt[advice.line].strip() == advice.code


def test_each_program_has_no_other_cause(folder: Path):
    expected: dict[str, set[str]] = {}
    for case in CASES:
        expected.setdefault(case.program.__name__, set()).add(case.kind)
    more = {"limit": {"value"}}  # that which led to it
    for case in CASES:
        name = case.program.__name__
        found = {each.kind for each in traced(case.program, folder / name)}
        assert found == expected[name] | more.get(name, set()), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.program.__name__}-{case.kind}")
def test_settings_save_what_they_promise(case: Case, folder: Path, tmp_path: Path):
    if not case.settings or case.program in SET_THEMSELVES:
        return
    name = case.program.__name__
    before = summary_of_trace_of(case.program, folder / name)
    promised = sum(each.saves for each in traced(case.program, folder / name) if each.settings)
    with anyshape.config.patch(**case.settings):
        after = summary_of_trace_of(case.program, tmp_path)
    assert before - after == promised


def summary_of_trace_of(program: Callable[[Any], None], folder: Path) -> int:
    traced(program, folder)
    return summary_of_trace(folder).compiles
