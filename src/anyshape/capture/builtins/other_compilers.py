"""Torch's own compiler in a program that is captured: what it compiles is followed as it is.

Functions that it has compiled already are known by what they carry (`boundary_markers.py`).
"""

from __future__ import annotations

from typing import Any, Final

import torch

from anyshape.capture.builtins.model import Hooks, Models

#: What a program says about sizes of tensors, which are in the graph by now.
_MARKS: Final = frozenset(
    {
        *("mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked"),
        "mark_static_address",
    }
)


def is_mark(function: Any) -> bool:
    name = getattr(function, "__name__", None)
    return name in _MARKS and function.__module__ == "torch._dynamo.decorators"


def _compile(hooks: Hooks, model: object = None, **options: object) -> object:
    return _itself if model is None else model


def _itself(model: object) -> object:
    return model


MODELS: Final[Models] = {
    vars(torch)["compile"]: _compile,
    _itself: lambda hooks, model: model,
}
