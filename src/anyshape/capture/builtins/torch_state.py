"""Models of torch functions that are not operations: questions about torch's state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._jit_internal import is_scripting
from torch.autograd import forward_ad
from torch.jit._trace import is_tracing
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.process_queries import ask
from anyshape.capture.numbers.concolic import plain
from anyshape.guards.guard import Kind
from anyshape.ops.modes import AttentionKernels, enter_mode, leave_mode
from anyshape.ops.runtime_checks import check_sizes


def _as_is(function: Callable[..., object]) -> Callable[..., object]:
    """A read of torch's state that the guard of the state covers, or a pure function."""

    def model(hooks: Hooks, *args: object, **kwargs: object) -> object:
        given = [hooks.specialized(arg, f"`{function.__name__}` takes it") for arg in args]
        with torch._C.DisableTorchFunction():  # Some are functions of torch to modes.
            return function(*given, **kwargs)

    return model


def _device(hooks: Hooks, *args: object, **kwargs: object) -> Any:
    # To make one is a function of torch to modes, and gives no tensor.
    with torch._C.DisableTorchFunction():
        return torch.device(*(hooks.specialized(arg, "a device has it") for arg in args), **kwargs)


class Returns:
    """A guard: whether a function without arguments returns what it did."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __call__(self, function: Any) -> bool:
        return function() == self._value


def _guarded(function: Callable[..., object]) -> Callable[..., object]:
    """A read of torch's state that no other guard covers."""

    def model(hooks: Hooks, *args: object, **kwargs: object) -> object:
        if kwargs or not all(type(arg) is str for arg in args):
            raise AbortCapture(f"`torch.{function.__name__}` with arguments")
        asked = functools.partial(function, *args) if args else function
        value = asked()
        path = hooks.tracer.constant(asked, f"torch.{function.__name__}")
        hooks.tracer.guard(Kind.PREDICATE, path, Returns(value), "a setting of torch")
        return value

    return model


def _check(function: Callable[..., object]) -> Callable[..., object]:
    """`torch._check` and its kin: what the condition asked has been taken for granted by now, and
    is checked by the compiled run."""

    def model(hooks: Hooks, cond: object, message: object = None) -> None:
        hooks.tracer.checking = False
        if isinstance(cond, torch.Tensor):
            raise AbortCapture(f"torch.{function.__name__} of a tensor")
        if not hooks.truth(cond):
            function(False, message)

    return model


def _expected(hooks: Hooks, ask: Callable[[], object]) -> object:
    """The answer to what a check asks, which is expected to be so."""
    hooks.tracer.checking = True
    try:
        return ask()
    finally:
        hooks.tracer.checking = False


def _assert(hooks: Hooks, condition: object, message: object) -> None:
    """`torch._assert`, which is an `assert` statement: of numbers and of tensors."""
    if not _expected(hooks, lambda: hooks.truth(condition)):
        _ASSERT(False, hooks.specialized(message, "it is shown"))


def _check_with(hooks: Hooks, error_type: object, cond: object, message: object) -> None:
    hooks.tracer.checking = False
    if not hooks.truth(cond):
        _CHECK_WITH(error_type, False, message)


def _check_is_size(hooks: Hooks, i: object, message: object = None, *, max: object = None) -> None:
    def is_size() -> object:
        return hooks.compare("ge", i, 0) and (max is None or hooks.compare("le", i, max))

    if not _expected(hooks, is_size):
        _CHECK_IS_SIZE(plain(i), message, max=plain(max))


def _check_all(hooks: Hooks, cond: object, message: object = None) -> None:
    def holds() -> bool:
        return hooks.truth(hooks.recorder.run(torch.Tensor.all, (cond,), {}))

    if not _expected(hooks, holds):
        _CHECK_ALL(cond, message)


def _enter_mode(hooks: Hooks, kind: str, *args: object) -> None:
    """What a graph does that is captured again, as a program: an exported one."""
    if hooks.tracer.active:
        hooks.recorder.call(enter_mode, kind, *args)
    enter_mode(kind, *args)


def _leave_mode(hooks: Hooks) -> None:
    if hooks.tracer.active:
        hooks.recorder.call(leave_mode)
    leave_mode()


def _sdpa_kernel(hooks: Hooks, backends: object, set_priority: object = False) -> object:
    if hooks.truth(set_priority):
        raise AbortCapture("`sdpa_kernel` with priorities")
    if not isinstance(backends, SDPBackend):
        backends = list(hooks.iterate(backends))
    given = backends if isinstance(backends, list) else [backends]
    for backend in given:
        if not isinstance(backend, SDPBackend):
            raise AbortCapture(f"`sdpa_kernel` of a {type(backend).__name__}")
        path = hooks.tracer.path_of(backend)
        if path is not None:
            hooks.tracer.guard(Kind.IDENTITY, path, backend)
    return AttentionKernels(tuple(int(backend) for backend in dict.fromkeys(given)))  # pyright: ignore[reportArgumentType] of C


def _detect_anomaly(hooks: Hooks, mode: object, check_nan: object = True) -> object:
    """Nothing, where it is set as it is already."""
    mode, check_nan = hooks.truth(mode), hooks.truth(check_nan)
    asked = (torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled)
    if tuple(ask(hooks, each, (), {}) for each in asked) != (mode, check_nan):
        raise AbortCapture("the detection of anomalies is switched")
    return torch.autograd.set_detect_anomaly(mode, check_nan)


def _unpack_dual(hooks: Hooks, tensor: Any, *, level: object = None) -> object:
    """The tensor alone where nothing has a tangent, which the guard of the state says."""
    if level is not None or _forward._current_level >= 0:
        raise AbortCapture("a tangent of forward-mode differentiation is read")
    return forward_ad.UnpackedDualTensor(tensor, None)


_forward: Any = forward_ad
_ASSERT: Any = getattr(torch, "_assert")  # noqa: B009 no stub has it
_CHECK_WITH: Any = getattr(torch, "_check_with")  # noqa: B009 no stub has them
_CHECK_IS_SIZE: Any = getattr(torch, "_check_is_size")  # noqa: B009
_CHECK_ALL: Any = getattr(torch, "_check_tensor_all")  # noqa: B009

_CHECKS: Final = ("_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented")

#: Names under which checks are loaded: what is asked from there to the call is asked by a check.
CHECK_NAMES: Final = frozenset(
    (
        *_CHECKS,
        "_assert",
        "_check_with",
        *("check", "guard_or_false", "guard_or_true", "guard_size_oblivious"),
    )
)


_STATE_READS: Final = (
    *("is_grad_enabled", "is_inference_mode_enabled", "get_default_dtype", "is_autocast_enabled"),
    *("is_autocast_cpu_enabled", "are_deterministic_algorithms_enabled", "is_storage"),
    *("finfo", "iinfo", "promote_types", "can_cast"),
)

_SETTINGS: Final = (
    torch.is_autocast_cache_enabled,
    torch.get_autocast_dtype,
    torch.get_autocast_cpu_dtype,
    torch.get_autocast_gpu_dtype,
    torch.get_num_threads,
    torch.get_num_interop_threads,
    torch.get_float32_matmul_precision,
    torch.onnx.is_in_onnx_export,
)

_FALSE: Final = (
    torch.compiler.is_exporting,
    is_scripting,
    is_tracing,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

MODELS: Final[Models] = {
    **{getattr(torch, name): _check(getattr(torch, name)) for name in _CHECKS},
    _ASSERT: _assert,
    _CHECK_WITH: _check_with,
    _CHECK_IS_SIZE: _check_is_size,
    _CHECK_ALL: _check_all,
    torch.compiler.is_compiling: lambda hooks: True,
    torch.compiler.is_dynamo_compiling: lambda hooks: True,
    torch._C._log_api_usage_once: lambda hooks, *args: None,
    torch._C._get_tracing_state: lambda hooks: None,
    # There is none: the guard of the state says so.
    _get_current_dispatch_mode_stack: lambda hooks: [],
    torch.device: _device,
    # The recording mode sees the call.
    torch._C._set_grad_enabled: lambda hooks, mode: torch._C._set_grad_enabled(mode),
    sdpa_kernel: _sdpa_kernel,
    torch.autograd.set_detect_anomaly: _detect_anomaly,
    # An exported graph has them; where it is captured, there is one for each operator again.
    check_sizes: lambda hooks, *args: None,
    enter_mode: _enter_mode,
    leave_mode: _leave_mode,
    forward_ad.unpack_dual: _unpack_dual,
    torch.is_tensor: lambda hooks, value: isinstance(value, torch.Tensor),
    **dict.fromkeys(_FALSE, lambda hooks, *args: False),
    **{function: _guarded(function) for function in _SETTINGS},
    **{
        getattr(torch, name): _as_is(getattr(torch, name))
        for name in _STATE_READS
        if hasattr(torch, name)
    },
}

#: Functions that expect what they ask.
CHECKS: Final = frozenset(
    {getattr(torch, name) for name in _CHECKS} | {_ASSERT, _CHECK_WITH, _CHECK_IS_SIZE, _CHECK_ALL}
)
