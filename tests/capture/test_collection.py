"""The collector of garbage, which captures do without: a program finds it as it left it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import anyshape


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    gc.collect()
    yield
    gc.unfreeze()
    gc.enable()


class _Node:
    def __init__(self) -> None:
        self.me = self


def _many(x: Tensor) -> Tensor:
    for _ in range(30):
        x = x.sin() * 2
    return x


def test_nothing_stays_aside() -> None:
    for number in range(20):
        node = _Node()
        seen = weakref.ref(node)
        del node
        anyshape.compile(lambda x, n=number: x + n)(torch.ones(3))
        assert gc.isenabled()
        assert not gc.get_freeze_count()
        gc.collect()
        assert seen() is None


@pytest.mark.parametrize("is_on", [True, False])
def test_what_the_program_has_set_aside_stays(is_on: bool) -> None:
    gc.freeze()
    if not is_on:
        gc.disable()
    count = gc.get_freeze_count()
    assert count
    compiled = anyshape.compile(_many)
    for rows in (2, 3, 4):
        compiled(torch.ones(rows))
    assert gc.isenabled() == is_on
    # A few of them have been let go of since.
    assert gc.get_freeze_count() > count * 0.9


def test_no_call_looks_through_everything() -> None:
    """Though it would be time to, by what the collector goes by."""
    seen: list[int] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        seen.append(info["generation"])

    gc.callbacks.append(collected)
    try:
        gc.disable()
        kept = [[[]] for _ in range(400_000)]
        for _ in range(gc.get_threshold()[2] + 1):
            gc.collect(1)
        seen.clear()
        gc.enable()
        compiled = anyshape.compile(_many, dynamic=True)
        compiled(torch.ones(3))
        assert 2 not in seen
        assert len(kept) == 400_000
    finally:
        gc.callbacks.remove(collected)


def test_a_program_that_goes_on_by_itself_finds_it() -> None:
    found: list[tuple[bool, int]] = []

    @anyshape.disable
    def look() -> None:
        found.append((gc.isenabled(), gc.get_freeze_count()))

    @anyshape.compile
    def program(x: Tensor) -> Tensor:
        y = x * 2
        look()
        return y + 1

    for rows in (2, 3, 4):
        program(torch.ones(rows))
    assert set(found) == {(True, 0)}
