"""Every kind of spec against every relation of sizes: right inside, refused outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape.errors import ExportInputError
from tests.export.pairs import PAIRS, Pair


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


def test_the_table_is_as_large_as_promised():
    assert len(PAIRS) >= 60
