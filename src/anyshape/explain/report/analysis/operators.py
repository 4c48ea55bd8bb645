"""What became of operators: native code, or a call of torch and why."""

from __future__ import annotations

import re
from typing import Final

from anyshape.explain.trace_model import TracedFunction
from anyshape.support.lazy_dataclass import dataclass, field

_NATIVE: Final = re.compile(r"native code: ([0-9]{1,9}) operators in ([0-9]{1,9}) foreign calls")
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
