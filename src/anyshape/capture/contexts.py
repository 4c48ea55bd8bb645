"""`with` statements: whose code runs at the edges, and which of them the graph has to repeat."""

from __future__ import annotations

import types
from typing import Any, Final

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.cpu.amp.autocast_mode import autocast as cpu_autocast
from torch.cuda.amp.autocast_mode import autocast as cuda_autocast

from anyshape.capture.tracer import Leave

#: They switch the grad mode through a function that the recording mode sees.
_GRAD_MODES: Final = (
    torch.no_grad,
    torch.enable_grad,
    torch.set_grad_enabled,
)

#: They mark a stretch of the program for a profiler and change nothing.
_HARMLESS: Final = (torch.autograd.profiler.record_function,)


def entered(hooks: Any, manager: Any) -> Any:
    """What stands in the `with` statement for a context manager."""
    kind = type(manager)
    if hooks.outside.is_outside(manager) and kind in _RECORDED:
        raise Leave("a context manager from outside")
    if kind in _GRAD_MODES or kind in _HARMLESS:
        return manager
    recorded = _RECORDED.get(kind)
    if recorded is not None:
        return recorded(hooks, manager)
    enter, leave = getattr(kind, "__enter__", None), getattr(kind, "__exit__", None)
    if isinstance(enter, types.FunctionType) and isinstance(leave, types.FunctionType):
        hooks.attributes.class_attribute(kind, "__enter__")
        hooks.attributes.class_attribute(kind, "__exit__")
        return _Called(hooks, manager)
    raise Leave(f"a native context manager: {kind.__name__}")


class _Called:
    """A context manager written in Python, entered and left through hooks."""

    def __init__(self, hooks: Any, manager: Any) -> None:
        self._hooks = hooks
        self._manager = manager

    def __enter__(self) -> Any:
        return self._hooks.call(type(self._manager).__enter__, self._manager)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return self._hooks.call(type(self._manager).__exit__, self._manager, kind, error, trace)


class _Autocast:
    """`torch.autocast`: torch does not show it to function modes."""

    def __init__(self, hooks: Any, manager: Any) -> None:
        self._hooks = hooks
        self._manager = manager
        self._node: Any = None

    def __enter__(self) -> Any:
        manager = self._manager
        if self._hooks.tracer.active:
            self._node = self._hooks.recorder.call(
                _enter_autocast,
                manager.device,
                manager.fast_dtype,
                manager._enabled,
                manager._cache_enabled,
            )
        return manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        if self._node is not None and self._hooks.tracer.active:
            self._hooks.recorder.call(_exit_autocast, self._node)
        return self._manager.__exit__(*error)


class _InferenceMode:
    """`torch.inference_mode`, likewise."""

    def __init__(self, hooks: Any, manager: Any) -> None:
        self._hooks = hooks
        self._manager = manager
        self._node: Any = None

    def __enter__(self) -> Any:
        if self._hooks.tracer.active:
            self._node = self._hooks.recorder.call(_enter_inference_mode, self._manager.mode)
        return self._manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        if self._node is not None and self._hooks.tracer.active:
            self._hooks.recorder.call(_exit_inference_mode, self._node)
        return self._manager.__exit__(*error)


_RECORDED: Final = {
    torch.autocast: _Autocast,
    cpu_autocast: _Autocast,
    cuda_autocast: _Autocast,
    torch.inference_mode: _InferenceMode,
}

#: Classes of context managers that are made by native code and known here.
CONTEXT_CLASSES: Final = frozenset({*_GRAD_MODES, *_HARMLESS, *_RECORDED})
