"""The segments of one capture, and what every tensor and number of it is in the one at hand.

A tensor is named by its node in the segment that made it. Used in a later one, it is an input
there: an output of its own segment, handed on.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.tensor_mutations import Changes
from anyshape.capture.numbers.concolic import TracedFloat
from anyshape.capture.outline.sites import asking_frame, sites_on_stack
from anyshape.capture.record.data_questions import (
    Origin,
    Question,
    names_in,
    origin_of,
    question_of,
)
from anyshape.capture.record.segments import (
    Computed,
    Decision,
    RecordedSegment,
    RuntimeAssert,
    SegmentOutput,
)
from anyshape.capture.tracer import Tracer
from anyshape.config import config
from anyshape.guards.path import Path
from anyshape.ops.meta import Meta, Strided
from anyshape.ops.node_meta import RESULT, SYMBOL
from anyshape.ops.size_nodes import SizeNodes
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Fact, Range, Size, Symbol, as_symbol


class TracedTensor:
    """A tensor that the capture can name: its node in the graph and its shape in symbols."""

    __slots__ = ("alive", "meta", "node", "opaque", "output", "path", "segment")

    def __init__(
        self,
        node: Any,
        meta: Meta,
        alive: object,
        segment: RecordedSegment,
        path: Path | None = None,
    ) -> None:
        #: a node, or (node of a tuple, index) until somebody uses it
        self.node = node
        self.meta = meta
        self.alive = alive
        #: where the node is
        self.segment = segment
        #: where an external tensor was found
        self.path = path
        #: which output of its segment it is, once that has ended
        self.output: int | None = None
        #: whether shape rules do not apply to it
        self.opaque = False


class Segments:
    """What is known of the tensors and numbers of a capture, and the graph that they are in."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        tracer.recorder = self
        self.changes = Changes()
        #: whether the graph checks what no guard can: a run may turn out to be for another one
        self.checks_forms = False
        #: segments that have ended
        self.segments: list[RecordedSegment] = []
        self.segment = RecordedSegment(0, self._symbol_node)
        #: stands for the call of `torch.utils.checkpoint` that the program is in
        self.checkpoint: Any = None
        self._known: dict[int, TracedTensor] = {}
        #: objects that the program made and operations take, by identity, with their nodes
        self._objects: dict[int, tuple[object, torch.fx.Node, RecordedSegment]] = {}
        #: sizes and integers that depend on data
        self._of_data: dict[Symbol, Computed] = {}
        self._origins: dict[Symbol, Origin] = {}

    def forget(self) -> None:
        """Let go of the program's tensors: to be called when nobody watches any more."""
        self._known.clear()
        self.changes = Changes()
        for segment in (*self.segments, self.segment):
            segment.inputs.clear()
            segment.nodes.clear()

    @property
    def graph(self) -> torch.fx.Graph:
        return self.segment.graph

    @property
    def sizes(self) -> SizeNodes:
        return self.segment.sizes

    # -- segments --------------------------------------------------------------------------------

    def runtime_assert(self, fact: Fact, reason: str) -> None:
        """Go on as if a fact about data held, as it does in this run: checked where the segment
        ends."""
        frame = self.tracer.user_frame()
        self.segment.expectations.append(RuntimeAssert(reason, frame, fact))
        self.tracer.chooser.expected(fact, reason, frame)

    def branch_on_fact(self, fact: Fact, outcome: bool, reason: str) -> None:
        self._end(Decision(outcome, reason, self.tracer.user_frame(), fact=fact))

    def branch_on_size(self, size: Expr, outcome: int, reason: str) -> None:
        self._end(Decision(outcome, reason, self.tracer.user_frame(), size=size))

    def branch_on_number(self, node: torch.fx.Node, outcome: object, reason: str) -> None:
        """`node` is one of this segment."""
        output = self.segment.add_output(node)
        if self.tracer.runtime_asserts:
            frame = self.tracer.user_frame()
            expectation = RuntimeAssert(reason, frame, output=output, value=outcome)
            self.segment.expectations.append(expectation)
            return
        self._end(Decision(outcome, reason, self.tracer.user_frame(), output=output))

    def _end(self, decision: Decision) -> None:
        """End the segment: what is alive is handed on."""
        if len(self.segments) >= config.max_data_decisions:
            raise AbortCapture(
                f"more than {config.max_data_decisions} data-dependent branches in one call"
                f" ({decision.reason})"
            )
        question = self._question(decision)
        if self.tracer.whole:
            raise AbortCapture(f"a data-dependent branch: {question.text}", question=question)
        self._end_changes()
        segment = self.segment
        for known in list(self._known.values()):
            if known.segment is segment and known.path is None:
                known.output = segment.add_output(self.node_of(known))
        for number in segment.numbers:
            number.output = segment.add_output(number.node)
        segment.facts = self.tracer.facts
        segment.decision = replace(decision, reason=question.reason, sites=sites_on_stack())
        self.segments.append(segment)
        self.segment = RecordedSegment(len(self.segments), self._symbol_node)

    def _question(self, decision: Decision) -> Question:
        # A look at the variables of a frame keeps them alive until it ends: only for an error.
        here = names_in(asking_frame(), self._shape_of) if self.tracer.whole else {}
        return question_of(decision, self._origins, here)

    def _shape_of(self, value: object) -> tuple[Size, ...]:
        known = self._known.get(id(value)) if isinstance(value, torch.Tensor) else None
        return () if known is None else known.meta.shape

    def end_last(self, output: Callable[[torch.fx.Node], str]) -> None:
        """End the last segment: what its expectations are about is handed out as well."""
        expectations = self.segment.expectations
        asked = {symbol for each in expectations for symbol in each.symbols}
        may_turn_out_wrong = self.segments or expectations or self.checks_forms
        if may_turn_out_wrong or self.changes.needs_undo():
            self._end_changes()
        for index, each in enumerate(expectations):
            if each.output is not None:
                place = int(output(self.segment.outputs[each.output])[1:])
                expectations[index] = replace(each, output=place)
        for symbol in sorted(asked, key=lambda symbol: symbol.name):
            number = self._of_data.get(symbol)
            if number is not None and number.segment is self.segment:
                number.output = int(output(number.node)[1:])
            elif number is None and not symbol.backed:
                raise AbortCapture(f"`{symbol.name}` is a size that the graph does not give")

    def place(self, symbol: Symbol) -> SegmentOutput:
        """Where the value of a data symbol is found when the segments have run."""
        number = self._of_data.get(symbol)
        if number is None or number.output is None:
            raise AbortCapture(f"`{symbol.name}` is a size that the graph does not give")
        return SegmentOutput(number.segment.index, number.output)

    def _end_changes(self) -> None:
        self.segment.changed = (*self.changes.end_segment(), *self.segment.generators)

    # -- nodes in the segment at hand ------------------------------------------------------------

    def _symbol_node(self, symbol: Symbol) -> torch.fx.Node:
        number = self._of_data.get(symbol)
        if number is not None:
            return self.number_node(number)
        found = self.segment.nodes.get(symbol)
        if found is None:
            value = self.tracer.facts.hints[symbol]
            found = self.segment.placeholder(symbol.name, symbol, value)
            found.meta[SYMBOL] = symbol
            self.segment.nodes[symbol] = found
        return found

    def number_node(self, number: Computed) -> torch.fx.Node:
        """The node of a number in the segment at hand."""
        if number.segment is self.segment:
            return number.node
        return self._carried(number, number.node, number.segment, number.output)

    def _carried(
        self, key: object, node: torch.fx.Node, segment: RecordedSegment, output: int | None
    ) -> torch.fx.Node:
        found = self.segment.nodes.get(key)
        if found is None:
            if output is None:
                raise AbortCapture("a value of an earlier graph that was not handed on")
            source = SegmentOutput(segment.index, output)
            found = self.segment.placeholder(node.name, source, None)
            if isinstance(key, TracedTensor):
                found.meta[RESULT] = None if key.opaque else key.meta
            elif SYMBOL in node.meta:
                found.meta[SYMBOL] = node.meta[SYMBOL]
            self.segment.nodes[key] = found
        return found

    def new_integer(self, node: torch.fx.Node, value: int, declared: Range) -> object:
        """An integer of the program that the graph computes from data."""
        made = self.tracer.new_data_symbol(value, declared)
        self.is_number(as_symbol(made), node)
        return self.tracer.integer(made)

    def is_number(self, symbol: Symbol, node: torch.fx.Node, dim: int | None = None) -> None:
        """A symbol for data has its value in `node`: dimension `dim` of a result, if given."""
        node.meta[SYMBOL] = symbol
        origin = self._origins[symbol] = origin_of(self.tracer.user_frame(), dim)
        self.tracer.chooser.made_of_data(symbol, origin.name, origin.frame)
        number = Computed(node, frozenset(), self.segment, of_data=True)
        self._of_data[symbol] = number
        self.segment.numbers.append(number)

    def float_input(self, path: Path, value: float) -> object:
        """A float from outside that may be another one in another call."""
        node = self.segment.placeholder(identifier(path.text), path, value)
        made = self.new_float(node, value, (path,))
        made.source = path
        return made

    def new_float(
        self, node: torch.fx.Node, value: float, sizes: Iterable[Expr | Path] = ()
    ) -> TracedFloat:
        """A float that the graph computes; from data, unless sizes or floats from outside are
        given, of which it is made."""
        sizes = frozenset(sizes)
        number = Computed(node, sizes, self.segment, of_data=not sizes)
        self.segment.numbers.append(number)
        return TracedFloat(value, number, self.tracer)

    def node_of(self, known: TracedTensor) -> torch.fx.Node:
        node = known.node
        if known.segment is not self.segment:
            return self._of_earlier(known)
        if type(node) is tuple:
            whole, index = node
            if type(whole) is not torch.fx.Node:
                whole = self.node_of(whole)
            node = known.node = self.graph.call_function(operator.getitem, (whole, index))
        return node

    def _of_earlier(self, known: TracedTensor) -> torch.fx.Node:
        if known.path is None:
            return self._carried(known, known.node, known.segment, known.output)
        found = self.segment.nodes.get(known)
        if found is None:
            found = self.segment.placeholder(identifier(known.path.text), known.path, known.alive)
            found.meta[RESULT] = None if known.opaque else known.meta
            self.segment.nodes[known] = found
            if not known.opaque:
                self.need_strides(known.meta)
        return found

    def need_strides(self, meta: Meta) -> None:
        """Hand the graph the strides of an input that do not follow from its sizes: operators find
        them in the tensor, native code has to be told."""
        if isinstance(meta.layout, Strided):
            for stride in meta.layout.strides:
                for symbol in stride.symbols if isinstance(stride, Expr) else ():
                    self._symbol_node(symbol)


def identifier(text: str) -> str:
    return _NO_LETTERS.sub("_", text).strip("_")


_NO_LETTERS: Final = re.compile(r"[\W_]+")


class Forget:
    """Takes a tensor off the list when it dies, so that its identity can be used again."""

    __slots__ = ("identity", "known")

    def __init__(self, known: dict[int, TracedTensor], identity: int) -> None:
        self.known = known
        self.identity = identity

    def __call__(self, reference: object) -> None:
        self.known.pop(self.identity, None)
