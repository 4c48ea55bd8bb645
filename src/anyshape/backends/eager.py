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
    made: Callable[..., Any] | None = None

    def run(*args: Any) -> Any:
        nonlocal made
        if made is None:
            made = run_graph(graph, [])
        return made(*args)

    return run


def with_checks(backend: Callable[..., Any]) -> Callable[..., Any]:
    """A backend of the user's: it is given graphs whose Python code is written, and what its
    functions return is checked."""

    @functools.wraps(backend)
    def given(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        _LazyGraphModule.force_recompile(graph)
        results: Any = graph.graph.output_node().args[0]
        count = len(results)
        made = backend(graph, examples)
        return _returning(made, count) if callable(made) and count else made

    return given


def _returning(made: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function that has to return so many results. A single tensor will not do, though it can be
    unpacked: into its rows."""

    def run(*args: Any) -> Any:
        found = made(*args)
        if isinstance(found, tuple | list) and len(found) == count:
            return found
        many = f"{len(found)} results" if isinstance(found, tuple | list) else repr(type(found))
        raise TypeError(f"the backend's function returned {many}, not a tuple of {count}")

    return run
