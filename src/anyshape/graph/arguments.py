"""Arguments as rows take them: torch's names, one spelling of each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

import torch.nn.functional

from anyshape.ops.op import Op

#: Names that torch takes for the same parameter.
SYNONYMS: Final = {
    "axis": "dim",
    "keepdims": "keepdim",
    "axes": "dims",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "self": "input",
}


def named_as_torch(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not kwargs:
        return args, kwargs
    return args, {SYNONYMS.get(name, name): value for name, value in kwargs.items()}


def without_flag(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
    """Whether a function is asked to work in place, and its arguments but for that flag."""
    place = _place_of_flag(function)
    if place is None:
        return False, args, kwargs
    flag = kwargs.get("inplace", args[place] if len(args) > place else False)
    named = {name: value for name, value in kwargs.items() if name != "inplace"}
    return bool(flag), args[:place], named


@functools.cache
def _place_of_flag(function: Callable[..., Any]) -> int | None:
    """Where `inplace` stands among the arguments of a function of `torch.nn.functional`; it is
    always the last one."""
    if getattr(function, "__module__", "") != torch.nn.functional.__name__:
        return None
    names = list(inspect.signature(function).parameters)
    return names.index("inplace") if "inplace" in names else None
