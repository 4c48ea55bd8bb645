"""More of the programs of `tests/native/test_fuzz_mixed.py`."""

from __future__ import annotations

import pytest

from tests.native.test_fuzz_mixed import WORDS, check


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("seed", range(100, 160))
@pytest.mark.parametrize("name", WORDS)
def test_compiled_programs_do_as_eager(name: str, seed: int) -> None:
    check(seed, WORDS[name])
