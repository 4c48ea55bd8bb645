"""The random generators of the process: torch's, Python's and numpy's."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def random_states() -> dict[str, Any]:
    """By name, each as its library gives it."""
    found: dict[str, Any] = {"torch.default_generator": torch.default_generator.get_state()}
    if torch.cuda.is_initialized():
        for index, generator in enumerate(torch.cuda.default_generators):
            found[f"cuda:{index}"] = generator.get_state()
    found["random"] = random.getstate()
    if (numpy := sys.modules.get("numpy")) is not None:
        found["numpy.random"] = numpy.random.get_state()
    return found


def restore_random_states(states: dict[str, Any]) -> None:
    torch.default_generator.set_state(states["torch.default_generator"])
    random.setstate(states["random"])
    for name, state in states.items():
        if name.startswith("cuda:"):
            torch.cuda.default_generators[int(name[5:])].set_state(state)
        elif name == "numpy.random":
            sys.modules["numpy"].random.set_state(state)


def differing_generators(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The generators that were drawn from in another way."""
    return [name for name in ours.keys() & theirs.keys() if not _same(ours[name], theirs[name])]


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, tuple):
        return all(map(_same, ours, theirs))
    return ours.tobytes() == theirs.tobytes() if hasattr(ours, "tobytes") else ours == theirs
