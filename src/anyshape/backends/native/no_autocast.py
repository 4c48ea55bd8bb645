"""Code that runs without autocast, whatever is on around it: its graph has all casts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.ops.autocast_casts import DEVICES

is_any_autocast: Final[Callable[[], bool]] = getattr(torch._C, "_is_any_autocast_enabled")  # noqa: B009 no stub has it


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any) -> Any:
        if not is_any_autocast():
            return function(*args)
        on = [device for device in DEVICES if torch.is_autocast_enabled(device)]
        for device in on:
            torch.set_autocast_enabled(device, False)
        try:
            return function(*args)
        finally:
            for device in on:
                torch.set_autocast_enabled(device, True)

    return run
