"""Triton's own kernels in compiled functions: on a GPU, or by Triton's interpreter.

Where Triton can be imported, these tests run as they are. In the environment of the other tests it
cannot, because libraries do other things where it can: there, `test_in_processes.py` runs each file
in a process that finds it in a folder of its own.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
import torch

import anyshape

HAS_TRITON = importlib.util.find_spec("triton") is not None
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is decorated

#: Without Triton, none of these can be imported; with it, they need no process of their own.
collect_ignore = (
    ["test_in_processes.py"]
    if HAS_TRITON
    else ["test_kernels.py", "test_hostile.py", "test_triton_operators.py"]
)


@pytest.fixture
def device() -> str:
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return "cuda" if torch.cuda.is_available() and not is_interpreted else "cpu"


@pytest.fixture(autouse=True)
def _defects_are_errors() -> Iterator[None]:
    with anyshape.config.patch(on_compile_error="raise"):
        yield
