"""Torch's own state that operations depend on and that no argument shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.overrides import _pop_mode_temporarily
from torch.utils._device import DeviceContext
from torch.utils._device import _device_constructors as _constructors

from anyshape.guards.replaced_functions import replaced

_C: Any = torch._C
_forward: Any = forward_ad

for _class in (torch.Tensor, torch.nn.Parameter):
    # All of it: operators call methods by names that no code has.
    replaced.note_class(_class, frozenset(dir(_class)))


# Every call asks: a name of the module is found in half the time of one in `torch`.
_is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
_function_modes: Callable[[], int] = _C._len_torch_function_stack
_dispatch_modes: Callable[[], int] = _C._len_torch_dispatch_stack
_default_dtype: Callable[[], torch.dtype] = torch.get_default_dtype
_is_any_autocast: Callable[[], bool] = _C._is_any_autocast_enabled
_is_inference: Callable[[], bool] = torch.is_inference_mode_enabled
_is_deterministic: Callable[[], bool] = _C._get_deterministic_algorithms
_transform: Callable[[], object] = _C._functorch.peek_interpreter_stack
_is_function_enabled: Callable[[], bool] = _C._is_torch_function_enabled
_packing_hooks: Callable[[bool], object] = _C._autograd._top_saved_tensors_default_hooks
_tracing: Callable[[], object] = _C._get_tracing_state
_replaced_now: Callable[[], object] = replaced.now


def read_state() -> tuple[object, ...]:
    """Everything of it in one value: cheap, because every call compares it."""
    return (
        _is_grad_enabled(),
        _modes() if _function_modes() else 0,
        _dispatch_modes(),
        _default_dtype(),
        _autocast() if _is_any_autocast() else None,
        _is_inference(),
        _is_deterministic(),
        _transform() is None,
        _is_function_enabled(),
        _packing_hooks(True) is None,
        _tracing() is None,
        # A tensor with a tangent looks like any other.
        _forward._current_level,
        # Nor does a method that is not torch's own any more.
        _replaced_now(),
    )


def _modes() -> object:
    """How many function modes there are, or the devices of those that say where tensors are made
    (`torch.set_default_device`, `with torch.device`)."""
    devices = _default_devices()
    return _function_modes() if devices is None else devices


def _default_devices() -> tuple[torch.device, ...] | None:
    """None where other modes are active too."""
    modes = [_C._get_function_stack_at(place) for place in range(_function_modes())]
    if any(type(mode) is not DeviceContext for mode in modes):
        return None
    return tuple(mode.device for mode in modes)


def on_default_device(
    function: Callable[..., object], kwargs: dict[str, object]
) -> dict[str, object]:
    """The arguments as the innermost default device completes them (see `DeviceContext`)."""
    device = _innermost_device()
    if device is None or kwargs.get("device") is not None or function not in _constructors():
        return kwargs
    return {**kwargs, "device": device}


def default_device() -> torch.device:
    """As `torch.get_default_device`, which makes a tensor to know it."""
    device = _innermost_device()
    # To make one is a function of torch to modes, too.
    with _C.DisableTorchFunction():
        return torch.device("cpu") if device is None else torch.empty(0, device=device).device


def _innermost_device() -> torch.device | None:
    for place in reversed(range(_function_modes())):
        mode = _C._get_function_stack_at(place)
        if type(mode) is DeviceContext:
            return mode.device
    return None


def unseen() -> AbstractContextManager[Any]:
    """For code of the program that a capture does not see; it has its default device."""
    if _innermost_device() is None:
        return _C.DisableTorchFunction()
    return _pop_mode_temporarily()


@contextmanager
def no_default_device() -> Iterator[None]:
    """For code of ours that makes tensors. The modes of the default device are put back."""
    modes: list[Any] = []
    try:
        while _function_modes():
            modes.append(_C._pop_torch_function_stack())
        yield
    finally:
        for mode in reversed(modes):
            _C._push_on_torch_function_stack(mode)


def _saved_tensors_hooks() -> object:
    """The hooks that autograd packs tensors with, if any: checkpointing uses them to stop in the
    middle of a run, which must then be the user's own."""
    return _packing_hooks(True)


def _autocast() -> tuple[object, ...]:
    return tuple(
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in ("cpu", "cuda")
    )


def can_capture() -> str | None:
    """Why no capture is possible now, if so."""
    if _default_devices() is None or _C._len_torch_dispatch_stack():
        return "a torch function mode or dispatch mode is active"
    if _C._functorch.peek_interpreter_stack() is not None:
        return "called inside a function transform (vmap, grad)"
    if _C._get_tracing_state() is not None:
        return "called while torch.jit traces"
    if _forward._current_level >= 0:
        return "called inside forward-mode differentiation"
    if _saved_tensors_hooks() is not None:
        return "hooks for saved tensors are active"
    if not _C._is_torch_function_enabled():
        return "torch functions are disabled"
    return None
