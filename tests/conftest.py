"""Names of parametrised cases, the same in every process: the parallel runner compares them."""

from __future__ import annotations

import re
from typing import Any

import pytest

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def pytest_make_parametrize_id(config: pytest.Config, val: Any, argname: str) -> str | None:
    if isinstance(val, type) or not callable(val):
        return None
    name = getattr(val, "__qualname__", None) or getattr(val, "__name__", None)
    return _ADDRESS.sub("", name or repr(val))
