"""Native code is kept in a folder of the test run, not in the user's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anyshape.config import config


@pytest.fixture(scope="session", autouse=True)
def native_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    pytest.importorskip("llvmlite")
    with config.patch(cache_dir=tmp_path_factory.mktemp("cache")):
        yield
