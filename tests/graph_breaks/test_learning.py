"""How soon a split function is through with compiling, and that it gets there at all."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from tests.graph_breaks.opaque import opaque, opaque_number


def _compiled(function: Callable[..., Any]) -> Any:
    return anyshape.compile(function, backend="eager")


def test_one_call_finds_all_boundaries_on_its_way() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        opaque("first", y)
        y = y.relu() - 1
        opaque_number(y)
        y = y * 3 + 2
        time.perf_counter()
        y = y.abs() - 4
        opaque("last", y)
        return y * 5 + 6

    compiled = _compiled(function)
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(size)), function(torch.ones(size)))
    captures = compiled.stats().captures
    assert compiled.stats().boundaries == 4
    for size in (3, 6, 7):
        assert torch.equal(compiled(torch.ones(size)), function(torch.ones(size)))
    assert compiled.stats().captures == captures
    assert compiled.stats().graphs == 5


def test_what_is_never_the_same_is_read_between_regions() -> None:
    kept: list[Any] = []

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        kept.append(opaque_number(y))
        z = y.relu() - len(kept)
        return z * 2 + 1

    compiled = _compiled(function)
    for call in range(30):
        expected = (torch.ones(3 + call % 4) * 3 - call - 1) * 2 + 1
        assert torch.equal(compiled(torch.ones(3 + call % 4)), expected)
    settled = compiled.stats()
    assert settled.graphs <= 8
    for _ in range(10):
        compiled(torch.ones(3))
    assert compiled.stats().captures == settled.captures


def test_floats_and_texts_of_plain_code_do_not_compile_anew() -> None:
    def function(x: Tensor) -> tuple[Tensor, bool, str]:
        start = time.perf_counter()
        y = (x * 2 + 1).relu()
        took = time.perf_counter() - start
        y = y * took - took
        text = opaque("text", f"{took}")
        return y * 2 + 1, took < 100, text

    compiled = _compiled(function)
    for call in range(12):
        y, quick, text = compiled(torch.ones(3 + call % 3))
        assert quick is True
        assert torch.equal(y, (torch.full_like(y, 3) * float(text) - float(text)) * 2 + 1)
    captures = compiled.stats().captures
    for call in range(10):
        compiled(torch.ones(3 + call % 3))
    assert compiled.stats().captures == captures
    assert compiled.stats().graphs <= 8


def test_calls_that_raise_teach_as_others_do() -> None:
    def function(x: Tensor, fails: bool) -> Tensor:
        y = x * 2 + 1
        opaque("between", y)
        if fails:
            raise ValueError(len(y))
        return y.relu() - 1

    compiled = _compiled(function)
    for size in (3, 4, 5):
        with pytest.raises(ValueError, match=str(size)):
            compiled(torch.ones(size), True)
    assert compiled.stats().in_parts
    assert compiled.stats().graphs == 1


def test_operations_with_wrong_sizes_are_no_boundaries() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        z = x * 2 + 1
        return (z @ y).relu() - 1

    compiled = _compiled(function)
    for size in (3, 4, 5):
        with pytest.raises(RuntimeError):
            compiled(torch.ones(2, size), torch.ones(size + 1, 2))
    for size in (3, 4, 5):
        compiled(torch.ones(2, size), torch.ones(size, 2))
    assert not compiled.stats().in_parts
    assert compiled.stats().graphs == 2


def test_a_region_with_nothing_to_do_in_one_branch_keeps_its_graphs() -> None:
    def function(x: Tensor, early: bool) -> Tensor:
        y = x * 2 + 1
        opaque("before", y)
        if early:
            return y.relu() * 2
        opaque("after", y)
        return y - 1

    compiled = _compiled(function)
    for call in range(8):
        x, early = torch.ones(3 + call % 3), call % 2 == 0
        assert torch.equal(compiled(x, early), function(x, early))
    captures, hits = compiled.stats().captures, compiled.stats().hits
    for call in range(6):
        compiled(torch.ones(3 + call), call % 2 == 0)
    assert compiled.stats().captures == captures
    assert compiled.stats().hits == hits + 12


def test_stretches_of_sequences_are_compiled() -> None:
    class Waits(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            opaque("waits", len(x))
            return x

    def block(width: int, *more: torch.nn.Module) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(width, 4), torch.nn.GELU(), *more)

    model = torch.nn.Sequential(block(4), block(4, Waits()), block(4), block(4), Waits())
    compiled = _compiled(model)
    for size in (3, 4, 5, 6):
        x = torch.ones(size, 4)
        torch.testing.assert_close(compiled(x), model(x))
    before = compiled.stats()
    compiled(torch.ones(7, 4))
    after = compiled.stats()
    assert after.captures == before.captures
    # The first block; the second up to where it waits; the third with the fourth.
    assert after.hits == before.hits + 3


class Scaled:
    """An object that is called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor, scale: float = 2.0) -> Tensor:
        y = x * scale + 1
        self.calls += 1
        opaque("called", self.calls)
        return y.relu() - 1


def test_objects_and_partials_run_in_parts() -> None:
    for given in ({}, {"scale": 3.0}):
        made = Scaled()
        compiled = _compiled(functools.partial(made, **given) if given else made)
        for size in (3, 4, 5, 6):
            expected = torch.full((size,), given.get("scale", 2.0))
            assert torch.equal(compiled(torch.ones(size)), expected)
        assert compiled.stats().graphs == 2
        assert made.calls == 4


@pytest.mark.skipif(not hasattr(functools, "Placeholder"), reason="of Python 3.14")
def test_placeholders_of_partials() -> None:
    place = getattr(functools, "Placeholder")  # noqa: B009 older versions have none
    made = Scaled()
    compiled = _compiled(functools.partial(made, place, 3.0))
    for size in (3, 4, 5, 6):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 3.0))
    assert made.calls == 4
