"""`with` statements: whose code runs at the edges, and which of them the graph has to repeat."""

from __future__ import annotations

import types
from typing import Any, Final

import torch
from torch.autograd import set_detect_anomaly
from torch.cpu.amp.autocast_mode import autocast as cpu_autocast
from torch.cuda.amp.autocast_mode import autocast as cuda_autocast
from torch.overrides import _pop_mode_temporarily

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.warning_filters import CatchWarnings
from anyshape.ops.modes import AttentionKernels, enter_mode, leave_mode

#: They switch the grad mode through a function that the recording mode sees.
_GRAD_MODES: Final = (
    torch.no_grad,
    torch.enable_grad,
    torch.set_grad_enabled,
)

#: They mark a stretch of the program for a profiler, or concern tensors that are not followed.
_HARMLESS: Final = (
    torch.autograd.profiler.record_function,
    torch._C.DisableTorchFunctionSubclass,
)

#: They do nothing unless they are enabled.
_SWITCHED: Final = (
    torch.autograd.profiler.profile,
    torch.autograd.profiler.emit_nvtx,
    torch.autograd.profiler.emit_itt,
)


def entered(hooks: Hooks, manager: object) -> object:
    """What stands in the `with` statement for a context manager."""
    kind = type(manager)
    if hooks.outside.is_external(manager) and kind in _RECORDED:
        return _of_a_decorator(hooks, manager)
    if kind in _GRAD_MODES or kind is CatchWarnings:
        return manager
    if kind in _HARMLESS or kind is set_detect_anomaly or _is_off(manager):
        return _Unseen(manager)
    if takes_elements_by_tensors(kind) and not hooks.outside.is_external(manager):
        return _ElementsByTensors(hooks, manager)
    recorded = _RECORDED.get(kind)
    if recorded is not None:
        return recorded(hooks, manager)
    enter, leave = getattr(kind, "__enter__", None), getattr(kind, "__exit__", None)
    if isinstance(enter, types.FunctionType) and isinstance(leave, types.FunctionType):
        hooks.attributes.class_attribute(kind, "__enter__")
        hooks.attributes.class_attribute(kind, "__exit__")
        return _Called(hooks, manager)
    raise AbortCapture(f"a native context manager: {kind.__name__}")


#: A mode in which elements are taken by tensors, where views would be made by numbers. Known by
#: name: its module is one of torch's compiler.
_ELEMENTS_BY_TENSORS: Final = (
    "torch._dynamo._trace_wrapped_higher_order_op",
    "TransformGetItemToIndex",
)


def takes_elements_by_tensors(kind: type) -> bool:
    return (kind.__module__, kind.__qualname__) == _ELEMENTS_BY_TENSORS


class _ElementsByTensors:
    """Functions of positions take elements in this way anyway. Nobody else may take any: a copy,
    which would be a view without the mode."""

    def __init__(self, hooks: Hooks, manager: Any) -> None:
        self._recorder = hooks.recorder
        self._manager = manager

    def __enter__(self) -> Any:
        self._recorder.elements_by_tensors += 1
        # Below our own mode, which is the first to be asked. A capture may end before it is left.
        with _pop_mode_temporarily():
            return self._manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        self._recorder.elements_by_tensors -= 1
        with _pop_mode_temporarily():
            return self._manager.__exit__(*error)


def _is_off(manager: Any) -> bool:
    return type(manager) in _SWITCHED and not manager.enabled


class _Unseen:
    """A context manager that runs as it is, and is not in the graph."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __enter__(self) -> Any:
        with torch._C.DisableTorchFunction():
            return self._manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return self._manager.__exit__(*error)


def _enter_or_leave(hooks: Hooks, name: str, manager: object, *error: object) -> object:
    """`__enter__` or `__exit__` of a known context manager, called by name as `ExitStack` does."""
    if type(manager) not in CONTEXT_CLASSES:
        raise AbortCapture(f"cannot trace into `{type(manager).__qualname__}.{name}`")
    stack = hooks.entered
    if name == "__enter__":
        stack.append((manager, entered(hooks, manager)))
        return stack[-1][1].__enter__()
    if not stack or stack[-1][0] is not manager:
        raise AbortCapture(f"a {type(manager).__name__} is left that is not the last one entered")
    return stack.pop()[1].__exit__(*error)


class _Called:
    """A context manager written in Python, entered and left through hooks."""

    def __init__(self, hooks: Hooks, manager: Any) -> None:
        self._hooks = hooks
        self._manager = manager

    def __enter__(self) -> Any:
        return self._hooks.call(type(self._manager).__enter__, self._manager)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if error is not None:
            self._hooks.caught(error)
        return self._hooks.call(type(self._manager).__exit__, self._manager, kind, error, trace)


class _Mode:
    """A mode that torch does not show to function modes: the graph enters and leaves it itself."""

    def __init__(self, hooks: Hooks, manager: Any) -> None:
        self._hooks = hooks
        self._manager = manager
        self._recorded = False

    def __enter__(self) -> Any:
        if self._hooks.tracer.active:
            self._recorded = True
            kind = _MADE_AGAIN[type(self._manager)]
            if kind == "autocast":
                # It has taken the dtype of the device if it was given none.
                self._hooks.call(torch.get_autocast_dtype, str(self._manager.device))
            self._hooks.recorder.call(enter_mode, kind, *_ARGUMENTS[kind](self._manager))
        return self._manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        if self._recorded and self._hooks.tracer.active:
            self._hooks.recorder.call(leave_mode)
        return self._manager.__exit__(*error)


def _of_a_decorator(hooks: Hooks, manager: Any) -> object:
    """A mode from outside, as `@torch.autocast(...)` keeps one for all calls of a function."""
    if _MADE_AGAIN[type(manager)] != "autocast":
        raise AbortCapture("a context manager from outside the function")
    if any(known is manager for known, _ in hooks.entered):
        # Torch keeps what was before in the object, and forgets the first of two.
        raise AbortCapture("a context manager is entered twice")
    for name in ("device", "fast_dtype", "_enabled", "_cache_enabled"):
        hooks.specialized(hooks.attribute(manager, name), "a context manager has it")
    return _KeptMode(hooks, manager)


class _KeptMode(_Mode):
    """A mode from outside: what was on before is kept in it, which is a change outside."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        self._hooks.entered.append((self._manager, self))
        for name in ("prev", "prev_cache_enabled", "prev_fastdtype"):
            self._hooks.set_attribute(self._manager, name, getattr(self._manager, name))
        return entered

    def __exit__(self, *error: Any) -> Any:
        self._hooks.entered.pop()
        return super().__exit__(*error)


#: How to make each mode again, from the object that was entered.
_ARGUMENTS: Final[dict[str, Any]] = {
    "autocast": lambda manager: (
        manager.device,
        manager.fast_dtype,
        manager._enabled,
        manager._cache_enabled,
    ),
    "inference_mode": lambda manager: (manager.mode,),
    "sdpa_kernel": lambda manager: (manager.backends,),
}

_MADE_AGAIN: Final = {
    torch.autocast: "autocast",
    cpu_autocast: "autocast",
    cuda_autocast: "autocast",
    torch.inference_mode: "inference_mode",
    AttentionKernels: "sdpa_kernel",
}

_RECORDED: Final = dict.fromkeys(_MADE_AGAIN, _Mode)

#: Classes of context managers that are made by native code and known here.
CONTEXT_CLASSES: Final = frozenset({*_GRAD_MODES, *_HARMLESS, *_SWITCHED, *_RECORDED})

#: Their methods, as models, also where the code of them could be followed: what it sets is no
#: operation that a graph may have.
MODELS: Final[Models] = {
    vars(kind)[name]: lambda hooks, manager, *error, name=name: _enter_or_leave(
        hooks, name, manager, *error
    )
    for kind in CONTEXT_CLASSES
    for name in ("__enter__", "__exit__")
}
