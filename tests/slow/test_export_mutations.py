"""More random programs of views and writes, exported: functional or not, they are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.export.mutating_programs import wrong


@pytest.mark.parametrize("first", range(250, 400, 50))
def test_random_programs(first: int, tmp_path: Path) -> None:
    outcomes = [wrong(seed, tmp_path) for seed in range(first, first + 50)]
    assert [text for text, _ in outcomes if text] == []
    functional = sum(what == "functional" for _, what in outcomes)
    assert functional > 35
