"""The backend `"eager"`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.graph.checkpoint_regions import with_checkpoints


def run_graph(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """The graph, operator by operator."""
    graph = with_checkpoints(graph)
    _LazyGraphModule.force_recompile(graph)
    return graph.forward


def run_graph_later(graph: torch.fx.GraphModule) -> Callable[..., Any]:
    """The same, where it is hardly ever called: its Python code is written by the first call."""
    made = functools.cache(lambda: run_graph(graph, []))
    return lambda *args: made()(*args)


def with_code(backend: Callable[..., Any]) -> Callable[..., Any]:
    """A backend of the user's, given graphs whose Python code is written."""

    @functools.wraps(backend)
    def given(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        _LazyGraphModule.force_recompile(graph)
        return backend(graph, examples)

    return given
