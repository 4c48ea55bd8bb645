"""The device that tests run on is torch's default one: the processor, but for `make test-gpu`,
which runs them with another default (`tests/gpu/on_gpu.py`). What has no default is made here."""

from __future__ import annotations

import torch


def generator(seed: int) -> torch.Generator:
    """A new one, of the default device."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def seed(number: int) -> None:
    """Of torch's own generators. `torch.manual_seed` would look at its callers."""
    torch.default_generator.manual_seed(number)
    if torch.get_default_device().type == "cuda":
        torch.cuda.manual_seed_all(number)


def dispatch_key() -> str:
    """For kernels of operators that tests define."""
    return torch.get_default_device().type.upper()


def random_state() -> torch.Tensor:
    """Of torch's own generators."""
    if torch.get_default_device().type == "cuda":
        return torch.cat([torch.get_rng_state(), torch.cuda.get_rng_state()])
    return torch.get_rng_state()
