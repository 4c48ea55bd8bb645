"""Each test starts with nothing compiled, no profile, and failures of ours raised, not hidden."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import anyshape


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    anyshape.reset()
