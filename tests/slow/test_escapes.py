"""The combinations of `tests/api/test_escapes_ints.py` that the fast suite leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import anyshape
from tests.api.test_escapes_ints import (
    PYTHON,
    PYTHON_RUNS,
    SHAPES,
    SHAPES_RUNS,
    Case,
    changes_alone,
    given_as_argument,
    read_from_shape,
)
from tests.api.twins import World, check

Source = Callable[[Case], World]
ALL: list[tuple[Source, bool | None]] = [
    (source, dynamic)
    for source in (read_from_shape, given_as_argument, changes_alone)
    for dynamic in (None, True, False)
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    anyshape.reset()


@pytest.mark.parametrize(("source", "dynamic"), [run for run in ALL if run not in PYTHON_RUNS])
@pytest.mark.parametrize("case", PYTHON)
def test_int_in_python(case: str, source: Source, dynamic: bool | None) -> None:
    check(lambda: source(PYTHON[case]), dynamic)


@pytest.mark.parametrize(("source", "dynamic"), [run for run in ALL if run not in SHAPES_RUNS])
@pytest.mark.parametrize("case", SHAPES)
def test_size_in_torch(case: str, source: Source, dynamic: bool | None) -> None:
    check(lambda: source(SHAPES[case]), dynamic)
