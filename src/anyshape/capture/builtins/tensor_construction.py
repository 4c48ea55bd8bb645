"""Models of parameters, and of old ways to make a tensor: `torch.LongTensor(…)`, `x.new(…)`.

A list is data; numbers, or a shape, are sizes, and what is in the tensor is left open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.numbers.concolic import TracedInt

#: The class of `torch.LongTensor` and its like.
TENSOR_TYPE: Final = type(torch.LongTensor)


def make(hooks: Hooks, kind: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """`torch.LongTensor(…)`, or `torch.Tensor(…)`, which has the default dtype."""
    if kwargs or (isinstance(kind, TENSOR_TYPE) and kind.is_cuda):
        raise AbortCapture(f"{kind.__name__}(…) on a device")
    dtype = torch.get_default_dtype() if kind is torch.Tensor else kind.dtype
    return _made(hooks, args, torch.empty, torch.tensor, (), {"dtype": dtype, "device": "cpu"})


def _new(hooks: Hooks, tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
    if kwargs:
        raise AbortCapture("`new` on a device")
    methods = torch.Tensor.new_empty, torch.Tensor.new_tensor
    return _made(hooks, args, *methods, (tensor,), {})


def _made(
    hooks: Hooks,
    args: tuple[object, ...],
    of_sizes: Callable[..., object],
    of_data: Callable[..., object],
    first: tuple[object, ...],
    options: dict[str, object],
) -> Any:
    run = hooks.recorder.run
    if len(args) == 1 and type(args[0]) is torch.Size:
        return run(of_sizes, (*first, tuple(hooks.iterate(args[0]))), options)
    if all(type(arg) in (int, TracedInt) for arg in args):
        return run(of_sizes, (*first, args or (0,)), options)
    if len(args) == 1 and type(args[0]) in (list, tuple):
        return run(of_data, (*first, list(hooks.iterate(args[0]))), options)
    raise AbortCapture(f"a tensor is made of a {type(args[0]).__name__}")


def _type(
    hooks: Hooks, tensor: torch.Tensor, dtype: object = None, *args: object, **kwargs: object
) -> object:
    """`x.type(torch.LongTensor)`."""
    if isinstance(dtype, TENSOR_TYPE):
        if dtype.is_cuda or not tensor.is_cpu:
            raise AbortCapture("`type` moves a tensor")
        dtype = dtype.dtype
    if dtype is None:
        hooks.recorder.known(tensor)
        with torch._C.DisableTorchFunction():
            return tensor.type()
    return hooks.recorder.run(torch.Tensor.type, (tensor, dtype, *args), kwargs)


def _parameter(hooks: Hooks, data: object = None, requires_grad: object = True) -> object:
    if type(data) is not torch.Tensor:
        raise AbortCapture(f"a parameter is made of a {type(data).__name__}")
    return hooks.recorder.run(torch.nn.Parameter, (data, hooks.truth(requires_grad)), {})


#: Methods of tensors that are another operation in the graph.
def _require_grad(hooks: Hooks, tensor: Any, requires_grad: Any = True) -> object:
    recorder = hooks.recorder
    if requires_grad is True and recorder.meta(tensor).requires_grad:
        with torch._C.DisableTorchFunction():
            if tensor.requires_grad:
                return tensor  # It has a gradient, and nothing happens.
    return recorder.run(torch.Tensor.requires_grad_, (tensor, requires_grad), {})


METHODS: Final[Models] = {
    torch.Tensor.requires_grad_: _require_grad,
    torch.Tensor.new: _new,
    torch.Tensor.type: _type,
}

MODELS: Final[Models] = {torch.nn.Parameter: _parameter}
