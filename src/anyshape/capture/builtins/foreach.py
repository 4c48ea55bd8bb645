"""`torch._foreach_*` on a CPU: the operator on one tensor after the other, as torch does it there.

One call on lists is one operator that nothing can be fused with. Elsewhere, and where gradients are
recorded, it stays that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models

#: A list of more tensors stays one call: each would be several operators of a graph.
_MOST: Final = 128

#: With lists, numbers or a tensor as second argument.
_BINARY: Final = ("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum")
_UNARY: Final = (
    *("abs", "exp", "log", "neg", "reciprocal", "sign", "sqrt", "rsqrt", "sigmoid", "tanh"),
    *("zero", "copy", "clone", "lerp"),
)
#: With factors behind two lists: one for all, one each, or a tensor of them.
_SCALED: Final = ("addcdiv", "addcmul")
#: What torch calls for one tensor, where that has another name.
_METHODS: Final = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _foreach(name: str, scaled: bool) -> Callable[..., object]:
    function = getattr(torch, f"_foreach_{name}")
    base = name.rstrip("_")
    method = getattr(torch.Tensor, name.replace(base, _METHODS.get(base, base)))

    def model(hooks: Hooks, *args: object, **kwargs: object) -> object:
        rows = _rows(hooks, args)
        if rows is None or (scaled and not _has_factors(args, len(rows))):
            return hooks.recorder.run(function, args, kwargs)
        made: list[Any] = []
        for index, own in enumerate(rows):
            if name == "mul_":
                own[1] = _rounded(hooks, *own)
            if not scaled or len(own) < 4:
                made.append(hooks.call(method, *own, **kwargs))
                continue
            # Torch reads the numbers of tensors: of one for all, or of one each.
            if isinstance(args[3], torch.Tensor):
                own[3] = hooks.item(own[3], index)
            made.append(hooks.call(method, *own[:3], value=own[3], **kwargs))
        return made if name.endswith("_") else tuple(made)

    return model


def _pow(hooks: Hooks, base: object, exponents: object, **kwargs: object) -> object:
    """Of one number to the power of tensors, too."""
    rows = _rows(hooks, (exponents,)) if isinstance(base, int | float) else None
    if rows is None:
        return _foreach("pow", scaled=False)(hooks, base, exponents, **kwargs)
    return tuple(hooks.call(torch.pow, base, *own, **kwargs) for own in rows)


def _norm(hooks: Hooks, tensors: object, ord: Any = 2, dtype: Any = None) -> object:
    rows = _rows(hooks, (tensors,))
    if rows is None:
        return hooks.recorder.run(getattr(torch, "_foreach_norm"), (tensors, ord, dtype), {})  # noqa: B009
    return tuple(hooks.call(torch.linalg.vector_norm, *own, ord, dtype=dtype) for own in rows)


def _rounded(hooks: Hooks, tensor: Any, factor: object) -> object:
    """A number as torch has it in half precision, where `Tensor.mul_` does not round it first."""
    with torch._C.DisableTorchFunction():
        dtype = tensor.dtype
    if isinstance(factor, torch.Tensor) or dtype not in (torch.bfloat16, torch.float16):
        return factor
    # Whatever the default device is: on another one it would take the tensor along, or be refused.
    return hooks.call(torch.full, (), factor, dtype=dtype, device="cpu")


def _has_factors(args: Sequence[object], count: int) -> bool:
    """Whether factors that stand in one tensor are one for each."""
    if len(args) < 4 or not isinstance(args[3], torch.Tensor):
        return True
    with torch._C.DisableTorchFunction():
        return args[3].shape == (count,)


def _rows(hooks: Hooks, args: Sequence[object]) -> list[list[object]] | None:
    """The arguments for one tensor after the other; None if torch is to take them together."""
    lists = [arg for arg in args if isinstance(arg, list | tuple)]
    if not lists or lists[0] is not args[0]:
        return None
    counts = {int(hooks.call(len, each)) for each in lists}
    if len(counts) != 1 or not 0 < min(counts) <= _MOST:
        return None
    rows = [
        [hooks.item(arg, index) if isinstance(arg, list | tuple) else arg for arg in args]
        for index in range(min(counts))
    ]
    recorded = torch.is_grad_enabled()
    with torch._C.DisableTorchFunction():
        for each in (each for row in rows for each in row):
            if isinstance(each, torch.Tensor):
                if each.device.type != "cpu" or (recorded and each.requires_grad):
                    return None
            elif not isinstance(each, int | float):
                return None
    return rows


def _groups(hooks: Hooks, lists: object, with_indices: bool = False) -> object:
    """Tensors by device and dtype, which are guarded where tensors are read."""
    plain = [[*hooks.iterate(each)] for each in hooks.iterate(lists)]
    if not all(isinstance(each, torch.Tensor | None) for own in plain for each in own):
        raise AbortCapture("tensors are grouped with what is none")
    with torch._C.DisableTorchFunction():
        return _GROUPS(plain, with_indices)


_GROUPS: Final = getattr(torch._C, "_group_tensors_by_device_and_dtype")  # noqa: B009
_OTHERS: Final[Models] = {
    **{
        getattr(torch, name): model
        for name, model in (("_foreach_pow", _pow), ("_foreach_norm", _norm))
        if hasattr(torch, name)
    },
    _GROUPS: _groups,
}
MODELS: Final[Models] = {
    getattr(torch, f"_foreach_{name}{end}"): _foreach(name + end, name in _SCALED)
    for name in (*_BINARY, *_UNARY, *_SCALED)
    for end in ("", "_")
    if hasattr(torch, f"_foreach_{name}{end}")
    and hasattr(torch.Tensor, _METHODS.get(name, name) + end)
} | _OTHERS
