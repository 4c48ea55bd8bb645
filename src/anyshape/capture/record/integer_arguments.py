"""Tensors that are given where an operator takes an integer.

torch reads such a tensor (`x.chunk(t)`, `x.sum(dim=t)`, `x.view(t, 2)`), so what the operator does,
and the shapes of its results, depend on data in a way that no graph shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.tracer import ATOMS

_schemas_of: Any = torch._C._jit_get_schemas_for_operator

#: What an argument may be declared as for a tensor to be taken as it is.
_TENSORS: Final = ("Tensor", "Scalar", "number", "Any")


def reads_a_tensor(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether an operator takes the value of a tensor for one of its integers."""
    held = [place for place, arg in enumerate(args) if place and _is_number(arg)]
    if kwargs:
        held += [name for name, arg in kwargs.items() if _is_number(arg)]
    if not held:
        return False
    name = getattr(function, "__name__", "")
    return any(_takes_integers(name, place) for place in held)


def _is_number(value: Any) -> bool:
    """Whether it is a tensor that Python can take for an integer, or has one in it."""
    kind = type(value)
    if kind in ATOMS:
        return False
    if issubclass(kind, torch.Tensor):
        return value.dim() == 0 and not value.dtype.is_floating_point
    return issubclass(kind, (list, tuple)) and any(map(_is_number, value))


@functools.lru_cache(maxsize=1024)
def _takes_integers(name: str, place: int | str) -> bool:
    """Whether all forms of an operator that have an argument there take integers for it."""
    declared = [
        str(argument.type)
        for schema in _schemas_of(f"aten::{name}")
        for position, argument in enumerate(schema.arguments)
        if argument.name == place or (position == place and not argument.kwarg_only)
    ]
    return bool(declared) and not any(kind in each for each in declared for kind in _TENSORS)
