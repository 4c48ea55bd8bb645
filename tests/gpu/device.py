"""Where tests for GPUs run: there, or where `ANYSHAPE_TEST_DEVICE` says, to try the tests."""

from __future__ import annotations

import os
from typing import Final

import pytest
import torch

DEVICE: Final = os.environ.get("ANYSHAPE_TEST_DEVICE", "cuda")
IS_GPU: Final = DEVICE == "cuda"

IS_THERE: Final = not IS_GPU or torch.cuda.is_available()

needs_device = pytest.mark.skipif(not IS_THERE, reason="there is no GPU")
needs_gpu = pytest.mark.skipif(not (IS_GPU and IS_THERE), reason="it is about what only a GPU has")


def synchronize() -> None:
    if IS_GPU:
        torch.cuda.synchronize()
