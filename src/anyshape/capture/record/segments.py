"""The graph of a capture in segments: one ends where Python has to know what is in a tensor.

A segment hands on what is alive at its end. A later segment takes that, and inputs of the call, as
its own inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from anyshape.capture.outline.sites import Site
from anyshape.capture.record.graph_names import BoundGraph
from anyshape.guards.guard import Frame
from anyshape.guards.path import Path
from anyshape.ops.node_meta import PARAMETER
from anyshape.ops.size_nodes import SizeNodes
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Expr, Fact, Facts, Symbol


@dataclass(frozen=True, slots=True)
class SegmentOutput:
    """An output of an earlier segment."""

    segment: int
    output: int


InputSource = Path | Symbol | SegmentOutput


@dataclass(slots=True, eq=False)
class Computed:
    """A number that the graph computes: its node, and all the sizes, and floats from outside, that
    it depends on."""

    node: torch.fx.Node
    sizes: frozenset[Expr | Path]
    segment: RecordedSegment
    #: whether it depends on what is in a tensor
    of_data: bool = False
    #: whether its value has been told to the program on this path
    settled: bool = False
    #: which output of its segment it is, once that has ended
    output: int | None = None


@dataclass(frozen=True, slots=True)
class RuntimeAssert:
    """What has to be true of sizes that depend on data, or the segment is not for this call."""

    reason: str
    frame: Frame | None
    fact: Fact | None = None
    #: instead of a fact: a number that the segment computes, and what it is
    output: int | None = None
    value: Any = None

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset() if self.fact is None else self.fact.symbols


@dataclass(frozen=True, slots=True)
class Decision:
    """What the way on depends on: whether a fact holds, or the value of a size or of a number that
    the segment computes. One of the three is given."""

    outcome: object
    reason: str
    frame: Frame | None
    fact: Fact | None = None
    size: Expr | None = None
    output: int | None = None
    #: what the functions that were running did
    sites: tuple[Site, ...] = ()


class RecordedSegment:
    """A part of the graph while it is recorded."""

    def __init__(self, index: int, symbol_node: Callable[[Symbol], torch.fx.Node]) -> None:
        self.index = index
        self.graph = BoundGraph()
        #: placeholders in the order in which they were made
        self.inputs: list[tuple[torch.fx.Node, InputSource, Any]] = []
        self.sizes = SizeNodes(self.graph, symbol_node)
        #: nodes of inputs, by what they stand for
        self.nodes: dict[Any, torch.fx.Node] = {}
        #: numbers made here
        self.numbers: list[Computed] = []
        self.expectations: list[RuntimeAssert] = []
        self.outputs: list[torch.fx.Node] = []
        self._names: set[str] = set()
        self.decision: Decision | None = None
        #: what was known when it ended: later segments may assume more
        self.facts: Facts | None = None
        #: external tensors that it changed, and generators that it drew from
        self.changed: tuple[Path, ...] = ()
        self.generators: dict[Path, None] = {}

    def placeholder(self, name: str, source: InputSource, example: object) -> torch.fx.Node:
        name = self._unused(name)
        last = self.inputs[-1][0] if self.inputs else None
        if last is None:
            with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
                node = self.graph.placeholder(name)
        else:
            with self.graph.inserting_after(last):
                node = self.graph.placeholder(name)
        if isinstance(source, SegmentOutput):
            # Named after a node of another graph. The name of the parameter is the node's own: one
            # that is given to it in a line of its own could be the parameter of another.
            node.target = node.name
        if isinstance(example, torch.nn.Parameter):
            node.meta[PARAMETER] = True
        self.inputs.append((node, source, example))
        return node

    def _unused(self, name: str) -> str:
        """Parameters of the graph's function have different names."""
        found, count = name, 0
        while found in self._names:
            count += 1
            found = f"{name}_{count}"
        self._names.add(found)
        return found

    def add_output(self, node: torch.fx.Node) -> int:
        self.outputs.append(node)
        return len(self.outputs) - 1
