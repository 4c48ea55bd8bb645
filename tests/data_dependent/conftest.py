"""Settings for programs that are called many times and compared with their eager twins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import anyshape


@pytest.fixture
def strict() -> Iterator[None]:
    """Nothing is remembered from other tests, and what fails to compile is an error."""
    anyshape.reset()
    threads = torch.get_num_threads()
    # Tensors are tiny: threads would only wait for each other.
    torch.set_num_threads(1)
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    torch.set_num_threads(threads)
    anyshape.reset()
