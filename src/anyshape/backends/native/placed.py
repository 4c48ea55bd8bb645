"""Graphs on several devices, and CUDA graphs around what cannot be recorded: part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.backends.eager import run_graph, run_graph_later
from anyshape.backends.native.alias_check import may_write, no_alias
from anyshape.backends.native.report import NativeReport, StagedReport
from anyshape.backends.native.training import in_stages
from anyshape.config import config
from anyshape.graph.alias_analysis import Sharing, result_of
from anyshape.graph.fallback import may_write as writes
from anyshape.graph.functionalize import FunctionalGraph
from anyshape.graph.placed_stages import device_of, placed_stages
from anyshape.graph.plan import Unlowerable
from anyshape.graph.size_symbols import shown_by
from anyshape.graph.stage import Stage
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CUDA_GRAPHS, EXPECTED, REPORT, SYMBOL


def placed(graph: torch.fx.GraphModule) -> list[Stage]:
    """The graph in parts, if it is on several devices, or would be a CUDA graph but for some of its
    operators; empty if it is not worth it."""
    if not any(device.type == "cuda" for device in map(device_of, graph.graph.nodes) if device):
        return []
    if not wants_cuda_graphs(graph):
        return placed_stages(graph.graph)
    from anyshape.backends.native.cuda_graphs import recordable_place

    return placed_stages(graph.graph, recordable_place)


def built_in_places(
    graph: torch.fx.GraphModule,
    parts: Sequence[Stage],
    build: Callable[[torch.fx.GraphModule], Callable[..., Any]],
) -> Callable[..., Any]:
    """A function of the graph's inputs that runs its parts one after the other."""
    built: list[Callable[..., Any]] = []
    reports: list[Any] = []
    expected = list(graph.meta.get(EXPECTED, ()))
    for part in parts:
        own = _LazyGraphModule(torch.nn.Module(), part.graph)
        # What is known to be true of data is checked by the first part that could rely on it.
        known = {*part.symbols, *shown_by(part.graph.nodes)}
        known |= {node.meta[SYMBOL] for node in part.graph.nodes if SYMBOL in node.meta}
        checked = tuple(fact for fact in expected if fact.symbols <= known)
        expected = [fact for fact in expected if fact not in checked]
        own.meta |= graph.meta | {EXPECTED: checked}
        try:
            built.append(build(own))
        except Unlowerable as why:
            own.meta[REPORT] = NativeReport(whole=str(why))
            built.append(run_graph(own, []))
        reports.append(own.meta[REPORT])
    if expected or all(each.whole for each in reports):
        raise Unlowerable("what is known of data is spread over several devices")
    graph.meta[REPORT] = StagedReport(reports)
    run = in_stages(FunctionalGraph(graph.graph), parts, built)
    return _where_apart(graph, run)


def _where_apart(graph: torch.fx.GraphModule, run: Callable[..., Any]) -> Callable[..., Any]:
    """Stages are not in the order of the program, which shows where a tensor that is written to
    shares memory with another one: the graph runs as it is."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    sharing = Sharing(graph.graph, writes)
    tensors = [number for number, node in enumerate(inputs) if isinstance(result_of(node), Meta)]
    written = [number for number in tensors if sharing.is_written_to(inputs[number])]
    if not written:
        return run
    others = [number for number in tensors if number not in written]
    apart, as_it_is = no_alias(), run_graph_later(graph)

    def checked(*args: Any) -> Any:
        changed, rest = [args[n] for n in written], [args[n] for n in others]
        if apart(len(changed), *changed, *rest) or may_write(changed, rest):
            return run(*args)
        return as_it_is(*args)

    return checked


def wants_cuda_graphs(graph: torch.fx.GraphModule) -> bool:
    wanted = config.cuda_graphs
    return bool(graph.meta.get(CUDA_GRAPHS) if wanted == "auto" else wanted)
