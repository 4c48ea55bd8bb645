"""Real programs that depend on data: right over many random calls, with few graphs."""

from __future__ import annotations

import pytest

from tests.data_dependent.programs import (
    MIXTURE,
    MIXTURE_MODULE,
    PROGRAMS,
    Program,
    run_twins,
)

#: Why a program is right, but with more graphs than it should need.
TOO_MANY: dict[str, str] = {
    "COO values": "a sparse result whose parts are not dense: the function runs in parts",
}


pytestmark = pytest.mark.usefixtures("strict")


def _cases(known: dict[str, str]) -> list[object]:
    """All programs, those in `known` as failing ones."""
    return [
        pytest.param(
            program,
            id=program.name,
            marks=[pytest.mark.xfail(reason=known[program.name], strict=True)]
            if program.name in known
            else [],
        )
        for program in (*PROGRAMS, MIXTURE_MODULE)
    ]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_is_right(program: Program, dynamic: bool | None) -> None:
    run_twins(program, dynamic)


@pytest.mark.parametrize("program", _cases(TOO_MANY))
def test_graphs_are_bounded(program: Program) -> None:
    compiled = run_twins(program, True, first_seed=1000)
    stats = compiled.stats()
    assert stats.graphs <= program.most_graphs
    # What grows too much runs as plain Python, with what it calls compiled.
    assert stats.eager_calls == 0 or compiled.explain().parts


@pytest.mark.parametrize("dynamic", [None, True])
def test_one_of_everything(dynamic: bool | None) -> None:
    """Two branches make three ways; each is captured once for each entry that goes it."""
    stats = run_twins(MIXTURE, dynamic).stats()
    assert stats.eager_calls == 0
    assert stats.graphs <= (6 if dynamic else MIXTURE.most_graphs)
    assert stats.captures <= (3 if dynamic else 5)
    # A call is captured or served: one that was undone is counted where it was made again.
    assert stats.captures + stats.hits == MIXTURE.calls
