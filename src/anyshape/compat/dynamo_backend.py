"""`torch.compile(backend="anyshape")`, for those who keep torch's own capture in front.

torch finds this by an entry point, and gives it the graphs that it has captured. A graph is a
module like any other: it is captured again, and compiled, by its first call. What torch has taken
for dynamic is dynamic here too, and what it guards is a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from anyshape import api
from anyshape.backends import run_graph
from anyshape.compiler.arguments import check_tuning, mode_of
from anyshape.shapes import Dim


def compile_graph(
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """A function of the graph's inputs; `examples` are what torch has traced with."""
    check_tuning(mode, options)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    traced = [_traced_with(node, each) for node, each in zip(inputs, examples, strict=True)]
    said = {index: spec for index, each in enumerate(traced) if (spec := _spec(each)) is not None}
    # Its Python code, which torch writes only when it is needed.
    forward = run_graph(graph, [])
    chosen, name = mode_of(mode, options), type(graph).__name__
    return api.compile(forward, shapes=said or None, mode=chosen, name=name)


def _traced_with(node: torch.fx.Node, example: Any) -> Any:
    """An input with the sizes that torch has for it: the example is what the first call has, unless
    it comes from a later stage of torch."""
    return node.meta.get("example_value", node.meta.get("val", example))


def _spec(example: Any) -> object:
    """What torch knows of an input; None where that is nothing."""
    if isinstance(example, torch.SymInt):
        return Dim.AUTO
    if isinstance(example, torch.Tensor) and not example.is_nested:
        return tuple(map(_size, example.shape))
    return None


def _size(size: int | torch.SymInt) -> object:
    return Dim.AUTO if isinstance(size, torch.SymInt) else int(size)
