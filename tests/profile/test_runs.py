"""Several runs of one program: what the first had to find out, the next one knows."""

from __future__ import annotations

import ast
import itertools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import anyshape
from anyshape.profile import store
from anyshape.profile.show import dynamic_sources
from tests.profile.samples import python

#: The program of the reference text about profiles, called with two sizes.
PROGRAM = """
import torch, anyshape

def f(x):
    return x * x.size()[0]

compiled = anyshape.compile(f)
for size in (10, 20, 30):
    x = torch.randn(size)
    assert torch.equal(compiled(x), f(x))
print(compiled.stats().graphs)
"""


Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a program as a new process would, with a profile in `tmp_path`; returns what it prints.
    Each has a file of its own. That real processes do the same is one test: torch takes long to
    load."""
    numbers = itertools.count()

    def run(program: str, **settings: Any) -> str:
        script = tmp_path / f"folder{next(numbers)}" / "program.py"
        script.parent.mkdir()
        script.write_text(program)
        with anyshape.config.patch(
            **{
                "profile": True,
                "cache_dir": tmp_path,
                "on_compile_error": "raise",
                **settings,
            }
        ):
            anyshape.reset()
            runpy.run_path(str(script))
            anyshape.reset()  # writes it
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_two_processes(tmp_path: Path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    assert python(script, tmp_path / "cache") == "2\n"
    assert python(script, tmp_path / "cache") == "1\n"


def test_two_graphs_then_one(run: Run):
    assert run(PROGRAM) == "2\n"
    assert run(PROGRAM) == "1\n"
    assert run(PROGRAM, profile=False) == "2\n"
    assert run(PROGRAM, automatic_dynamic=False) == "3\n"


def test_a_moved_file_is_the_same_program_and_a_changed_one_is_not(run: Run):
    assert run(PROGRAM) == "2\n"
    assert run("# moved\n\n" + PROGRAM) == "1\n"
    assert run(PROGRAM.replace("x * x", "x + x")) == "2\n"


def test_one_size_a_run_is_learned_over_runs(run: Run, tmp_path: Path):
    for size in (10, 20, 30):
        assert run(PROGRAM.replace("(10, 20, 30)", f"({size},)")) == "1\n"
    (record,) = store.read(store.file_in(str(tmp_path))).values()
    assert str(record.seen("L['x']")) == "tensor size=[?] stride=[1]"
    assert record.typical("L['x'].size()[0]") == (10, 20, 30)
    assert run(PROGRAM) == "1\n"


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_machines_share_it(run: Run, tmp_path: Path, scheme: str):
    url = f"{scheme}://{tmp_path}/shared"
    assert run(PROGRAM, profile_url=url, cache_dir=tmp_path / "one") == "2\n"
    assert run(PROGRAM, profile_url=url, cache_dir=tmp_path / "two") == "1\n"


MODULE = """
import torch, anyshape

class Inner(torch.nn.Module):
    def forward(self, x):
        return x + 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.inner, self.calls = torch.nn.Linear(4, 4), Inner(), 0

    def forward(self, x, n):
        self.calls += 1
        return self.inner(self.linear(x)) * n * self.calls

torch.manual_seed(0)
model, twin = Model(), Model()
twin.load_state_dict(model.state_dict())
compiled = anyshape.compile(model)
for size in (2, 3, 5, 7):
    x = torch.randn(size, 4)
    torch.testing.assert_close(compiled(x, size), twin(x, size))
assert model.calls == twin.calls
print(compiled.stats().graphs)
print({s.source: s.typical for s in compiled.entries[0].symbols.values()})
"""


def test_modules_their_counters_and_integers(run: Run):
    graphs, _ = run(MODULE).splitlines()
    assert graphs == "2"
    graphs, typical = run(MODULE).splitlines()
    assert graphs == "1"
    assert ast.literal_eval(typical) == {
        "L['x'].size()[0]": (2, 3),
        "L['n']": (2, 3),
        "L['self'].calls": (0, 1),
    }


def test_what_is_on_modules_is_not_in_the_list(run: Run, tmp_path: Path):
    """Two modules of one class have other parameters; a counter changes by itself."""
    run(MODULE.replace("Linear(4, 4)", "Linear(4, 8)"))
    run(MODULE)
    (record,) = store.read(store.file_in(str(tmp_path))).values()
    (weight,) = (name for name in record.sources if name.endswith("['weight']"))
    assert str(record.seen(weight)) == "tensor size=[?, 4] stride=[4, 1]"
    named = ["L['n']", "L['self'].calls", "L['x']:0"]
    assert dynamic_sources([record]) == named
    assert set(dynamic_sources([record], all_of_modules=True)) > {*named, f"{weight}:0"}


def test_a_damaged_profile_is_a_first_run(run: Run, tmp_path: Path):
    assert run(PROGRAM) == "2\n"
    file = store.file_in(str(tmp_path))
    file.write_text(file.read_text()[:-9])
    # Warnings are errors here: the program does not depend on it.
    assert run(PROGRAM) == "2\n"
    assert file.with_suffix(".damaged").exists()
    assert run(PROGRAM) == "1\n"


def test_the_reason_says_so(run: Run):
    run(PROGRAM)
    told = run(PROGRAM + "print(compiled.explain())")
    assert "the profile of earlier runs has it in different forms (10, 20)" in told
    assert "by the profile, since " in told
    assert "what would change it: mark_static(tensor, dim), or `anyshape profile clear`" in told


#: A program that fixes the size anyway: a profile is no promise.
FIXED = """
import torch, anyshape

@anyshape.compile
def f(x):
    return x + 1 if x.size()[0] == 10 else x.view(20) * 2

for size in (10, 20):
    print(f(torch.ones(size))[0].item())
print(f.stats().graphs)
"""


def test_what_the_program_fixes_stays_fixed(run: Run):
    assert run(FIXED) == run(FIXED) == "2.0\n2.0\n2\n"


def test_marks_stand_above_the_profile(run: Run):
    assert run(PROGRAM) == "2\n"
    marked = PROGRAM.replace("    assert", "    anyshape.mark_static(x, 0)\n    assert")
    assert run(marked) == "3\n"
    assert run(PROGRAM.replace("compile(f)", "compile(f, dynamic=False)")) == "3\n"
