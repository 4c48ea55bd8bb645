"""An entry whose way depends on data: from the traces of several calls to one tree of graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch.fx

from anyshape.capture.record.segments import RuntimeAssert, SegmentOutput
from anyshape.capture.record.torch_state import no_default_device
from anyshape.capture.symbol_namespace import Roots
from anyshape.capture.trace import Trace, TracedSegment
from anyshape.guards.guard import Frame, Guard, SymbolSource
from anyshape.guards.path import Path
from anyshape.ops.node_meta import COMPILE_ID, STANDING, TreePosition
from anyshape.runtime.trace_tree import INPUT, RunValue, Tree, TreeNode, make_finish, make_step
from anyshape.symbolic import Expr, Symbol, to_text
from anyshape.symbolic.expr import of_atom

#: Traces that agree on no first segment are kept side by side, so many of them.
_MOST_ROOTS: Final = 8

#: So often a call may be captured again without anything new.
_MOST_REPEATED: Final = 3

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


def built(
    backend: Backend, graph: torch.fx.GraphModule, id: str, examples: Sequence[Any]
) -> Callable[..., Any]:
    """What a backend makes of a graph, which knows the compile that it is of."""
    graph.meta[COMPILE_ID] = id
    with no_default_device():
        made: Any = backend(graph, list(examples))
    if not callable(made):
        raise TypeError(f"the backend returned a {type(made).__name__}, not a function")
    return made


class TraceTreeBuilder:
    """The tree of one entry, and what all its ways need of a call."""

    def __init__(self, name: str, roots: Roots, backend: Backend, id: str) -> None:
        self._id = id
        self.roots = roots
        self.tree = Tree(name)
        self._backend = backend
        #: what a call has to give: the arguments of the tree
        self.inputs: list[Path | Expr] = []
        self._places: dict[Path | Expr, RunValue] = {}
        self.guards: list[Guard] = []
        self.symbols: list[SymbolSource] = []
        self.graphs: list[torch.fx.GraphModule] = []
        #: by node, which of the graphs it runs
        self._numbers: dict[TreeNode, int] = {}
        #: how often a call was captured that went a way which is known
        self.repeated = 0
        #: how often it has grown, by the line that asked
        self._grown: Counter[Frame | None] = Counter()

    def add(self, trace: Trace) -> None:
        """Take in another way through the program."""
        node, depth = self._shared(trace)
        if depth == len(trace.segments):
            # The tree has this way: that it was not taken is a mistake of ours.
            self.repeated += 1
            return
        if node is not None and depth < len(trace.segments):
            self._grown[_asked_at(trace, depth)] += 1
        for index in range(depth, len(trace.segments)):
            made = self._node(trace, index)
            self._note_standing(node, made, trace, index)
            if node is None:
                self.tree.roots.append(made)
            else:
                decision = trace.segments[index - 1].decision
                assert decision is not None
                node.children[outcome_key(decision.outcome)] = made
            node = made
        self.guards += trace.guards
        known = set(self.symbols)
        self.symbols += [source for source in trace.symbols if source not in known]
        self.tree.changes_state |= trace.changes_state
        self.tree.draws_random |= trace.draws_random or trace.may_draw
        self.tree.grown()

    def _note_standing(
        self, before: TreeNode | None, made: TreeNode, trace: Trace, index: int
    ) -> None:
        """For those who are told of the graph."""
        number = self._numbers[made] = len(self.graphs) - 1
        led = trace.segments[index - 1].decision if before is not None else None
        asked = trace.segments[index].decision
        self.graphs[number].meta[STANDING] = TreePosition(
            number,
            None if before is None else self._numbers[before],
            "" if led is None else str(outcome_key(led.outcome)),
            "" if asked is None else asked.reason,
            None if asked is None else asked.frame,
        )

    def is_full(self, graphs: int, at_one_line: int) -> bool:
        return (
            len(self.tree) >= graphs
            or len(self.tree.roots) >= _MOST_ROOTS
            or self.repeated >= _MOST_REPEATED
            or any(count >= at_one_line for count in self._grown.values())
        )

    def _shared(self, trace: Trace) -> tuple[TreeNode | None, int]:
        """The last node of the tree that the trace goes through, and the depth below it."""
        for root in self.tree.roots:
            node, depth = None, 0
            following: TreeNode | None = root
            while following is not None and following.key == _key(trace, depth):
                node = following
                decision = trace.segments[depth].decision
                depth += 1
                if decision is None:
                    break
                following = node.children.get(outcome_key(decision.outcome))
            if node is not None and (following is None or depth == len(trace.segments)):
                return node, depth
        return None, 0

    def _node(self, trace: Trace, index: int) -> TreeNode:
        segment = trace.segments[index]
        graph = segment.graph
        compiled = built(self._backend, graph, self._id, segment.examples)
        self.graphs.append(graph)
        decision = segment.decision
        asked = [each.symbols for each in segment.expectations]
        outcome = ""
        if decision is not None:
            if decision.fact is not None:
                asked.append(decision.fact.symbols)
                outcome = to_text(decision.fact)
            elif decision.size is not None:
                asked.append(decision.size.symbols)
                outcome = to_text(decision.size)
            else:
                outcome = f"S[{index}][{decision.output}]"
                if type(decision.outcome) is float:
                    outcome = f"repr({outcome})"
        step = make_step(
            compiled,
            [self._place(source) for source in segment.inputs],
            changed=[self._place(path) for path in segment.changed],
            values=self._values(segment, asked),
            expectation=" and ".join(_condition(each, index) for each in segment.expectations),
            outcome=outcome,
            name=self.tree.name,
        )
        may_fail = trace.may_raise_late or trace.checks_forms or bool(segment.expectations)
        node = TreeNode(_key(trace, index), step, may_fail, bool(segment.changed))
        if decision is None:
            node.finish = self._finish(trace, index)
        node.width = len(self.inputs)
        return node

    def _finish(self, trace: Trace, index: int) -> Any:
        values = {f"x{i}": self._place(source) for i, source in enumerate(trace.extra)}
        values |= {f"t{i}": RunValue(index, i) for i in range(trace.segments[index].outputs)}
        values |= {name: self._place(source) for name, source in trace.earlier.items()}
        return make_finish(values, trace.lines, trace.namespace, trace.result, self.tree.name)

    def _values(
        self, segment: TracedSegment, asked: Iterable[Iterable[Symbol]]
    ) -> Mapping[str, RunValue]:
        symbols = sorted({symbol for each in asked for symbol in each}, key=lambda s: s.name)
        return {
            symbol.name: self._place(of_atom(symbol) if symbol.backed else segment.values[symbol])
            for symbol in symbols
        }

    def _place(self, source: Path | Expr | SegmentOutput) -> RunValue:
        if isinstance(source, SegmentOutput):
            return RunValue(source.segment, source.output)
        found = self._places.get(source)
        if found is None:
            found = self._places[source] = RunValue(INPUT, len(self.inputs))
            self.inputs.append(source)
        return found


def _condition(each: RuntimeAssert, index: int) -> str:
    if each.fact is not None:
        return f"({to_text(each.fact)})"
    # By the digits, as outcomes are: a float may be NaN.
    return f"repr(S[{index}][{each.output}]) == {repr(each.value)!r}"


def _asked_at(trace: Trace, depth: int) -> Frame | None:
    decision = trace.segments[depth - 1].decision
    return None if decision is None else decision.frame


def outcome_key(outcome: Any) -> Any:
    """An outcome as the tree has it: floats by their digits, so that NaN equals itself."""
    return repr(outcome) if type(outcome) is float else outcome


def _key(trace: Trace, index: int) -> tuple[object, ...]:
    """What tells segments apart: all that the program of a node is made of."""
    segment = trace.segments[index]
    decision = segment.decision
    asked: object = None
    if decision is not None:
        asked = (
            decision.fact,
            decision.size,
            decision.output,
            type(decision.outcome),
        )
    rest: Sequence[object] = ()
    if decision is None:
        rest = (tuple(trace.lines), trace.result)
    called = [node.target for node in segment.graph.graph.nodes if node.op == "call_function"]
    return (
        segment.graph.code,
        tuple(called),  # different functions may print alike
        tuple(segment.inputs),
        tuple(segment.changed),
        tuple((each.fact, each.output, each.value) for each in segment.expectations),
        asked,
        *rest,
    )
