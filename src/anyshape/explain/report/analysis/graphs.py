"""What became of operators: native code, or a call of torch and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from anyshape.events.kinds import GraphCompiled
from anyshape.explain.trace_model import Process, TracedEntry, TracedFunction
from anyshape.support.lazy_dataclass import dataclass, field

_NATIVE: Final = re.compile(
    r"native code: ([0-9]{1,9}) operators? in ([0-9]{1,9}) (?:foreign|native) calls?"
)
_CALLED: Final = re.compile(r"(?s)torch is called for `(.*?)`: (.*)")
_NONE: Final = re.compile(r"(?s)no native code: (.*)")


@dataclass(slots=True)
class Share:
    """Of the graphs of a function."""

    graphs: int = 0
    operators: int = 0
    native: int = 0
    foreign_calls: int = 0
    #: operator and reason -> keys of the entries
    called: dict[tuple[str, str], list[str]] = field(
        default_factory=dict[tuple[str, str], list[str]]
    )
    #: reason -> keys of entries with a graph that has no native code at all
    without: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def share_of(function: TracedFunction) -> Share:
    """Of all graphs of the function."""
    share = Share()
    for entry in function.entries:
        for graph in entry.graphs:
            share.graphs += 1
            share.operators += len(graph.operators)
            for line in graph.backend:
                _take(share, line, entry.key)
    return share


def _take(share: Share, line: str, key: str) -> None:
    if (native := _NATIVE.fullmatch(line)) is not None:
        share.native += int(native[1])
        share.foreign_calls += int(native[2])
    elif (called := _CALLED.fullmatch(line)) is not None:
        share.called.setdefault((called[1], called[2]), []).append(key)
    elif (none := _NONE.fullmatch(line)) is not None:
        share.without.setdefault(none[1], []).append(key)


# -- similar graphs --------------------------------------------------------------------------------


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
