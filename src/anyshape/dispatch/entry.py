"""The compiled programs of a function: what they are for, and how they are made of traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch.fx

from anyshape.capture.dynamism_policy import CompileDecisions
from anyshape.capture.outline.sites import Site
from anyshape.capture.symbol_namespace import Roots
from anyshape.capture.trace import Store, Trace
from anyshape.dispatch.call_log import watched
from anyshape.dispatch.trace_tree_builder import Backend, TraceTreeBuilder, built
from anyshape.explain.blame import expr_of
from anyshape.explain.explanation import (
    DimStatus,
    DynamicSource,
    EntryExplanation,
    conditions_of,
    standings,
)
from anyshape.guards.emit import EntryPlan
from anyshape.guards.guard import Frame, Guard, SymbolSource
from anyshape.guards.minimise import minimise
from anyshape.ops.kernel_launch import launch_lines
from anyshape.ops.node_meta import REPORT
from anyshape.profile.records import FunctionRecord
from anyshape.runtime.program import assemble
from anyshape.shapes import Shapes
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Range


@dataclass(frozen=True, slots=True)
class Options:
    """How a function is to be compiled."""

    dynamic: bool | None
    fullgraph: bool
    backend: Backend
    #: the shapes that it is for, if they are declared
    shapes: Shapes | None = None
    #: whether nobody asked for `dynamic`: sizes of a region come from data more often than not
    is_implied: bool = False


@dataclass(slots=True, eq=False)
class Counts:
    """What happened so far. It outlives its function: the process keeps the sum."""

    graphs: int = 0
    guards: int = 0
    #: of each entry, how often it was taken
    hits: list[list[int]] = field(default_factory=list[list[int]])
    captures: int = 0
    recompiles: int = 0
    graph_breaks: int = 0
    eager_calls: int = 0
    compile_seconds: float = 0.0
    #: whose they are; of a part of a function, the function
    function: str = ""
    #: "train.py:12", if it is known
    where: str = ""
    is_part: bool = False
    #: of a part, or of what takes a function's place: those that `metrics` adds these to
    owner: Counts | None = None

    def belongs_to(self, owner: Counts, *, is_part: bool = False) -> None:
        self.owner, self.is_part = owner.owner or owner, is_part
        self.function, self.where = owner.function, owner.where

    def forget(self) -> None:
        self.__init__(
            function=self.function, where=self.where, is_part=self.is_part, owner=self.owner
        )

    def waited(self, seconds: float) -> None:
        """A call has waited for native code."""
        self.compile_seconds += seconds


#: Of every function that the process compiled.
all_counts: Final[list[Counts]] = []


@dataclass(frozen=True, slots=True)
class DynamicSymbol:
    """A dynamic size or integer of an entry, as people see it."""

    source: str
    range: Range
    hint: int
    #: what it was in earlier runs, the most frequent first
    typical: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Where and why a graph of an entry ends and another begins."""

    reason: str
    where: Frame | None
    #: what the functions that were running did
    sites: tuple[Site, ...] = ()


@dataclass(slots=True, eq=False)
class Entry:
    """One compiled program of a function, for all the sizes that its guards admit."""

    id: str
    choices: CompileDecisions
    roots: Roots
    graphs: list[torch.fx.GraphModule] = field(default_factory=list[torch.fx.GraphModule])
    guards: Sequence[Guard] = ()
    symbols: dict[str, DynamicSymbol] = field(default_factory=dict[str, DynamicSymbol])
    plan: EntryPlan = EntryPlan((), (), (), lambda: None)
    counter: list[int] = field(default_factory=lambda: [0])
    #: why each symbol's source is dynamic
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    #: where the way depends on data: the tree of all the ways seen
    growing: TraceTreeBuilder | None = None
    breaks: list[GraphBreak] = field(default_factory=list["GraphBreak"])
    #: calls that it began and could not end, since it may no longer grow
    side_exits: int = 0
    #: what its programs write outside of themselves
    stores: list[Store] = field(default_factory=list[Store])
    #: whether its graphs change nothing but tensors of their own
    repeatable: bool = True
    #: how many of its calls were compared with eager, and why none can be (`config.verify_calls`)
    verified: int = 0
    not_verified: str = ""

    @property
    def hits(self) -> int:
        """How many calls it has served, the one that made it aside."""
        return self.counter[0]

    def made(self) -> Counter[str]:
        """What the backend made of its graphs: "backward_graphs", "cuda_graphs"."""
        found: Counter[str] = Counter()
        for graph in self.graphs:
            if (report := graph.meta.get(REPORT)) is not None:
                found.update(report.made())
        return found

    def standings(self) -> list[DimStatus]:
        """Of each size and integer that was met."""
        left = {each.text: self.symbols[each.symbol.name].range for each in self.plan.symbols}
        return standings(self.id, self.choices.rulings, left)

    def explain(self, sizes: Sequence[DimStatus]) -> EntryExplanation:
        """In words; `sizes` are its standings, compared with those of other entries."""
        return EntryExplanation(
            self.id,
            self._dynamic(sizes),
            conditions_of(self.guards),
            self.hits,
            len(self.graphs),
            [(each.reason, each.where) for each in self.breaks],
            sizes,
            [line for graph in self.graphs for line in _said_of(graph)],
        )

    def _dynamic(self, sizes: Sequence[DimStatus]) -> list[DynamicSource]:
        """What is not fixed: symbols, and the sizes that are not looked at."""
        symbols = [
            DynamicSource(
                name, symbol.source, str(symbol.range), self.reasons.get(symbol.source, "")
            )
            for name, symbol in self.symbols.items()
            if symbol.range.lower is None or symbol.range.lower != symbol.range.upper
        ]
        return symbols + [
            DynamicSource("", each.source, each.values, each.reason)
            for each in sizes
            if each.state == "unbacked"
        ]

    def add_trace(self, trace: Trace, options: Options, name: str) -> list[GraphBreak]:
        """Serve another way through the program; the first one if there is none yet. Returns where
        graphs end that did not so far."""
        if self.growing is None and trace.is_flat:
            self._plan_flat(trace, options.backend, name)
            return []
        if self.growing is None:
            self.growing = TraceTreeBuilder(name, self.roots, options.backend, self.id)
        self.growing.add(trace)
        self.graphs = self.growing.graphs
        growing = self.growing
        inputs = tuple(growing.inputs)
        self._plan(trace, name, growing.guards, growing.symbols, inputs, growing.tree.run)
        return self._new_breaks(trace)

    def _plan_flat(self, trace: Trace, backend: Backend, name: str) -> None:
        (segment,) = trace.segments
        compiled = built(backend, segment.graph, self.id, segment.examples)
        run = assemble(
            compiled,
            inputs=len(segment.inputs),
            extra=len(trace.extra),
            outputs=segment.outputs,
            lines=trace.lines,
            namespace=trace.namespace,
            result=trace.result,
            repeatable=trace.repeatable,
            fails_first=trace.fails_first and not trace.draws_random,
            changes_state=trace.changes_state,
            draws_random=trace.draws_random,
            name=name,
        )
        self.graphs = [segment.graph]
        inputs = (*segment.inputs, *trace.extra)
        self._plan(trace, name, trace.guards, trace.symbols, inputs, run)

    def _plan(
        self,
        trace: Trace,
        name: str,
        guards: Sequence[Guard],
        symbols: Sequence[SymbolSource],
        inputs: Sequence[Any],
        run: Callable[..., Any],
    ) -> None:
        self.guards = minimise(guards, symbols)
        self.stores += trace.stores
        self.repeatable &= trace.repeatable
        self.verified, self.not_verified = 0, ""  # what it grew by has not been compared yet
        run = watched(run, name, self.id, inputs, symbols, self.choices.rulings)
        writes = tuple({each.target: None for each in self.stores if each.target is not None})
        self.plan = EntryPlan(self.guards, symbols, inputs, run, self.counter, writes)
        self.reasons = {source.text: self.choices.reason(source.text) for source in symbols}
        self.symbols |= _symbols(trace, self.choices.profile)

    def _new_breaks(self, trace: Trace) -> list[GraphBreak]:
        decisions = [segment.decision for segment in trace.segments]
        found = [
            GraphBreak(decision.reason, decision.frame, decision.sites)
            for decision in decisions
            if decision is not None
        ]
        new = [each for each in dict.fromkeys(found) if each not in self.breaks]
        self.breaks += new
        return new


def _said_of(graph: torch.fx.GraphModule) -> Sequence[str]:
    report = graph.meta.get(REPORT)
    return [*(() if report is None else report.lines()), *launch_lines(graph)]


def _symbols(trace: Trace, profile: FunctionRecord) -> dict[str, DynamicSymbol]:
    # Of a symbol with several sources, the first one names it.
    first = {source.symbol.name: source for source in reversed(trace.symbols)}
    return {
        name: DynamicSymbol(
            first[name].text,
            trace.facts.range(expr_of(trace, first[name])),
            trace.facts.hints[first[name].symbol],
            profile.typical(first[name].text),
        )
        for name in dict.fromkeys(source.symbol.name for source in trace.symbols)
    }
