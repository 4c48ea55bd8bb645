"""`torch.func.grad` and `grad_and_value`: the function runs once, in the graph, and its gradients
are an operator of it (`ops/families/autograd_gradients.py`).

Gradients that have gradients themselves, and other transforms, are torch's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map_only

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.backward import gradients_of, leaves_of
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.externals.untrace import untraced

_switch: Final[Any] = torch._C._set_grad_enabled


def _gradient(
    function: Any, argnums: Any, has_aux: bool, with_value: bool, *args: Any, **kwargs: Any
) -> Any:
    """What stands for a transformed function, wherever it is called."""
    transform: Any = torch.func.grad_and_value if with_value else torch.func.grad
    return transform(function, argnums, has_aux)(*args, **kwargs)


def _transform(with_value: bool) -> Callable[..., object]:
    def model(hooks: Hooks, func: Any, argnums: Any = 0, has_aux: Any = False) -> object:
        numbers = argnums if type(argnums) is tuple else (argnums,)
        if type(has_aux) is not bool or not all(type(n) is int and n >= 0 for n in numbers):
            raise AbortCapture("`torch.func.grad` with such arguments")
        return functools.partial(_gradient, func, argnums, has_aux, with_value)

    return model


def _call(
    hooks: Hooks,
    function: Any,
    argnums: Any,
    has_aux: bool,
    with_value: bool,
    *args: Any,
    **kwargs: Any,
) -> object:
    numbers = argnums if type(argnums) is tuple else (argnums,)
    records = torch.is_grad_enabled()
    is_odd = hooks.grads is not None or torch.is_inference_mode_enabled()
    if is_odd or not numbers or max(numbers) >= len(args):
        raise AbortCapture("`torch.func.grad` with such arguments")
    given = [hooks.operand(each) if hooks.outside.is_external(each) else each for each in args]
    with torch._C.DisableTorchFunction():
        if records and any(each.requires_grad for each in _tensors((given, kwargs))):
            raise AbortCapture("`torch.func.grad` of tensors that have gradients")
    call = hooks.call
    leaves: dict[int, torch.Tensor] = {}

    def leaf(tensor: Any) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise AbortCapture("`torch.func.grad` of what is no tensor")
        if not tensor.is_floating_point():
            raise AbortCapture("`torch.func.grad` of integers")
        made = call(torch.Tensor.requires_grad_, call(torch.Tensor.detach, tensor))
        leaves[id(made)] = made
        return made

    for number in dict.fromkeys(numbers):
        given[number] = _mapped(leaf, given[number])
    call(_switch, True)
    try:
        found = call(function, *given, **kwargs)
        result, aux = _checked(found, has_aux)
        grads = _grads(hooks, result, leaves, records)
    finally:
        call(_switch, records)

    def gradient(tensor: torch.Tensor) -> object:
        grad = grads[id(tensor)]
        return call(torch.zeros_like, tensor) if grad is None else grad

    def detached(tensor: torch.Tensor) -> object:
        return call(torch.Tensor.detach, tensor)

    all_of = [_mapped(gradient, given[number]) for number in numbers]
    made: Any = tuple(all_of) if type(argnums) is tuple else all_of[0]
    value = (detached(result), _beside(hooks, detached, aux) if has_aux else None)
    if not with_value:
        return (made, value[1]) if has_aux else made
    return (made, value if has_aux else value[0])


def _checked(found: Any, has_aux: bool) -> tuple[torch.Tensor, Any]:
    """The number that a function gives, and what it gives beside it, or torch's own error."""
    with torch._C.DisableTorchFunction():
        pair = found if has_aux else (found, None)
        result = pair[0] if type(pair) is tuple and len(pair) == 2 else None
        if isinstance(result, torch.Tensor) and not result.dim() and result.is_floating_point():
            return pair
        torch.func.grad(lambda _: found, 0, has_aux)(torch.zeros(()))
    raise AbortCapture("`torch.func.grad` of a function that gives no number")


def _grads(
    hooks: Hooks, result: torch.Tensor, leaves: dict[int, torch.Tensor], records: bool
) -> dict[int, Any]:
    """By identity of the tensors; None where no gradient reaches one. The function has run, and
    does not again: what the graph cannot have is computed here, and ends the capture."""
    tensors = list(leaves.values())
    with torch._C.DisableTorchFunction():
        if not result.requires_grad:
            return dict.fromkeys(leaves)
        others = [each for each in leaves_of([result]) if id(each) not in leaves]
    if hooks.tracer.active and not (records and others):
        found = gradients_of(hooks, [result], tensors, [None], None, False, True)
        return dict(zip(leaves, found, strict=True))
    hooks.tracer.abort("`torch.func.grad` over tensors that have gradients")
    again = bool(records and others)
    made = torch.autograd.grad(result, tensors, create_graph=again, allow_unused=True)
    return dict(zip(leaves, made, strict=True))


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    kind = type(tree)
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if kind is dict:
        return {key: _mapped(function, each) for key, each in tree.items()}
    if kind in (tuple, list):
        return kind(_mapped(function, each) for each in tree)
    raise AbortCapture(f"`torch.func.grad` with a {kind.__name__}")


def _beside(hooks: Hooks, function: Callable[[Any], Any], tree: Any) -> Any:
    kind = type(tree)
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if kind is dict:
        return {key: _beside(hooks, function, each) for key, each in tree.items()}
    if kind in (tuple, list):
        return kind(_beside(hooks, function, each) for each in tree)
    hooks.tracer.abort(f"`torch.func.grad` gives a {kind.__name__}")
    plain = untraced(tree)
    # Where torch takes nothing but tensors, this is its error.
    torch.func.grad(lambda x: (x, plain), has_aux=True)(torch.zeros(()))
    return tree_map_only(torch.Tensor, torch.Tensor.detach, plain)


def _tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    items = tree.values() if type(tree) is dict else tree if type(tree) in (tuple, list) else ()
    return [tensor for each in items for tensor in _tensors(each)]


MODELS: Final[Models] = {
    torch.func.grad: _transform(with_value=False),
    torch.func.grad_and_value: _transform(with_value=True),
    _gradient: _call,
}
