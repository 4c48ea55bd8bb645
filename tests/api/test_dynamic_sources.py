"""`config.dynamic_sources`: names that stand above everything, and are never an error."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import config
from anyshape.capture.source_use import SourceUse
from tests import forks


class Scaled(nn.Module):
    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))
        self.wide = nn.Parameter(torch.rand(4))
        self.register_buffer("shift", torch.rand(4))
        self.kept = torch.rand(4)
        self.times = 3

    def forward(self, x: Tensor, n: int) -> Tensor:
        return (x * self.weight * self.wide + self.shift * self.times + self.kept) * n


def dynamic_with(sources: str) -> list[str]:
    with config.patch(dynamic_sources=sources):
        compiled: Any = anyshape.compile(Scaled())
        compiled(torch.rand(2, 4), 5)
    return [symbol.source for symbol in compiled.entries[0].symbols.values()]


NAMED = [
    ("L['x']", ["L['x'].size()[0]", "L['x'].size()[1]"]),
    ("L['x']:0", ["L['x'].size()[0]"]),
    ("L['n']", ["L['n']"]),
    ("L['n'],L['x']:1", ["L['n']", "L['x'].size()[1]"]),
    ("L['self'].times", ["L['self'].times"]),
    ("L['self']._parameters['weight']", ["L['self']._parameters['weight'].size()[0]"]),
    (
        r"L['self']._parameters\['w.*'\]",
        [
            "L['self']._parameters['weight'].size()[0]",
            "L['self']._parameters['wide'].size()[0]",
        ],
    ),
    (r"L\['self'\]._parameters\['w.{1,3}'\]", ["L['self']._parameters['wide'].size()[0]"]),
    ("L['self']._buffers['shift']", ["L['self']._buffers['shift'].size()[0]"]),
    ("L['self'].kept", ["L['self'].kept.size()[0]"]),
    ("L[\u2018n\u2019],L[\u2018x\u2019]:0", ["L['n']", "L['x'].size()[0]"]),
    ("L['y'],L['x']:7,*,([", []),
]


@pytest.mark.parametrize(("sources", "expected"), NAMED)
def test_what_a_list_names(sources: str, expected: list[str]) -> None:
    assert sorted(dynamic_with(sources)) == sorted(expected)


def test_a_listed_source_that_the_program_fixes_is_no_error() -> None:
    @anyshape.compile
    def f(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 8 else x

    x = torch.rand(8)
    anyshape.mark_dynamic(x, 0)
    with config.patch(dynamic_sources="L['x']"):
        torch.testing.assert_close(f(x), x * 2)


def test_the_list_stands_above_mark_static_and_dynamic_false() -> None:
    @anyshape.compile(dynamic=False)
    def f(x: Tensor) -> Tensor:
        return x * x.shape[0]

    with config.patch(dynamic_sources="L['x']"):
        for size in (3, 4, 5):
            x = torch.rand(size)
            anyshape.mark_static(x)
            torch.testing.assert_close(f(x), x * size)
    assert f.stats().graphs == 1


# -- names that fit nothing ------------------------------------------------------------------------


def test_unused_names_are_reported_once() -> None:
    use = SourceUse()
    listed = "L['x'],L['y'],L['z']:3"
    use.meet(listed, "L['x']", 2)
    use.meet(listed, "L['z']", 2)
    assert use.unused == ["L['y']", "L['z']:3"]
    with pytest.warns(UserWarning, match="no compiled function has it") as warned:
        use.report()
    assert len(warned) == 2
    use.report()
    use.meet(listed, "L['z']", 2)
    assert use.unused == []


def test_a_name_that_fits_later_is_not_reported() -> None:
    use = SourceUse()
    use.meet("L['y']", "L['x']", 1)
    use.meet("L['y']", "L['y']", None)
    assert use.unused == []
    use.report()


def test_nothing_is_kept_without_a_list() -> None:
    use = SourceUse()
    use.meet("", "L['x']", 1)
    assert use.unused == []


SCRIPT = """
    import anyshape, torch

    @anyshape.compile
    def f(x, n):
        return x * n

    for size in (3, 4, 5):
        f(torch.ones(size), size)
    print("graphs", f.stats().graphs)
    print(f.explain().unused_sources)
"""


@pytest.mark.parametrize("variable", ["ANYSHAPE_DYNAMIC_SOURCES", "TORCH_COMPILE_DYNAMIC_SOURCES"])
def test_both_environment_variables(variable: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    run = forks.run([str(script)], tmp_path, {variable: "L['x'],L['n'],L['xx']"})
    assert run.returncode == 0, run.stderr
    assert "graphs 1" in run.stdout
    assert "\"L['xx']\"" in run.stdout
    assert run.stderr.count("L['xx']: config.dynamic_sources names it") == 1
    assert "did you mean L['x']" in run.stderr
