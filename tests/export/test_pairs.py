"""Every kind of spec against every relation of sizes: right inside, refused outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape import Dim, Shapes
from anyshape.errors import ExportInputError
from anyshape.shapes import DimExpr
from tests.export.pairs import PAIRS, Pair, divisible


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_right_inside_and_refused_outside(pair: Pair, tmp_path: Path):
    torch.manual_seed(0)
    exported = anyshape.export(pair.function, pair.make(*pair.inside[0]), dynamic_shapes=pair.spec)
    exported.save(tmp_path / "package.zip")
    loaded = anyshape.load(tmp_path / "package.zip")
    assert len(pair.inside) == 5
    for sizes in pair.inside:
        args = pair.make(*sizes)
        expected = pair.function(*args)
        for program in (exported, exported.graph_module, loaded):
            torch.testing.assert_close(program(*args), expected)
    refused: list[tuple[Any, ...]] = [pair.make(*sizes) for sizes in pair.outside]
    if not refused:  # every size is inside: what is left is another kind of tensor
        good = pair.make(*pair.inside[0])
        refused = [(good[0][None], *good[1:]), (good[0].double(), *good[1:])]
    assert len(refused) == 2
    for args in refused:
        for program in (exported, loaded):
            with pytest.raises(ExportInputError):
                program(*args)


#: What a spec is made of: every program has to meet each of these.
KINDS: dict[str, Callable[[Any], bool]] = {
    "a dim": lambda item: isinstance(item, Dim),
    "a size computed of a dim": lambda item: type(item) is DimExpr or "*" in str(item),
    "a word": lambda item: isinstance(item, str),
    "AUTO": lambda item: item is Dim.AUTO,
    "DYNAMIC": lambda item: item is Dim.DYNAMIC,
    "STATIC or nothing": lambda item: item in (None, Dim.STATIC),
    "an int": lambda item: type(item) is int,
}


def items_of(spec: Any) -> Iterator[Any]:
    match spec:
        case Shapes():
            yield from items_of(spec.spec)
        case dict():
            for item in spec.values():
                yield from items_of(item)
        case tuple() | list():
            for item in spec:
                yield from items_of(item)
        case _:
            yield spec


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_every_kind_of_spec_for_every_program(kind: str):
    programs = {pair.function for pair in PAIRS}
    if kind == "DYNAMIC":
        programs -= {divisible}  # any size at all is what it cannot do
    met = {pair.function for pair in PAIRS if any(map(KINDS[kind], items_of(pair.spec)))}
    assert met == programs


def test_the_table_is_as_large_as_promised():
    assert len(PAIRS) >= 60
    assert len({pair.function for pair in PAIRS}) == 7
    related = {pair.function for pair in PAIRS if isinstance(pair.spec, Shapes)}
    assert len(related) == 7
