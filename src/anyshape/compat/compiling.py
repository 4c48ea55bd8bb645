"""The functions of PyTorch's compiler that scripts call, by what anyshape does for them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from anyshape import api
from anyshape.compat.environment import ALL_LOGS, LOGS
from anyshape.compat.unmapped import note

#: Those that only run the captured graph; any other name means generated code.
_EAGER: Final = frozenset({"eager", "eager_noexcept", "eager_debug", "aot_eager", "ts"})
_NATIVE: Final = frozenset({"inductor", "native", None})


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    name: str | None = None,
    disable: bool = False,
    **more: Any,
) -> Any:
    """`torch.compile`."""
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
            **more,
        )
    if disable or os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return model
    chosen = {"mode": mode not in (None, "default"), "options": bool(options)}
    chosen |= {option: value not in (None, False) for option, value in more.items()}
    for option, is_chosen in chosen.items():
        if is_chosen:
            note(f"torch.compile({option}=...)")
    return api.compile(
        model, dynamic=dynamic, fullgraph=fullgraph, backend=_backend(backend), name=name
    )


def _backend(backend: Any) -> Any:
    if callable(backend):
        return backend
    if backend in _EAGER:
        return "eager"
    if backend not in _NATIVE:
        note(f"torch.compile(backend={backend!r})")
    return "native"


def optimize(backend: Any = None, *, nopython: bool = False, dynamic: bool | None = None) -> Any:
    """`torch._dynamo.optimize`, the older name."""
    return functools.partial(compile, backend=backend, fullgraph=nopython, dynamic=dynamic)


def explain(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch._dynamo.explain(function)(*args)`: what anyshape says of it."""
    compiled = api.compile(function)
    return compiled.explain(*args, **kwargs) if args or kwargs else compiled.explain


# -- marks ----------------------------------------------------------------------------------------


def mark_dynamic(
    t: Any,
    index: Any,
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Any = None,
) -> None:
    _only_wishes("mark_dynamic", hint_override=hint_override, specialize_on=specialize_on)
    api.mark_dynamic(t, index, min=min, max=max)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    api.maybe_mark_dynamic(t, index)


def mark_unbacked(
    t: Any,
    index: Any,
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: Any = None,
    shape_id: Any = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    _only_wishes("mark_unbacked", specialize_on=specialize_on, shape_id=shape_id)
    api.mark_unbacked(t, index, min=min or 0, max=max, hint=hint_override)


def mark_static(t: Any, index: Any = None) -> None:
    api.mark_static(t, index)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Where a tensor lies is nothing to us."""


def _only_wishes(function: str, **wishes: Any) -> None:
    for name, value in wishes.items():
        if value is not None:
            note(f"torch._dynamo.{function}({name}=...)")


# -- what says how code is to be compiled: the code itself is right without it --------------------


def as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator, bare or with arguments, that changes nothing."""
    return function if callable(function) else as_it_is


def nothing(*args: Any, **kwargs: Any) -> None:
    """A call without effect: there is no graph to break."""


# -- logs -----------------------------------------------------------------------------------------


def set_logs(*, all: Any = None, **logs: Any) -> None:
    """`torch._logging.set_logs`."""
    chosen: dict[str, Any] = dict.fromkeys(ALL_LOGS, all) if all is not None else {}
    for name, value in logs.items():
        if name in LOGS:
            chosen[LOGS[name]] = value
        elif value not in (None, False):
            note(f"torch._logging.set_logs({name}=...)")
    api.set_logs(**chosen)


#: `torch._dynamo` and `torch._dynamo.decorators`
DYNAMO: Final[Mapping[str, Callable[..., Any]]] = {
    "optimize": optimize,
    "explain": explain,
    "reset": api.reset,
    "mark_dynamic": mark_dynamic,
    "maybe_mark_dynamic": maybe_mark_dynamic,
    "mark_unbacked": mark_unbacked,
    "mark_static": mark_static,
    "mark_static_address": mark_static_address,
    "disable": as_it_is,
    "allow_in_graph": as_it_is,
    "disallow_in_graph": as_it_is,
    "forbid_in_graph": as_it_is,
    "assume_constant_result": as_it_is,
    "nonstrict_trace": as_it_is,
    "graph_break": nothing,
    "is_compiling": torch.compiler.is_compiling,
}
