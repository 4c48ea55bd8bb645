"""Torch's own compiler in a program that is captured: what it compiles is followed as it is.

Functions that it has compiled already are known by what they carry (`boundary_markers.py`).
"""

from __future__ import annotations

from typing import Any, Final

import torch

from anyshape.boundary_markers import dynamo_graph_break
from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models

#: What a program says about sizes of tensors, which are in the graph by now.
_MARKS: Final = frozenset(
    {
        *("mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked"),
        "mark_static_address",
    }
)
_BREAK: Final = frozenset({"graph_break"})


def is_mark(function: Any) -> bool:
    return _is_decorator(function, _MARKS)


def is_break(function: Any) -> bool:
    return function is dynamo_graph_break or _is_decorator(function, _BREAK)


def _is_decorator(function: Any, names: frozenset[str]) -> bool:
    name = getattr(function, "__name__", None)
    return name in names and function.__module__ == "torch._dynamo.decorators"


def break_graph(hooks: Hooks) -> None:
    """Where torch's own code breaks graphs (around the step of an optimizer) it does so for its
    compiler: ours needs none there."""
    if not hooks.tracer.user_frames.is_torch_running():
        raise AbortCapture("torch._dynamo.graph_break() is called")


def _compile(hooks: Hooks, model: object = None, **options: object) -> object:
    return _itself if model is None else model


def _itself(model: object) -> object:
    return model


MODELS: Final[Models] = {
    vars(torch)["compile"]: _compile,
    _itself: lambda hooks, model: model,
}
