"""Ranks side by side, those that diverged first."""

from __future__ import annotations

from pathlib import Path

from anyshape.explain.report.analysis.ranks import compare, launches
from anyshape.explain.trace_model import read_trace
from tests.report.made import compile_of, written
from tests.report.recordings import processes_of


def test_divergence_first():
    (launch,) = launches(processes_of("ranks"))
    step, loss = compare(launch)
    assert (step.name, step.first_divergence) == ("step", 0)
    assert "sizes" in step.steps[0].differing
    assert step.steps[1].differing == ["absent"]
    assert [cell is None for cell in step.steps[1].cells] == [True, False]
    assert (loss.name, loss.first_divergence) == ("loss", None)
    assert step.steps[0].collectives[0] is not None


def test_one_process_is_compared_with_nothing():
    assert compare(processes_of("module")) == []


def test_two_runs_in_one_folder_are_two_launches(tmp_path: Path):
    for rank in (0, 1, 0, 1, None, None):
        written(tmp_path, compile_of("f", 0, 0, size=3), rank)
    processes, _ = read_trace(tmp_path)
    ranks = sorted([p.rank for p in launch] for launch in launches(processes) if len(launch) > 1)
    assert ranks == [[0, 1], [0, 1]]
    assert len(launches(processes)) == 4


def test_the_same_ways_on_all_ranks(tmp_path: Path):
    for rank in (0, 1):
        written(tmp_path, compile_of("f", 0, 0, size=3), rank)
    processes, _ = read_trace(tmp_path)
    (compared,) = compare(processes)
    assert compared.first_divergence is None
