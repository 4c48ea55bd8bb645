"""The backend `"eager"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx


def run_graph(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """The graph, operator by operator."""
    return graph.forward
