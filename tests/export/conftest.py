"""Defects of ours are errors in these tests, and nothing is read from the user's cache."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import anyshape


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    anyshape.reset()
