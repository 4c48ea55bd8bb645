"""A plugin for pytest: a part of the tests, and runs that go on where an earlier one was ended.

A kernel that fails on a GPU takes the process with it: the run stops at the test that did it, which
counts as failed. With `ANYSHAPE_TEST_DONE=file` a run leaves out what the file names, and adds what
it runs: the same command goes on behind that test. `ANYSHAPE_TEST_PART=2/12` runs a part, and
`ANYSHAPE_TEST_SECONDS=100` what there is time for.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.gpu.device import synchronize

_DONE: Final = os.environ.get("ANYSHAPE_TEST_DONE")
_PART: Final = os.environ.get("ANYSHAPE_TEST_PART", "0/1")
_LAST: Final = time.monotonic() + float(os.environ.get("ANYSHAPE_TEST_SECONDS", "inf"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = map(int, _PART.split("/"))
    done = _done()
    numbers = {item: zlib.crc32(item.nodeid.encode()) for item in items}
    kept = [item for item in items if numbers[item] % parts == part and item.nodeid not in done]
    if parts > 1:
        # In no order: what time is left for is a sample of all.
        kept.sort(key=lambda item: numbers[item] // parts % 997)
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


def _done() -> set[str]:
    path = Path(_DONE) if _DONE else None
    return set(path.read_text().splitlines()) if path is not None and path.exists() else set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    if _DONE:
        # Before it runs: one that ends the process is not tried again.
        with open(_DONE, "a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\n")
    try:
        return (yield)
    finally:
        if time.monotonic() > _LAST:
            item.session.shouldstop = "there is no time left"
        try:
            synchronize()
        except RuntimeError as error:
            said = str(error).partition("\n")[0]
            print(f"\nFAILED {item.nodeid} - and the GPU with it: {said}", flush=True)
            item.session.shouldstop = "the GPU has failed"
