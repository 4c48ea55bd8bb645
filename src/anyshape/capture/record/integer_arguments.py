"""Tensors that are given where an operator takes an integer.

torch reads such a tensor (`x.chunk(t)`, `torch.zeros(2, t)`, `x.view(t, 2)`), so what the operator
does, and the shapes of its results, depend on data in a way that no graph shows.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from anyshape.capture.value_kinds import ATOMS
from anyshape.ops.kernel_launch import KernelLaunch

_schemas_of: Any = torch._C._jit_get_schemas_for_operator

#: What an argument may be declared as for a tensor to be taken as it is.
_TENSORS: Final = ("Tensor", "Scalar", "number", "Any")


def tensors_read(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> list[int | str]:
    """Which arguments of an operator are tensors, or have tensors in them, whose values it takes
    for integers."""
    if isinstance(function, KernelLaunch):
        return []
    held: list[int | str] = [place for place, arg in enumerate(args) if _is_number(arg)]
    if kwargs:
        held += [name for name, arg in kwargs.items() if _is_number(arg)]
    return [place for place in held if _takes_integers(function, place)]


def _is_number(value: Any) -> bool:
    """Whether it is a tensor that Python can take for an integer, or has one in it."""
    kind = type(value)
    if kind in ATOMS:
        return False
    if issubclass(kind, torch.Tensor):
        return value.numel() == 1 and not value.dtype.is_floating_point
    return issubclass(kind, (list, tuple)) and any(map(_is_number, value))


def numbers_in(value: Any, read: Callable[[torch.Tensor], object]) -> object:
    """An argument with the numbers in place of such tensors."""
    if isinstance(value, torch.Tensor):
        return read(value) if _is_number(value) else value
    return type(value)(numbers_in(item, read) for item in value) if _is_number(value) else value


@functools.lru_cache(maxsize=4096)
def _takes_integers(function: Callable[..., object], place: int | str) -> bool:
    """Whether no form of an operator takes a tensor there."""
    declared: list[str] = []
    if isinstance(function, types.FunctionType):
        declared = _annotated(function, place)
    declared = declared or list(_declared(getattr(function, "__name__", ""), place))
    return bool(declared) and not any(kind in each for each in declared for kind in _TENSORS)


def _annotated(function: types.FunctionType, place: int | str) -> list[str]:
    """What a function that is written in Python says of a parameter, if it does."""
    if isinstance(place, int):
        code = function.__code__
        others = code.co_argcount + code.co_kwonlyargcount
        takes_more = code.co_flags & inspect.CO_VARARGS
        at = place if place < code.co_argcount else others if takes_more else None
        place = "" if at is None else code.co_varnames[at]
    found = function.__annotations__.get(place)
    return [] if found is None else [str(found)]


def _declared(name: str, place: int | str) -> Iterable[str]:
    """The types of an argument in all forms of a native operator."""
    for schema in _schemas_of(f"aten::{name}"):
        positional = [each for each in schema.arguments if not each.kwarg_only]
        for number, argument in enumerate(schema.arguments):
            if argument.name == place or (number == place and not argument.kwarg_only):
                yield str(argument.type)
        if isinstance(place, int) and place >= len(positional) and positional:
            # Sizes and dimensions may be given one by one.
            last = str(positional[-1].type)
            if last.startswith("List[") and "Tensor" not in last:
                yield last
