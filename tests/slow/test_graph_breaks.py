"""All programs of `tests/graph_breaks/`, with native code as well, and many more random ones."""

from __future__ import annotations

import pytest

from tests.api.conftest import fresh
from tests.graph_breaks.coverage import judge
from tests.graph_breaks.programs import PROGRAMS
from tests.graph_breaks.random_programs import program
from tests.graph_breaks.test_programs import SAMPLE
from tests.graph_breaks.twins import run_twins

__all__ = ["fresh"]

_AT_ONCE = 25


#: What `tests/graph_breaks/test_programs.py` does not run.
_RUNS = [
    (name, dynamic)
    for name in PROGRAMS
    for dynamic in (None, True)
    if dynamic or name not in SAMPLE
]


@pytest.mark.parametrize(("name", "dynamic"), _RUNS)
def test_does_as_eager_does(name: str, dynamic: bool | None) -> None:
    # Both backends in turn: one gives the bits of eager, the other what people run.
    run_twins(PROGRAMS[name], dynamic=dynamic, backend="native" if dynamic else "eager")


def test_compiled_around_what_cannot_be_traced() -> None:
    judged = [judge(each) for each in PROGRAMS.values()]
    one_sided = [str(each) for each in judged if not each.on_both_sides]
    assert len(one_sided) <= 0.07 * len(judged), "\n".join(one_sided)
    unsettled = [str(each) for each in judged if not each.is_settled]
    assert len(unsettled) <= 0.12 * len(judged), "\n".join(unsettled)


@pytest.mark.parametrize("first", range(1000, 1300, _AT_ONCE))
def test_random_programs_do_as_eager_does(first: int) -> None:
    for seed in range(first, first + _AT_ONCE):
        # Both backends in turn: one gives the bits of eager, the other what people run.
        run_twins(program(seed), backend=("eager", "native")[seed % 2])


#: Programs that differed once.
_FOUND = (1313, 3064, 3194, 3428, 4743)


@pytest.mark.parametrize("seed", _FOUND)
def test_random_programs_that_once_differed(seed: int) -> None:
    for backend in ("eager", "native"):
        run_twins(program(seed), backend=backend)
