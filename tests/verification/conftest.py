"""Every call is verified, and nothing is read from or written to the user's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import anyshape


@pytest.fixture(autouse=True)
def _verified(tmp_path: Path) -> Iterator[None]:
    anyshape.reset()
    settings = {"profile": False, "on_compile_error": "raise", "cache_dir": tmp_path}
    with anyshape.config.patch(verify_calls=1.0, **settings):
        yield
    anyshape.reset()
