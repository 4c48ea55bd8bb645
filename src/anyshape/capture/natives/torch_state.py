"""Models of torch functions that are not operations: questions about torch's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._jit_internal import is_scripting
from torch.jit._trace import is_tracing
from torch.overrides import (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

from anyshape.capture.tracer import Leave

Hooks = Any


def _true(hooks: Hooks, *args: Any) -> bool:
    return True


def _false(hooks: Hooks, *args: Any) -> bool:
    return False


def _as_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """A read of torch's state that the guard of the state covers, or a pure function."""
    return lambda hooks, *args, **kwargs: function(*args, **kwargs)


def _check(hooks: Hooks, condition: Any, message: Any = None) -> None:
    """`torch._check`: traced conditions have become guards by now."""
    if isinstance(condition, torch.Tensor):
        raise Leave("torch._check of a tensor")
    if not hooks.truth(condition):
        torch._check(False, message)


_STATE_READS: Final = (
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "get_default_dtype",
    "is_autocast_enabled",
    "is_autocast_cpu_enabled",
    "get_autocast_dtype",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "are_deterministic_algorithms_enabled",
    "get_num_threads",
    "get_float32_matmul_precision",
    "is_storage",
    "finfo",
    "iinfo",
    "device",
    "promote_types",
    "can_cast",
)

_FALSE: Final = (
    torch.compiler.is_exporting,
    is_scripting,
    is_tracing,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

MODELS: Final[dict[Any, Callable[..., Any]]] = {
    torch._check: _check,
    torch.compiler.is_compiling: _true,
    torch.compiler.is_dynamo_compiling: _true,
    torch._C._log_api_usage_once: lambda hooks, *args: None,
    torch._C._get_tracing_state: lambda hooks: None,
    torch.is_tensor: lambda hooks, value: isinstance(value, torch.Tensor),
    **dict.fromkeys(_FALSE, _false),
    **{
        getattr(torch, name): _as_is(getattr(torch, name))
        for name in _STATE_READS
        if hasattr(torch, name)
    },
}
