"""The backend `"native"`: kernels where operators have native code, torch for the rest.

What cannot be lowered at all, and what fails on the way, runs as the backend `"eager"` does, with
an event that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from anyshape.backends.eager import run_graph
from anyshape.backends.python_host import python_host
from anyshape.codegen.llvm import module, scratch_bytes
from anyshape.config import config
from anyshape.graph.lowering import Lowering, Unlowerable
from anyshape.graph.schedule import Schedule, schedule
from anyshape.loops import scalars
from anyshape.loops.program import Segment
from anyshape.loops.text import segment_text
from anyshape.native import native_function
from anyshape.ops.node_notes import FACTS


def run_native(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A function of the graph's inputs that runs native code."""
    try:
        with scalars.fresh_scope():
            made = lowered(graph)
            if not any(isinstance(part, Segment) for part in made.parts):
                return run_graph(graph, examples)
            return python_host(made, segment_function, graph.graph)
    except Unlowerable:
        return run_graph(graph, examples)
    except Exception:
        if config.on_compile_error == "raise":
            raise
        return run_graph(graph, examples)


def lowered(graph: torch.fx.GraphModule) -> Schedule:
    lowering = Lowering(graph.meta[FACTS])
    return schedule(lowering.run(graph.graph), lowering.same)


def segment_function(segment: Segment) -> Callable[..., Any]:
    ranges = ", ".join(f"{symbol.name} in {symbol.declared}" for symbol in segment.symbols)
    key = f"{segment_text(segment)}\n{ranges}"
    return native_function(segment, module, scratch_bytes, key=key)
