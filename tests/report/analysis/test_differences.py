"""Ranks and runs side by side: numbers, causes, and what is there once only."""

from __future__ import annotations

from pathlib import Path

from anyshape.events.kinds import Event, GraphBreak
from anyshape.explain.report import compare_folders, run_names
from anyshape.explain.report.analysis.differences import Side, compare_sides
from anyshape.explain.report.analysis.ranks import by_rank, by_run, launches
from anyshape.explain.trace_model import read_trace
from tests.report.made import Place, compile_of, many, written
from tests.report.recordings import processes_of


def compiles(name: str, count: int, frame: int = 0) -> list[Event]:
    return [e for n in range(count) for e in compile_of(name, frame, n, size=n + 2)]


def test_ranks_of_a_real_run():
    (launch,) = launches(processes_of("ranks"))
    compared = compare_sides(by_rank(launch))
    assert [side.name for side in compared.sides] == ["rank 0", "rank 1"]
    step, loss = compared.functions
    assert (step.name, loss.name, loss.differing) == ("step", "loss", ["seconds"])
    assert [tally and tally.compiles for tally in step.tallies] == [1, 2]
    assert {"compiles", "recompiles", "graphs", "causes"} <= set(step.differing)
    (cause,) = step.causes
    assert (cause.kind, list(cause.counts)) == ("recompile", [0, 1])


def test_what_appeared_vanished_and_changed(tmp_path: Path):
    before = written(
        tmp_path / "a", compiles("f", 3) + compiles("gone", 1, 1) + compiles("g", 2, 2)
    )
    after = written(tmp_path / "b", compiles("f", 1) + compiles("g", 2, 1) + compiles("new", 1, 2))
    compared = compare_folders(run_names([before, after]))
    assert [side.name for side in compared.sides] == ["a", "b"]
    found = {each.name: each for each in compared.functions}
    assert [t and t.recompiles for t in found["f"].tallies] == [2, 0]
    assert "recompiles" in found["f"].differing
    assert found["gone"].tallies[1] is None
    assert found["new"].tallies[0] is None
    assert found["gone"].differing[0] == found["new"].differing[0] == "absent"
    assert found["g"].differing == []
    assert compared.functions[-1].name == "g"
    assert [total.compiles for total in compared.totals] == [6, 4]


def test_causes_are_the_same_whatever_the_sizes_were(tmp_path: Path):
    """Three recompiles for three sizes, and one for another size: one cause, more or less often."""
    for name, count in (("a", 4), ("b", 2)):
        written(tmp_path / name, compiles("f", count))
    compared = compare_folders(run_names([tmp_path / "a", tmp_path / "b"]))
    (cause,) = compared.functions[0].causes
    assert list(cause.counts) == [3, 1]


def test_other_reasons_alone_are_a_difference(tmp_path: Path):
    place = Place("model.py", 11, "f")
    for name in ("a", "b"):
        told = compile_of("f", 0, 0, size=3)
        told.insert(-2, GraphBreak(f"reason {name}", place, compile_id="0/0"))
        written(tmp_path / name, told)
    compared = compare_folders(run_names([tmp_path / "a", tmp_path / "b"]))
    assert compared.functions[0].differing == ["causes"]


def test_an_edited_and_moved_program_is_the_same_program(tmp_path: Path):
    (old,), _ = read_trace(many(tmp_path / "a", 1, 1))
    (new,), _ = read_trace(many(tmp_path / "b", 1, 1))
    new.functions[0].file, new.functions[0].line = "/elsewhere/model.py", 99
    compared = compare_sides([Side("old", [old]), Side("new", [new])])
    assert len(compared.functions) == 1
    assert compared.functions[0].line == 99


def test_two_functions_of_one_name_go_by_their_order(tmp_path: Path):
    for name, count in (("a", 2), ("b", 2)):
        written(tmp_path / name, [e for n in range(count) for e in compiles("<lambda>", 1, n)])
    compared = compare_folders(run_names([tmp_path / "a", tmp_path / "b"]))
    assert len(compared.functions) == 2
    assert not any(each.differing for each in compared.functions)


def test_runs_of_one_folder_are_compared_too(tmp_path: Path):
    for rank in (0, 1, 0, 1):
        written(tmp_path, compiles("f", 1), rank)
    processes, _ = read_trace(tmp_path)
    sides = by_run(launches(processes))
    assert [(side.name, len(side.processes)) for side in sides] == [("run 1", 2), ("run 2", 2)]


def test_folders_of_the_same_name_go_by_their_paths(tmp_path: Path):
    folders = [tmp_path / "a" / "trace", tmp_path / "b" / "trace"]
    assert list(run_names(folders)) == [str(each) for each in folders]
    assert list(run_names(["x/../old", "new/"])) == ["old", "new"]
    assert list(run_names(["one"])) == [""]
