"""Random programs of mixed dtypes, and of reductions and writes of floats: compiled as in eager."""

from __future__ import annotations

import pytest

import anyshape
from tests.native.mixed_programs import EXACT, FLOATS, STORED
from tests.native.view_programs import Vocabulary, compared, program

WORDS = {"exact": EXACT, "floats": FLOATS, "stored": STORED}


def check(seed: int, words: Vocabulary) -> None:
    source, kind = program(seed, 9, words)
    found = compared(source, kind, seed, lambda f: anyshape.compile(f, dynamic=True), words)
    assert not found, "\n".join([source, kind, *found])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", WORDS)
def test_compiled_programs_do_as_eager(name: str, seed: int) -> None:
    check(seed, WORDS[name])
