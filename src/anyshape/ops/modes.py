"""Modes that a graph enters and leaves by itself, and how a failed graph gets out of them."""

from __future__ import annotations

import threading
from typing import Any, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


class AttentionKernels:
    """`sdpa_kernel` for these backends, by their numbers."""

    def __init__(self, backends: tuple[int, ...]) -> None:
        self.backends = backends
        self._mode = sdpa_kernel([SDPBackend(number) for number in backends])

    def __enter__(self) -> Any:
        return self._mode.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._mode.__exit__(*error)


_MAKERS: Final[dict[str, Any]] = {
    "autocast": lambda device, dtype, enabled, cached: torch.autocast(
        device, dtype, enabled, cached
    ),
    "inference_mode": torch.inference_mode,
    "sdpa_kernel": AttentionKernels,
}


class _Entered(threading.local):
    """The modes that graphs of this thread are in, innermost last."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_entered = _Entered()


def enter_mode(kind: str, *args: Any) -> None:
    mode = _MAKERS[kind](*args)
    mode.__enter__()
    _entered.modes.append(mode)


def leave_mode() -> None:
    _entered.modes.pop().__exit__(None, None, None)


def modes_now() -> tuple[bool, int]:
    """What `back_to` needs to know: the grad mode, and how many modes graphs are in."""
    return torch.is_grad_enabled(), len(_entered.modes)


def back_to(state: tuple[bool, int]) -> None:
    """Leave what was entered since, as an error does that passes `with` statements."""
    grad, depth = state
    while len(_entered.modes) > depth:
        leave_mode()
    torch._C._set_grad_enabled(grad)
