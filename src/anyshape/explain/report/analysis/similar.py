"""Graphs with the same operators in the same order on the same tensors: sizes and integers aside,
they are one graph, which a dynamic compile could serve."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from anyshape.events.kinds import GraphCompiled
from anyshape.explain.trace_model import Process, TracedEntry, TracedFunction

_TENSOR: Final = re.compile(r"(\w+)\[(.*)\]")


class Member(NamedTuple):
    function: TracedFunction
    entry: TracedEntry
    graph: GraphCompiled


Key = tuple[tuple[str, ...], tuple[tuple[str, str, int], ...]]


def key_of(graph: GraphCompiled) -> Key:
    """The operators, and of each input that is a tensor its name, type and number of dimensions."""
    tensors: list[tuple[str, str, int]] = []
    for name, what in graph.inputs.items():
        found = _TENSOR.fullmatch(what)
        if found is not None:
            sizes = found[2].strip()
            tensors.append((name, found[1], sizes.count(",") + 1 if sizes else 0))
    return tuple(graph.operators), tuple(tensors)


def similar_graphs(process: Process) -> list[Sequence[Member]]:
    """Groups of two or more from different entries, the largest first; graphs without operators
    are alike by accident."""
    groups: dict[Key, list[Member]] = {}
    for function in process.functions:
        for entry in function.entries:
            for graph in entry.graphs:
                if graph.operators:
                    groups.setdefault(key_of(graph), []).append(Member(function, entry, graph))
    found = [group for group in groups.values() if len({m.entry.key for m in group}) > 1]
    return sorted(found, key=lambda group: -len(group))
