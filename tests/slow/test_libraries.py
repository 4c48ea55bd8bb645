"""Models of other libraries, compiled: right at six pairs of sizes, captured whole, and trained as
eager trains them.

A sample of the rows is tried. `ANYSHAPE_LIBRARY_MODELS=all` tries all of them, and
`ANYSHAPE_LIBRARY_STEPS=8` takes eight steps of training instead of three. `make docs` writes what
the whole table gives into docs/models.md.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
import torch

import anyshape
from tests.zoo.libraries import DEFECTS, IN_PARTS, LIBRARIES, rows
from tests.zoo.models import Row
from tests.zoo.trial import Trial, trained, tried

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    # Of the libraries themselves, when they are imported and when their models are built.
    pytest.mark.filterwarnings("default"),
]

#: One of so many rows is tried, unless all are asked for.
_EVERY: Final = 1 if os.environ.get("ANYSHAPE_LIBRARY_MODELS") == "all" else 3
_STEPS: Final = int(os.environ.get("ANYSHAPE_LIBRARY_STEPS", "3"))
_RATE: Final = 1e-4


@pytest.fixture(name="fresh")
def _fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False):
        yield
    anyshape.reset()


def rows_of(library: str) -> tuple[Row, ...]:
    try:
        return rows(library)
    except ImportError as error:
        pytest.skip(f"{library} is not installed (make test-slow brings it): {error}")


def judged(trial: Trial) -> list[str]:
    """What is wrong with a trial, in words."""
    expected = trial.model in IN_PARTS
    defects = [text for text in trial.defects if not text.startswith(tuple(DEFECTS))]
    found = [*trial.problems, *(f"defect: {text}" for text in defects)]
    if trial.in_parts or trial.eager_calls or not trial.graphs:
        if not expected:
            found += ["not captured whole", *trial.broke[:3], *trial.ran_eagerly[:3]]
    elif expected:
        found.append("captured whole: its row of IN_PARTS can go")
    return [f"{trial.model}: {line}" for line in found]


@pytest.mark.parametrize("library", LIBRARIES)
def test_right_and_whole(library: str) -> None:
    wrong: list[str] = []
    for row in rows_of(library)[::_EVERY]:
        anyshape.reset()
        with torch.no_grad():
            wrong += judged(tried(row, None))
    assert not wrong, "\n".join(wrong)


#: Parts of a library's rows: each of them makes forward and backward code of several models.
_PARTS: Final = 3


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("library", LIBRARIES)
def test_training(library: str, part: int) -> None:
    wrong: list[str] = []
    for row in rows_of(library)[1::_EVERY][part::_PARTS]:
        anyshape.reset()
        steps = tuple(row.pairs[step % len(row.pairs)] for step in range(_STEPS))
        trial = trained(replace(row, train=True, pairs=steps), None, _RATE)
        wrong += judged(trial)
    assert not wrong, "\n".join(wrong)


def test_the_table() -> None:
    """Sixty models or more of five libraries or more, nearly all of them whole."""
    names: list[str] = []
    libraries = 0
    for library in LIBRARIES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names += [row.name for row in rows_of(library)]
        libraries += 1
    assert libraries >= 5
    assert len(names) == len(set(names)) >= 60
    assert set(IN_PARTS) <= set(names)
    assert len(IN_PARTS) <= len(names) // 20
