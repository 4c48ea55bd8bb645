"""More of the programs of `tests/native/test_fuzz_views.py`."""

from __future__ import annotations

import pytest

import anyshape
from tests.native.view_programs import compared, program


@pytest.mark.parametrize("seed", range(100, 300))
def test_compiled_programs_do_as_eager(seed: int) -> None:
    source, kind = program(seed)
    found = compared(source, kind, seed, lambda f: anyshape.compile(f, dynamic=True))
    assert not found, "\n".join([source, kind, *found])
