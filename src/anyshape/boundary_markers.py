"""Boundaries that a program asks for: functions that are never compiled, and breaks of the graph.

A compiled function that calls one of these is split there: what stands before and after is
compiled. Nothing here is watched by a capture, which is how it finds the boundary.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar, overload

import torch

from anyshape.arguments import spelled

#: Says of a function, ours or torch's, that it is not to be traced.
MARKS: Final = ("__anyshape_disabled__", "_torchdynamo_disable")

#: What torch.compile says of parts of optimizers that it cannot trace itself. It marks them when it
#: is used for the first time, which says nothing about what the program wants.
_LIMITS: Final = re.compile(r"don't trace into fused optimizer|optimizer .* not supported")


P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=torch.nn.Module)


class _Decorator(Protocol):
    """`disable(reason=...)`: what it is given is left as it is."""

    @overload
    def __call__(self, function: M, /) -> M: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def disable(
    function: None = None, recursive: bool = True, *, reason: str | None = None
) -> _Decorator: ...
@overload
def disable(function: M, recursive: bool = True, *, reason: str | None = None) -> M: ...
@overload
def disable(
    function: Callable[P, R], recursive: bool = True, *, reason: str | None = None
) -> Callable[P, R]: ...
@spelled
def disable(
    function: Callable[..., object] | None = None,
    recursive: bool = True,
    *,
    reason: str | None = None,
) -> Callable[..., object]:
    """Never compile a function or a module; also a decorator, bare or with arguments.

    Compiled code that calls it is split around the call. With `recursive=False` only its own code
    is left as it is, which is all that can be asked of a function that is not traced.

    >>> seen = []
    >>> @anyshape.disable
    ... def remember(x: torch.Tensor) -> None:
    ...     seen.append(x.numpy().tolist())
    >>> @anyshape.compile
    ... def step(x: torch.Tensor) -> torch.Tensor:
    ...     y = x * 2
    ...     remember(y)
    ...     return y + 1
    >>> step(torch.ones(2)), step(torch.zeros(2)), seen
    (tensor([3., 3.]), tensor([1., 1.]), [[2.0, 2.0], [0.0, 0.0]])
    """
    if function is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(function, torch.nn.Module):
        function.forward = disable(function.forward, recursive, reason=reason)
        return function
    return _disabled(function, reason)


def _disabled(function: Callable[..., Any], reason: str | None) -> Callable[..., Any]:
    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    setattr(disabled, MARKS[0], reason or "it is disabled")
    return disabled


@spelled
def graph_break(msg: str = "") -> None:
    """End the graph here and begin another one; nothing outside of compiled code.

    >>> @anyshape.compile
    ... def step(x: torch.Tensor) -> torch.Tensor:
    ...     y = x * 2
    ...     anyshape.graph_break()
    ...     return y + 1
    >>> step(torch.ones(2)), step(torch.zeros(2))
    (tensor([3., 3.]), tensor([1., 1.]))
    """


setattr(graph_break, MARKS[0], "anyshape.graph_break() is called")


def dynamo_graph_break(msg: str = "") -> None:
    """`torch._dynamo.graph_break` of a program that runs on anyshape. It has no mark of its own:
    torch's own code, which breaks graphs for its compiler, has none for ours."""


def why_disabled(function: Any) -> str | None:
    """Why a function is not to be traced, if so."""
    held = getattr(function, "__dict__", None) or {}
    for mark in MARKS:
        found = held.get(mark)
        if found:
            return found if isinstance(found, str) else "it is disabled"
    return None


def traceable_behind(function: Any) -> Any:
    """What is to be traced in the place of a function that another compiler has compiled, or that
    is disabled for its sake alone; None if there is nothing of the kind."""
    held = getattr(function, "__dict__", None) or {}
    if isinstance(function, torch.nn.Module):
        is_compiled = _is_of_dynamo(type(function).__module__)
        return held["_modules"].get("_orig_mod") if is_compiled else None
    said = held.get("_torchdynamo_disable_msg")
    is_limit = isinstance(said, str) and _LIMITS.fullmatch(said)
    # What wraps such a function has its attributes, too.
    names = getattr(function, "__globals__", {})
    wraps = not held.get(MARKS[1]) and _is_of_dynamo(names.get("__name__"))
    if not is_limit and not wraps:
        return None
    # An object that is called is in a function of its own first.
    is_object = function.__code__.co_qualname.startswith("wrap_inline.")
    return held.get("__wrapped__" if is_object else "_torchdynamo_orig_callable")


def _is_of_dynamo(module: object) -> bool:
    return isinstance(module, str) and module.startswith("torch._dynamo.")
