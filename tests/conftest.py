"""Names of parametrised cases, the same in every process: the parallel runner compares them. And
no profile, here and in processes that tests start: what an earlier run has seen changes how many
graphs there are. Tests of the profile keep one in a folder of their own."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

os.environ["ANYSHAPE_PROFILE"] = "0"

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-goldens",
        action="store_true",
        help="write the texts of tests/golden anew, to be reviewed as a diff",
    )


def pytest_make_parametrize_id(config: pytest.Config, val: Any, argname: str) -> str | None:
    if isinstance(val, type) or not callable(val):
        return None
    name = getattr(val, "__qualname__", None) or getattr(val, "__name__", None)
    return _ADDRESS.sub("", name or repr(val))
