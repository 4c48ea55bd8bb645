"""`anyshape.metrics()`: what functions did, each and together, and as Prometheus reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape.config import config
from anyshape.runtime.loader.workers import workers


@pytest.fixture(autouse=True)
def _fresh(own_counts: None) -> Iterator[None]:
    with torch.no_grad():
        yield


def scaled(x: Tensor) -> Tensor:
    return x.sin() * x.shape[0]


def by_size(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 5 else x * 3


def test_functions_and_their_sum():
    one, other = anyshape.compile(scaled, dynamic=True), anyshape.compile(by_size, dynamic=True)
    for size in (2, 3, 4, 9):
        one(torch.ones(size))
        other(torch.ones(size))
    found = anyshape.metrics()
    first, second = found.functions["scaled"], found.functions["by_size"]
    assert (first.compiles, first.recompiles, first.hits, first.graphs) == (1, 0, 3, 1)
    assert (second.compiles, second.recompiles, second.hits, second.graphs) == (2, 1, 2, 2)
    assert found.total.hits == 5
    assert found.total.compile_seconds == pytest.approx(
        first.compile_seconds + second.compile_seconds
    )
    assert found.total.compiles == anyshape.stats().captures


def test_functions_of_one_name_have_a_row_each_that_outlives_them():
    for hits in (1, 2):
        compiled = anyshape.compile(scaled, dynamic=True, name="shared")
        for size in range(hits + 1):
            compiled(torch.ones(size))
        del compiled
    found = anyshape.metrics().functions
    first, second = found["shared"], found["shared#2"]
    assert (first.compiles, first.hits, first.number) == (1, 1, 1)
    assert (second.compiles, second.hits, second.number) == (1, 2, 2)
    assert first.name == second.name == "shared"
    assert first.where == second.where == f"test_metrics.py:{scaled.__code__.co_firstlineno}"


def test_modules_of_one_class():
    layers = [anyshape.compile(torch.nn.Linear(3, 3), dynamic=True) for _ in range(3)]
    for calls, layer in enumerate(layers, start=1):
        for size in range(calls):
            layer(torch.ones(size + 2, 3))
    found = anyshape.metrics().functions
    assert [found[name].hits for name in ("Linear", "Linear#2", "Linear#3")] == [0, 1, 2]
    assert found["Linear"].where.startswith("linear.py:")


def test_a_name_that_reads_like_a_key():
    functions = [
        anyshape.compile(scaled, dynamic=True, name=name) for name in ("a", "a#2", "a", "a")
    ]
    for function in functions:
        function(torch.ones(2))
    rows = anyshape.metrics().functions.values()
    assert [(row.name, row.number, row.compiles) for row in rows] == [
        ("a", 1, 1),
        ("a", 2, 1),
        ("a", 3, 1),
        ("a#2", 1, 1),
    ]


def test_functions_without_end_share_a_row():
    for _ in range(103):
        anyshape.compile(scaled, backend="eager", dynamic=True)(torch.ones(2))
    found = anyshape.metrics()
    assert len(found.functions) == 101
    assert found.functions["scaled#100"].compiles == 1
    rest = found.functions["scaled#101"]
    assert (rest.compiles, rest.where) == (3, "")
    assert found.total.compiles == 103


def test_what_takes_the_place_of_a_function_has_its_row():
    """A module that gets a hook is compiled anew, and stays one row."""
    model = anyshape.compile(torch.nn.Linear(3, 3), dynamic=True)
    model(torch.ones(2, 3))
    model.register_forward_hook(lambda module, args, result: None)
    model(torch.ones(2, 3))
    model(torch.ones(4, 3))
    [row] = anyshape.metrics().functions.values()
    assert (row.name, row.compiles) == ("Linear", 2)


def test_eager_calls_and_breaks():
    @anyshape.compile(dynamic=True)
    def broken(x: Tensor) -> Tensor:
        y = x.sin()
        print("now", end="")
        anyshape.graph_break()
        return y.cos()

    for size in (2, 3, 4):
        broken(torch.ones(size))
    name = broken._function.target.name
    found = anyshape.metrics().functions[name]
    assert found.graph_breaks == broken.stats().graph_breaks > 0
    assert found.eager_calls == broken.stats().eager_calls
    compiled = {n for n, each in anyshape.metrics().functions.items() if each.compiles}
    assert compiled == {name}, "parts belong to their function"


def test_what_is_forgotten_keeps_its_name():
    compiled = anyshape.compile(scaled, dynamic=True, name="forgotten")
    compiled(torch.ones(2))
    anyshape.reset()
    assert anyshape.metrics().functions["forgotten"].compiles == 0
    compiled(torch.ones(2))
    assert anyshape.metrics().functions["forgotten"].compiles == 1


def test_native_code_is_counted(tmp_path_factory: pytest.TempPathFactory):
    def fresh(x: Tensor) -> Tensor:
        return (x.exp() * 3.25).sin() + 0.125

    with config.patch(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        before = anyshape.metrics().native
        anyshape.compile(fresh, dynamic=True)(torch.ones(2))
        workers.finish()
        built = anyshape.metrics().native
        anyshape.compile(fresh, dynamic=True)(torch.ones(2))
        again = anyshape.metrics().native
    assert built.builds > before.builds
    assert built.build_seconds > before.build_seconds
    assert again.builds == built.builds
    assert again.cache_hits_local > built.cache_hits_local


TEXT = r'"([^"\\\n]|\\.)*"'
LINE = re.compile(
    rf"anyshape_[a-z_]+_total(\{{function={TEXT},where={TEXT},number={TEXT}\}})? [0-9.e+-]+"
)


def test_prometheus():
    compiled = anyshape.compile(scaled, dynamic=True, name='odd "name"\\ of\ntwo lines')
    for size in (2, 3):
        compiled(torch.ones(size))
    text = anyshape.metrics().prometheus()
    assert text.endswith("\n")
    lines = text.splitlines()
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds)) == 17
    for line in lines:
        assert line.startswith(("# HELP anyshape_", "# TYPE anyshape_")) or LINE.fullmatch(line)
    where = f"test_metrics.py:{scaled.__code__.co_firstlineno}"
    labels = f'function="odd \\"name\\"\\\\ of\\ntwo lines",where="{where}",number="1"'
    assert f"anyshape_hits_total{{{labels}}} 1" in lines
    names = {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")}
    assert names == set(kinds)


def test_no_series_stands_twice():
    """A scrape in which one does is refused whole."""
    for dynamic in (True, False):
        anyshape.compile(scaled, dynamic=dynamic)(torch.ones(2))
    lines = anyshape.metrics().prometheus().splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))
    assert len([each for each in series if each.startswith("anyshape_hits_total")]) == 2


def test_exported_programs_are_counted():
    exported = anyshape.export(scaled, (torch.ones(2),), dynamic_shapes={"x": ("n",)})
    for size in (2, 3, 4):
        exported(torch.ones(size))
    assert anyshape.metrics().total.hits == 2


def test_packages_are_told_apart_by_their_files(tmp_path: Path):
    """One of them is loaded twice, as by a service that takes a new version while it runs."""
    exported = anyshape.export(scaled, (torch.ones(2),), dynamic_shapes={"x": ("n",)})
    exported(torch.ones(2))
    for file in ("a.zip", "b.zip"):
        exported.save(tmp_path / file)
    for file in ("a.zip", "b.zip", "a.zip"):
        loaded = anyshape.load(tmp_path / file)
        loaded(torch.ones(2))
        loaded(torch.ones(3))
    rows = anyshape.metrics().functions.values()
    found = {(each.name, each.where, each.number) for each in rows}
    files = ("", "a.zip", "b.zip", "a.zip")
    assert found == {("scaled", file, number) for number, file in enumerate(files, start=1)}
    assert "eval_with_key" not in anyshape.metrics().prometheus()
