"""A plugin for pytest: the tests of other folders with a GPU as torch's default device.

    pytest -p tests.gpu.on_gpu tests/api tests/native tests/data_dependent

What they make is made there (`torch.set_default_device`), from the import of their modules on. What
says something about the processor is left out, with a reason: see `left_out.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch

from tests import forks
from tests.gpu.device import DEVICE, IS_GPU
from tests.gpu.left_out import LEFT_OUT, NOT_YET


def pytest_configure(config: pytest.Config) -> None:
    if IS_GPU and not torch.cuda.is_available():
        pytest.exit("there is no GPU", 0)
    # Threads of autograd come without a context; torch sets one, and says so.
    config.addinivalue_line("filterwarnings", "ignore:Attempting to run cuBLAS")
    torch.set_default_device(DEVICE)
    forks.run = _no_fork


def pytest_unconfigure() -> None:
    torch.set_default_device(None)


def _no_fork(*_: Any, **__: Any) -> Any:
    pytest.skip("a process of its own, which has its own default device")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if why := _reason(item.nodeid, LEFT_OUT):
            item.add_marker(pytest.mark.skip(reason=why))
        elif why := _reason(item.nodeid, NOT_YET):
            item.add_marker(pytest.mark.xfail(reason=why, strict=IS_GPU))


def _reason(name: str, table: Mapping[str, str]) -> str:
    return next((why for pattern, why in table.items() if fnmatchcase(name, pattern)), "")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    torch.set_default_device(DEVICE)
