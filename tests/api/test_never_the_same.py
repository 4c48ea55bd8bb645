"""What a program reads and never finds as it was: no compile after compile, and no entries that are
asked in vain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import anyshape
from tests import devices

HISTORY: list[float] = []
CACHE: dict[int, torch.Tensor] = {}
SEEN: set[int] = set()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    for each in (HISTORY, CACHE, SEEN):
        each.clear()
    yield
    for each in (HISTORY, CACHE, SEEN):
        each.clear()


def history(x: torch.Tensor, i: int) -> torch.Tensor:
    y = x * 2 + 1
    HISTORY.append(float(y.sum()))
    if len(HISTORY) > 5:
        HISTORY.pop(0)
    return y / (max(HISTORY) + 100)


def cache(x: torch.Tensor, i: int) -> torch.Tensor:
    y = x * 2
    CACHE[i] = y.sum()
    return y * len(CACHE)


def members(x: torch.Tensor, i: int) -> torch.Tensor:
    SEEN.add(i % 7)
    return x * 2 + len(SEEN)


def class_in_function(x: torch.Tensor, i: int) -> torch.Tensor:
    class Pair:
        def __init__(self, first: torch.Tensor) -> None:
            self.first = first

    pair = Pair(x * 2)
    return pair.first + 1


def values(x: torch.Tensor, i: int) -> torch.Tensor:
    total = 0.0
    for value in x[:, 0].tolist():
        if value > 0:
            total += value
    return x * total


def run(function: Callable[..., Any], called: Callable[..., Any]) -> list[torch.Tensor]:
    for each in (HISTORY, CACHE, SEEN):
        each.clear()
    made = devices.generator(0)
    return [called(torch.randn(3 + i % 4, 2, generator=made), i) for i in range(60)]


#: How many graphs are enough. Ways that depend on data are tried before the function is split.
FUNCTIONS = {history: 12, cache: 12, members: 12, class_in_function: 6, values: 140}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_the_function_is_split_where_it_reads_it(function: Callable[..., Any]) -> None:
    compiled = anyshape.compile(function)
    wanted, given = run(function, function), run(function, compiled)
    for a, b in zip(wanted, given, strict=True):
        torch.testing.assert_close(a, b)
    stats = compiled.stats()
    assert 0 < stats.graphs <= FUNCTIONS[function]
    before = compiled.stats().graphs
    run(function, compiled)
    assert compiled.stats().graphs == before


def test_one_graph_is_wanted() -> None:
    """With `fullgraph=True` a break is an error, so that there is none for the sake of speed."""
    compiled = anyshape.compile(cache, fullgraph=True)
    for i in range(8):
        compiled(torch.ones(3, 2), i)
    assert compiled.stats().graph_breaks == 0


def test_entries_that_never_served_are_not_asked_for_ever() -> None:
    def function(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x * 2 if mode.startswith("a") else x + 1

    compiled = anyshape.compile(function)
    x = torch.ones(3)
    with anyshape.config.patch(recompile_limit=4), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(4):
            compiled(x, f"a{i}")
        compiled(x, "a1")
        for i in range(300):
            assert torch.equal(compiled(x, f"b{i}"), x + 1)
        hits = compiled.stats().hits
        # The one that did serve is asked; the others' calls are right without a graph.
        for i in range(4):
            assert torch.equal(compiled(x, f"a{i}"), x * 2)
    assert compiled.stats().hits == hits + 1
    assert len(compiled.entries) == 4
