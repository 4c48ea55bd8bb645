"""`torch.vmap` of functions of single numbers: indices of a mask, say.

Eager code gives them tensors with a hidden axis for each `vmap`. Here they are given all positions
at once (`each_position.py`); what maps over rows and the like is left to torch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.each_position import along, at_all_positions
from anyshape.capture.builtins.model import Hooks, Models


class Mapped:
    """What `vmap` gives; for whoever calls it later, too."""

    def __init__(self, function: Any, in_dims: Any, out_dims: Any, **options: Any) -> None:
        functools.update_wrapper(self, function)
        self._given = function, in_dims, out_dims
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return torch.vmap(*self._given, **self._options)(*args, **kwargs)


class _Level(NamedTuple):
    """One `vmap`: whether each of the arguments is mapped over."""

    takes: tuple[bool, ...]


def _vmap(
    hooks: Hooks,
    func: Any,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: Any = None,
) -> object:
    if not callable(func) or chunk_size is not None or randomness != "error":
        raise AbortCapture("vmap with these options")
    return Mapped(func, in_dims, out_dims, randomness=randomness)


def _call(hooks: Hooks, mapped: Mapped, *args: Any, **kwargs: Any) -> object:
    function: Any = mapped
    levels: list[_Level] = []
    while type(function) is Mapped:
        function, in_dims, out_dims = function._given
        dims = (in_dims,) * len(args) if type(in_dims) is int else in_dims
        if kwargs or type(dims) is not tuple or len(dims) != len(args) or out_dims != 0:
            raise AbortCapture("vmap of arguments by name, or of other axes than the first")
        if any(dim is not None and (type(dim) is not int or dim != 0) for dim in dims):
            raise AbortCapture("vmap over other axes than the first, or over nested arguments")
        levels.append(_Level(tuple(dim is not None for dim in dims)))
    sizes = [_size(hooks, level, args) for level in levels]
    given, of_positions = list(args), []
    for place, arg in enumerate(args):
        axes = [axis for axis, level in enumerate(levels) if level.takes[place]]
        if len(axes) > 1:
            raise AbortCapture("vmap over several axes of an argument")
        if axes:
            given[place] = along(hooks, arg, axes[0], len(levels))
            of_positions.append(given[place])
    found = at_all_positions(hooks, "vmap", function, given, of_positions)
    return hooks.call(torch.Tensor.expand, found, *sizes)


def _size(hooks: Hooks, level: _Level, args: Sequence[Any]) -> Any:
    """Of all arguments that are mapped over together."""
    mapped = [arg for arg, is_taken in zip(args, level.takes, strict=True) if is_taken]
    if not mapped or not all(_is_line(arg) for arg in mapped):
        raise AbortCapture("vmap over other than lines of numbers")
    size, *others = (hooks.call(torch.Tensor.size, arg, 0) for arg in mapped)
    if not all(hooks.truth(hooks.compare("eq", size, other)) for other in others):
        raise AbortCapture("vmap over axes whose sizes differ")
    return size


def _is_line(arg: object) -> bool:
    if type(arg) is not torch.Tensor:
        return False
    with torch._C.DisableTorchFunction():
        return arg.dim() == 1


MODELS: Final[Models] = {torch.vmap: _vmap, Mapped.__call__: _call}
