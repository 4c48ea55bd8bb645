"""Random programs with calls that cannot be traced do as eager does, effects in order. More of them
are in `tests/slow/test_graph_breaks.py`."""

from __future__ import annotations

import pytest

from tests.graph_breaks.random_programs import program, source_of
from tests.graph_breaks.twins import run_twins

_CALLS = 4


def test_a_seed_gives_one_program() -> None:
    assert source_of(7) == source_of(7)
    assert source_of(7) != source_of(8)


@pytest.mark.parametrize("seed", range(150))
def test_does_as_eager_does(seed: int) -> None:
    # Graphs of operators: what is tested is the order in which things happen.
    run_twins(program(seed), _CALLS, backend="eager")
