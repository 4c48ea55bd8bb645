"""Torch operations: each is run for real, written into the graph, its shape computed in symbols.

The real result is at hand, so every shape rule is checked against it on every use. A rule that was
wrong costs the dynamism of that one operation (its sizes are fixed by guards), never the answer.
"""

from __future__ import annotations

import functools
import operator
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from linecache import getline
from typing import Any, Final

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode, _pop_mode_temporarily

from anyshape.capture.call_forms import CallForms, name_of
from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.data_questions import Origin, Question, names_in, origin_of, question_of
from anyshape.capture.data_reads import DATA_READERS, TRUTHS, number_read
from anyshape.capture.opaque import (
    Form,
    HasForm,
    check_form,
    check_same,
    form_of,
    is_jagged_method,
    is_opaque,
    meta_of,
    metas_of,
    symbols_of_result,
)
from anyshape.capture.segments import Carried, Computed, Decision, Expectation, Segment
from anyshape.capture.size_nodes import SizeNodes
from anyshape.capture.tensor_reads import CONSTANT_READS, DATA_READS, NOT_RECORDED, SIZE_READS
from anyshape.capture.tracer import Leave, Tracer, asking_frame, depends_on_data, running
from anyshape.capture.unbacked import observed, places
from anyshape.config import config
from anyshape.errors import AnyshapeError, NeedsDecision, UnknownOperator
from anyshape.guards.guard import Kind, TensorSpec
from anyshape.guards.path import Path
from anyshape.ops.infer import infer
from anyshape.ops.meta import Dense, Meta, of_tensor
from anyshape.ops.op import Lowering
from anyshape.ops.questions import Kind as NeedKind
from anyshape.ops.table import lookup
from anyshape.symbolic import (
    EVERYTHING,
    NATURAL,
    Expr,
    Fact,
    Range,
    Size,
    Symbol,
    as_symbol,
    eq,
    ge,
    le,
)


class Known:
    """A tensor that the capture can name: its node in the graph and its shape in symbols."""

    __slots__ = ("alive", "meta", "node", "opaque", "output", "path", "segment")

    def __init__(
        self, node: Any, meta: Meta, alive: object, segment: Segment, path: Path | None = None
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


class Recorder:
    """The graph of one capture."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        tracer.recorder = self
        #: segments that have ended
        self.segments: list[Segment] = []
        self.segment = Segment(0, self._symbol_node)
        self._known: dict[int, Known] = {}
        #: sizes and integers that depend on data
        self._of_data: dict[Symbol, Computed] = {}
        self._origins: dict[Symbol, Origin] = {}
        self.changes_state = False
        #: external tensors, with their versions before the program changed them
        self._externals: list[tuple[Path, torch.Tensor, int | None]] = []
        #: how they lie in memory, which is not undone
        self._geometries: dict[int, tuple[Any, ...]] = {}
        #: versions at the end of the last segment
        self._versions: dict[int, int | None] = {}
        #: tensors that were written without a new version, by identity: in this segment, and before
        self._written: set[int] = set()
        self._written_before: set[int] = set()
        #: whether something may have been changed that versions do not tell
        self._changes_unseen = False
        self._in_place = False
        self._draws = False
        #: whether the graph checks what no guard can
        self.checks_forms = False
        #: whether it draws from generators of the program's own
        self._draws_apart = False
        #: whether an operation may fail, by its data, after something has been changed
        self._may_raise_late = False
        self.defects: list[str] = []

    @property
    def graph(self) -> torch.fx.Graph:
        return self.segment.graph

    @property
    def sizes(self) -> SizeNodes:
        return self.segment.sizes

    # -- segments --------------------------------------------------------------------------------

    def expect(self, fact: Fact, reason: str) -> None:
        """Go on as if a fact about data held, as it does in this run: checked where the segment
        ends."""
        self.segment.expectations.append(Expectation(reason, self.tracer.user_frame(), fact))

    def branch_on_fact(self, fact: Fact, outcome: bool, reason: str) -> None:
        self._end(Decision(outcome, reason, self.tracer.user_frame(), fact=fact))

    def branch_on_size(self, size: Expr, outcome: int, reason: str) -> None:
        self._end(Decision(outcome, reason, self.tracer.user_frame(), size=size))

    def branch_on_number(self, node: torch.fx.Node, outcome: Any, reason: str) -> None:
        """`node` is one of this segment."""
        output = self.segment.add_output(node)
        if self.tracer.expects:
            frame = self.tracer.user_frame()
            expectation = Expectation(reason, frame, output=output, value=outcome)
            self.segment.expectations.append(expectation)
            return
        self._end(Decision(outcome, reason, self.tracer.user_frame(), output=output))

    def _end(self, decision: Decision) -> None:
        """End the segment: what is alive is handed on."""
        if len(self.segments) >= config.max_data_decisions:
            raise Leave(
                f"more than {config.max_data_decisions} decisions on data in one call"
                f" ({decision.reason})"
            )
        question = self._question(decision)
        if self.tracer.whole:
            raise Leave(f"the way on depends on data: {question.text}", question=question)
        self.end_changes()
        segment = self.segment
        for known in list(self._known.values()):
            if known.segment is segment and known.path is None:
                known.output = segment.add_output(self.node_of(known))
        for number in segment.numbers:
            number.output = segment.add_output(number.node)
        segment.decision = replace(decision, reason=question.reason, stack=running())
        self.segments.append(segment)
        self.segment = Segment(len(self.segments), self._symbol_node)

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
        if self.segments or expectations or self.needs_undo():
            self.end_changes()
        for index, each in enumerate(expectations):
            if each.output is not None:
                place = int(output(self.segment.outputs[each.output])[1:])
                expectations[index] = replace(each, output=place)
        for symbol in sorted(asked, key=lambda symbol: symbol.name):
            number = self._of_data.get(symbol)
            if number is not None and number.segment is self.segment:
                number.output = int(output(number.node)[1:])
            elif number is None and not symbol.backed:
                raise Leave(f"`{symbol.name}` is a size that the graph does not give")

    def place(self, symbol: Symbol) -> Carried:
        """Where the value of a data symbol is found when the segments have run."""
        number = self._of_data.get(symbol)
        if number is None or number.output is None:
            raise Leave(f"`{symbol.name}` is a size that the graph does not give")
        return Carried(number.segment.index, number.output)

    def end_changes(self) -> None:
        """Note which external tensors the segment changed."""
        if self._changes_unseen and self._in_place:
            raise Leave("a tensor is changed where nobody can see it, before a decision on data")
        with torch._C.DisableTorchFunction():
            self.segment.changed = (*self._newly_changed(), *self.segment.generators)

    def _newly_changed(self) -> Iterator[Path]:
        for path, tensor, first in self._externals:
            before = self._versions.get(id(tensor), first)
            now = _version(tensor)
            if now is None and self._in_place:
                raise Leave("an inference tensor may be changed before a decision on data")
            if now != before or id(tensor) in self._written:
                if tensor.requires_grad and not tensor.is_leaf:
                    raise Leave("a tensor with a history is changed before a decision on data")
                if _geometry_of(tensor) != self._geometries[id(tensor)]:
                    raise Leave("the shape of a tensor is changed before a decision on data")
                yield path
            self._versions[id(tensor)] = now
        self._written_before |= self._written
        self._written.clear()

    # -- inputs ----------------------------------------------------------------------------------

    def _symbol_node(self, symbol: Symbol) -> torch.fx.Node:
        number = self._of_data.get(symbol)
        if number is not None:
            return self.number_node(number)
        found = self.segment.nodes.get(symbol)
        if found is None:
            value = self.tracer.facts.hints[symbol]
            found = self.segment.placeholder(symbol.name, symbol, value)
            self.segment.nodes[symbol] = found
        return found

    def number_node(self, number: Computed) -> torch.fx.Node:
        """The node of a number in the segment at hand."""
        if number.segment is self.segment:
            return number.node
        return self._carried(number, number.node, number.segment, number.output)

    def _carried(
        self, key: Any, node: torch.fx.Node, segment: Segment, output: int | None
    ) -> torch.fx.Node:
        found = self.segment.nodes.get(key)
        if found is None:
            if output is None:
                raise Leave("a value of an earlier graph that was not handed on")
            source = Carried(segment.index, output)
            found = self.segment.placeholder(node.name, source, None)
            self.segment.nodes[key] = found
        return found

    def new_integer(self, node: torch.fx.Node, value: int, declared: Range) -> Any:
        """An integer of the program that the graph computes from data."""
        made = self.tracer.new_data_symbol(value, declared)
        self.is_number(as_symbol(made), node)
        return self.tracer.integer(made)

    def is_number(self, symbol: Symbol, node: torch.fx.Node, dim: int | None = None) -> None:
        """A symbol for data has its value in `node`: dimension `dim` of a result, if given."""
        origin = self._origins[symbol] = origin_of(self.tracer.user_frame(), dim)
        self.tracer.chooser.made_of_data(symbol, origin.name, origin.frame)
        number = Computed(node, frozenset(), self.segment, of_data=True)
        self._of_data[symbol] = number
        self.segment.numbers.append(number)

    def new_float(self, node: torch.fx.Node, value: float, sizes: Iterable[Expr] = ()) -> Any:
        """A float that the graph computes; from data, unless sizes are given."""
        sizes = frozenset(sizes)
        number = Computed(node, sizes, self.segment, of_data=not sizes)
        self.segment.numbers.append(number)
        return TracedFloat(value, number, self.tracer)

    def object_node(self, value: object) -> torch.fx.Node:
        """A placeholder for an external object that an operation takes as it is."""
        path = self.tracer.path_of(value)
        if path is None:
            raise Leave(f"an operation takes a {type(value).__name__} made by the program")
        if isinstance(value, torch.Generator):
            self.segment.generators[path] = None
            self._in_place = self._draws_apart = True
        found = self.segment.nodes.get(id(value))
        if found is None:
            found = self.segment.placeholder(_identifier(path.text), path, value)
            self.segment.nodes[id(value)] = found
        return found

    def known(self, tensor: torch.Tensor) -> Known:
        """What is known of a tensor; an external one becomes an input of the graph when it is first
        used."""
        found = self._known.get(id(tensor))
        if found is not None:
            return found
        path = self.tracer.path_of(tensor)
        if path is None:
            raise Leave(
                "a tensor of unknown origin",
                "it was made or found by native code; make it with a torch function instead",
            )
        with torch._C.DisableTorchFunction():
            return self._input(tensor, path)

    def _input(self, tensor: torch.Tensor, path: Path) -> Known:
        tracer = self.tracer
        if is_opaque(tensor):
            return self._opaque_input(tensor, path)
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            raise Leave(f"a tensor of layout {tensor.layout}")
        if _is_transformed(tensor):
            raise Leave("a tensor inside a function transform")
        if tensor.is_conj() or tensor.is_neg():
            raise Leave("a lazily conjugated or negated tensor")
        module_property = tracer.below_module(path)
        chosen = tracer.chooser.sizes(path, tensor, module_property)
        shape: list[Size] = []
        unbacked: list[tuple[int, Range]] = []
        for dim, (size, declared) in enumerate(zip(tensor.shape, chosen, strict=True)):
            if declared is None:
                shape.append(size)
            elif isinstance(declared, Range):
                shape.append(tracer.new_symbol(path, dim, size, declared))
            else:
                shape.append(tracer.new_data_symbol(size, NATURAL))
                unbacked.append((dim, declared.range))
        meta = of_tensor(tensor, tuple(shape))
        layout = meta.layout
        dense = isinstance(layout, Dense)
        spec = TensorSpec(
            type(tensor),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            tuple(None if isinstance(size, Expr) else size for size in shape),
            strides=None if dense else tuple(tensor.stride()),
            order=layout.order if dense else None,
            layout=tensor.layout,
        )
        tracer.guard(Kind.TENSOR, path, spec)
        node = self.segment.placeholder(_identifier(path.text), path, tensor)
        found = self._known[id(tensor)] = Known(node, meta, tensor, self.segment, path)
        self._externals.append((path, tensor, _version(tensor)))
        self._geometries[id(tensor)] = _geometry_of(tensor)
        for dim, declared in unbacked:
            self._size_of(shape[dim], node, dim)
            self._expect_range(shape[dim], declared)
        return found

    def _expect_range(self, size: Size, declared: Range) -> None:
        with self.tracer.expecting():
            if declared.lower is not None:
                self.tracer.decide(ge(size, declared.lower), "the range of the mark")
            if declared.upper is not None:
                self.tracer.decide(le(size, declared.upper), "the range of the mark")

    def _opaque_input(self, tensor: torch.Tensor, path: Path) -> Known:
        """A sparse or jagged tensor: its form is guarded, its sizes are data."""
        self.tracer.guard(Kind.PREDICATE, path, HasForm(Form.of(tensor)), "the form of a tensor")
        node = self.segment.placeholder(_identifier(path.text), path, tensor)
        meta = meta_of(self, tensor)
        found = self._known[id(tensor)] = Known(node, meta, tensor, self.segment, path)
        found.opaque = True
        for dim, size in enumerate(meta.shape):
            self._size_of(size, node, dim)
        return found

    def _size_of(self, size: Size, node: torch.fx.Node, dim: int) -> None:
        if isinstance(size, Expr):
            self.is_number(as_symbol(size), self.graph.call_method("size", (node, dim)), dim)

    def repeatable(self) -> bool:
        """Whether the graph may be run a second time: it has changed nothing but its own tensors.

        Asked when a compiled run fails and has to be made again, eagerly.
        """
        if (
            self._draws_apart
            or self._written
            or self._written_before
            or (self._changes_unseen and self._in_place)
        ):
            return False
        return not any(
            self._in_place if version is None else _version(tensor) != version
            for _, tensor, version in self._externals
        )

    def needs_undo(self) -> bool:
        """Whether a failed run has to be made undone, and can be, to be made again: what it may
        have changed by then is known, and not large."""
        if not self._may_raise_late or self._changes_unseen or self.repeatable():
            return False
        written = self._written | self._written_before
        changed = [
            tensor
            for _, tensor, first in self._externals
            if _version(tensor) != first or id(tensor) in written
        ]
        return (
            all(not tensor.requires_grad or tensor.is_leaf for tensor in changed)
            and not any(version is None for _, _, version in self._externals)
            and sum(tensor.nbytes for tensor in changed) <= _MOST_KEPT
        )

    def draws_random(self) -> bool:
        """Whether a run may draw random numbers, though this one may not have."""
        return self._draws

    def node_of(self, known: Known) -> torch.fx.Node:
        node = known.node
        if known.segment is not self.segment:
            return self._of_earlier(known)
        if type(node) is tuple:
            whole, index = node
            if type(whole) is not torch.fx.Node:
                whole = self.node_of(whole)
            node = known.node = self.graph.call_function(operator.getitem, (whole, index))
        return node

    def _of_earlier(self, known: Known) -> torch.fx.Node:
        if known.path is None:
            return self._carried(known, known.node, known.segment, known.output)
        found = self.segment.nodes.get(known)
        if found is None:
            found = self.segment.placeholder(_identifier(known.path.text), known.path, known.alive)
            self.segment.nodes[known] = found
        return found

    def node(self, tensor: torch.Tensor) -> torch.fx.Node:
        return self.node_of(self.known(tensor))

    def meta(self, tensor: torch.Tensor) -> Meta:
        return self.known(tensor).meta

    def pin_layouts(self) -> None:
        """Guard strides, offset and flags of every input exactly: what follows from sizes alone
        leaves them open at the sizes 0 and 1."""
        for path, tensor, _ in self._externals:
            self.tracer.guard(Kind.PREDICATE, path, ExactLayout(tensor))

    # -- numbers ---------------------------------------------------------------------------------

    def number(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A float computed from sizes: computed now, and again by the graph."""
        value = function(*map(plain, args))
        node = self.graph.call_function(function, tuple(map(self._operand, args)))
        sizes = frozenset(size for arg in args for size in _sizes_in(arg))
        if any(map(_is_of_data, args)):
            return self._number_of_data(node, value)
        if type(value) is float:
            return self.new_float(node, value, sizes)
        for size in sizes:
            self.tracer.decide(
                eq(size, self.tracer.value_of(size)), "a number made of it is not a float"
            )
        return value

    def _number_of_data(self, node: torch.fx.Node, value: Any) -> Any:
        if type(value) is float:
            return self.new_float(node, value)
        if type(value) is int:
            return self.new_integer(node, value, EVERYTHING)
        try:
            self.branch_on_number(node, value, "a number that depends on data was asked about")
        except Leave as left:
            self.tracer.leave_for(left)
        return value

    def _operand(self, value: Any) -> Any:
        if type(value) is TracedInt:
            return self.sizes.of(value.expr)
        if type(value) is TracedFloat:
            return self.number_node(value.node)
        return value

    # -- operations ------------------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Callable[..., Any] | str | None = None,
        *,
        native: bool = False,
    ) -> Any:
        """Run a torch operation for real and record it. `native`: for code that is not watched,
        which needs plain numbers."""
        if self.tracer.active:
            with torch._C.DisableTorchFunction():
                result = self._run(function, args, kwargs, target, native)
            if result is not _NOT_RUN:
                return result
        return function(*args, **kwargs)

    def _run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Callable[..., Any] | str | None,
        native: bool,
    ) -> Any:
        tracer = self.tracer
        try:
            read = SIZE_READS.get(function)
            if read is not None and args and isinstance(args[0], torch.Tensor):
                return read(self, *args, **kwargs)
            if function in CONSTANT_READS:
                return self._constant_read(function, args, kwargs)
            if function in DATA_READS:
                reader = (TRUTHS if native else DATA_READERS).get(function)
                if reader is None:
                    raise Leave(
                        f"`{name_of(function)}` reads the data of a tensor",
                        "keep the value in a tensor (torch.where instead of `if`)",
                    )
                return reader(self, *args, **kwargs)
            converted = self._converted(function, args, kwargs)
        except Leave as left:
            tracer.leave_for(left)
            return _NOT_RUN
        try:
            if converted.opaque:
                with torch._C._EnableTorchFunction(), _no_mode():
                    result = function(*converted.plain_args, **converted.plain_kwargs)
            else:
                result = function(*converted.plain_args, **converted.plain_kwargs)
        except BaseException:
            tracer.leave(f"`{name_of(function)}` raised an error")
            raise
        try:
            if converted.opaque and type(result) in (int, float, bool):
                node = self._call_node(function, converted, target)
                return number_read(self, torch.int64, node, result)
            try:
                self._record(function, converted, result, target)
            except _CountFirst as first:
                # The number of results is a branch; the operation belongs behind it.
                tracer.settle(first.size, first.reason)
                if tracer.active:
                    converted = self._converted(function, args, kwargs)
                    self._record(function, converted, result, target)
        except Leave as left:
            tracer.leave_for(left)
        except Exception as error:
            if config.on_compile_error == "raise":
                raise
            # A defect of ours: the operation itself has run, and its result is right.
            tracer.leave(f"recording `{name_of(function)}` failed: {error!r}")
        return result

    def _converted(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CallForms:
        """The forms of a call, with all nodes in the segment at hand: to make them may end it."""
        while True:
            segment = self.segment
            forms = CallForms(self, function, args, kwargs)
            if segment is self.segment:
                return forms

    def _constant_read(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What depends on nothing but what the guards of the tensors fix."""
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                self.known(value)
        return function(*args, **kwargs)

    def _record(
        self,
        function: Callable[..., Any],
        call: CallForms,
        result: Any,
        target: Callable[..., Any] | str | None,
    ) -> None:
        if function in NOT_RECORDED:
            raise Leave(f"`{name_of(function)}` inside a compiled function")
        getter = getattr(function, "__name__", "") == "__get__"
        if not _is_tensors(result) and (result is not None or getter):
            raise Leave(f"`{name_of(function)}` returns a {type(result).__name__}")
        entry = lookup(function)
        call.in_place = (
            result is None
            or (entry is not None and entry.in_place)
            or _in_place(function, call)
            or _is_mutable(function)
        )
        with self.tracer.expecting():
            value, made = self._infer(function, call, result)
        node = self._call_node(function, call, target)
        if result is not None:
            self._bind(result, value, node, call)
        if made is _OPAQUE:
            self.checks_forms = True
            self.graph.call_function(check_form, (node, form_of(result)))
            made = tuple(symbols_of_result(value))
        if made:
            self._name_sizes(made, result, value)
        if function in _STATE_CHANGES:
            self.changes_state = True
            return
        self._draws |= _may_draw(function)
        if self._in_place and (entry is None or entry.op.lowering not in _NEVER_RAISES):
            self._may_raise_late = True
        if call.in_place:
            self._in_place = True
        if function in _ALIASES_UNSEEN:
            self._changes_unseen = True
        if function in _WRITES_STATISTICS:
            self._in_place = True
            self._written.update(list(call.tensors)[1:])
        elif _is_mutable(function):
            self._changes_unseen = self._in_place = True

    def _call_node(
        self,
        function: Callable[..., Any],
        call: CallForms,
        target: Callable[..., Any] | str | None,
    ) -> torch.fx.Node:
        if target is None:
            target = _target_of(function)
        assert target is not None
        if isinstance(target, str):
            node = self._node("call_method", target, call.node_args, call.node_kwargs)
        elif isinstance(target, tuple):  # the getter of a property
            node = self._node("call_function", getattr, (*call.node_args, target[1]), {})
        else:
            node = self._node("call_function", target, call.node_args, call.node_kwargs)
        frame = self.tracer.user_frame(above=5)
        if frame is not None:
            line = getline(frame.filename, frame.line).strip()
            node.meta["stack_trace"] = (
                f'File "{frame.filename}", line {frame.line}, in {frame.function}\n    {line}'
            )
        return node

    def _node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.fx.Node:
        # Arguments given at once are searched for torch's own symbolic numbers, which takes as long
        # as all the rest; there are none here.
        node = self.graph.create_node(kind, target)
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        return node

    def _infer(
        self, function: Callable[..., Any], call: CallForms, result: Any
    ) -> tuple[Any, Sequence[Expr]]:
        """The metas of the result, and the symbols of sizes that depend on data; sizes are fixed
        where they cannot be given in symbols."""
        tracer = self.tracer
        if function in _STATE_CHANGES:
            return None, ()
        if call.opaque or _has_opaque(result):
            return metas_of(self, result), _OPAQUE
        try:
            found = infer(
                tracer.facts,
                function,
                call.metas,
                call.meta_kwargs,
                seen=_metas(result) if lookup(function) is None else None,
            )
        except NeedsDecision as error:
            raise Leave(str(error)) from None
        except UnknownOperator:
            # Neither a rule nor a shape function: the shape may depend on the data.
            return metas_of(self, result), _OPAQUE
        except AnyshapeError as error:
            return self._fixed(function, call, result, str(error)), ()
        for need in found.needs:
            if need.kind is NeedKind.COUNT and need.size is not None and depends_on_data(need.fact):
                raise _CountFirst(need.size, need.reason)
        tracer.facts = found.facts
        for size, value in observed(found.unbacked, found.value, result):
            tracer.observe(size, value)
        for need in found.needs:
            tracer.note_assumed(need.fact, f"{name_of(function)}: {need.reason}")
        wrong = self._disagreement(found.value, result)
        if wrong:
            if found.unbacked:
                raise Leave(f"`{name_of(function)}` has a result of an unforeseen shape ({wrong})")
            self.defects.append(f"{name_of(function)}: {wrong}")
            return self._fixed(function, call, result, wrong), ()
        return found.value, found.unbacked

    def _name_sizes(self, made: Sequence[Expr], result: Any, value: Any) -> None:
        """Say in the graph where the sizes that an operation made are to be read."""
        for size, tensor, dim in places(made, value, result):
            node = self.graph.call_method("size", (self.node(tensor), dim))
            self.is_number(as_symbol(size), node, dim)

    def _fixed(self, function: Callable[..., Any], call: CallForms, result: Any, why: str) -> Any:
        for symbol in call.symbols():
            size = self.tracer.facts.symbols[symbol.name]
            self.tracer.decide(
                eq(size, self.tracer.value_of(size)),
                f"{name_of(function)} has no shape rule for these arguments ({why})",
            )
        return _metas(result)

    def _disagreement(self, value: Any, result: Any) -> str | None:
        """How the metas differ from the real result, in this run; dtype and grad are taken from the
        real one, since sizes do not change them."""
        if isinstance(result, torch.Tensor):
            if not isinstance(value, Meta):
                return f"{value!r} for a tensor"
            if value.shape == result.shape and value.strides == result.stride():
                return None
            value_of = self.tracer.value_of
            shape = tuple(map(value_of, value.shape))
            if shape != tuple(result.shape):
                return f"shape {shape} for {tuple(result.shape)}"
            if 0 in shape:
                return None
            strides = result.stride()
            for size, said, real in zip(shape, value.strides, strides, strict=True):
                if size != 1 and value_of(said) != real:
                    return f"strides {value.strides} for {strides}"
            return None
        if isinstance(result, tuple | list):
            if not isinstance(value, tuple | list) or len(value) != len(result):
                return f"{value!r} for {len(result)} results"
            for said, real in zip(value, result, strict=True):
                wrong = self._disagreement(said, real)
                if wrong:
                    return wrong
        return None

    def _bind(self, result: Any, value: Any, node: Any, call: CallForms) -> None:
        """Name the tensors of a result."""
        if isinstance(result, torch.Tensor):
            identity = id(result)
            meta = value if is_opaque(result) else _as_it_is(value, result)
            if identity in call.tensors:
                # In place, or nothing to do: it is still that tensor.
                self._returns_itself(call, self._known[identity], value, node)
                self._known[identity].meta = meta
                return
            alive = weakref.ref(result, _Forget(self._known, identity))
            known = self._known[identity] = Known(node, meta, alive, self.segment)
            known.opaque = is_opaque(result)
        elif isinstance(result, tuple | list):
            whole = (
                node if type(node) is torch.fx.Node else Known(node, _NOTHING, None, self.segment)
            )
            for index, (item, meta) in enumerate(zip(result, value, strict=True)):
                if item is not None:
                    self._bind(item, meta, (whole, index), call)

    def _returns_itself(self, call: CallForms, known: Known, value: Any, node: Any) -> None:
        """An operation has returned its argument. Where the rule does not say that it always does,
        it may do so for these sizes only."""
        if call.in_place or value is known.meta:
            return
        if call.opaque:
            self.graph.call_function(check_same, (node, self.node_of(known)))
            return
        with self.tracer.expecting():
            for symbol in call.symbols():
                size = self.tracer.facts.symbols[symbol.name]
                value_now = self.tracer.value_of(size)
                self.tracer.decide(eq(size, value_now), "an operation returns its own argument")

    # -- making a node without an operation -------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any) -> torch.fx.Node:
        """A node for a change of state (a mode entered or left)."""
        self.changes_state = True
        return self.graph.call_function(function, args)


@contextmanager
def _no_mode() -> Iterator[None]:
    """Without our own function mode: a class of tensors may have a function of its own."""
    with _pop_mode_temporarily():
        yield


class ExactLayout:
    """Whether a tensor lies in its storage as another one does."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._layout = _layout_of(tensor)

    def __call__(self, tensor: torch.Tensor) -> bool:
        return _layout_of(tensor) == self._layout


def _geometry_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return tensor.shape, tensor.stride(), tensor.storage_offset(), storage._cdata, storage.nbytes()


def _layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()


class _CountFirst(Exception):
    """How many results an operation has depends on data."""

    def __init__(self, size: Size, reason: str) -> None:
        super().__init__(reason)
        self.size = size
        self.reason = reason


class _Forget:
    """Takes a tensor off the list when it dies, so that its identity can be used again."""

    __slots__ = ("identity", "known")

    def __init__(self, known: dict[int, Known], identity: int) -> None:
        self.known = known
        self.identity = identity

    def __call__(self, reference: object) -> None:
        self.known.pop(self.identity, None)


#: Operators whose failure does not depend on what is in the tensors.
_NEVER_RAISES: Final = frozenset(
    {Lowering.POINTWISE, Lowering.REDUCTION, Lowering.VIEW, Lowering.MATMUL, Lowering.FACTORY}
)

#: So many bytes are copied before each run, at most, to be able to undo it.
_MOST_KEPT: Final = 1 << 18

_NOT_RUN: Final = object()

#: Stands for the sizes of a result that nobody can say beforehand: all of them.
_OPAQUE: Final[Any] = object()


def _has_opaque(result: Any) -> bool:
    if isinstance(result, torch.Tensor):
        return is_opaque(result)
    return isinstance(result, tuple | list) and any(map(_has_opaque, result))


_NOTHING: Final = Meta((), torch.float32, Dense(()), torch.device("cpu"))

_is_transformed: Any = getattr(torch._C, "_functorch").is_functorch_wrapped_tensor  # noqa: B009 no stub has it

_STATE_CHANGES: Final = frozenset({torch._C._set_grad_enabled})


def _sizes_in(value: Any) -> Iterable[Expr]:
    if type(value) is TracedInt:
        return (value.expr,) if isinstance(value.expr, Expr) else ()
    return value.node.sizes if type(value) is TracedFloat else ()


def _is_of_data(value: Any) -> bool:
    if type(value) is TracedInt:
        return isinstance(value.expr, Expr) and depends_on_data(value.expr)
    return type(value) is TracedFloat and value.node.of_data


def _is_tensors(result: Any) -> bool:
    if isinstance(result, torch.Tensor):
        return True
    return isinstance(result, tuple | list) and all(
        item is None or _is_tensors(item) for item in result
    )


def _metas(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return of_tensor(result)
    if isinstance(result, tuple | list):
        return tuple(map(_metas, result))
    return result


def _as_it_is(meta: Meta, tensor: torch.Tensor) -> Meta:
    if (
        meta.dtype is tensor.dtype
        and meta.requires_grad is tensor.requires_grad
        and meta.device == tensor.device
    ):
        return meta
    return replace(
        meta, dtype=tensor.dtype, requires_grad=tensor.requires_grad, device=tensor.device
    )


def _in_place(function: Callable[..., Any], call: CallForms) -> bool:
    name = name_of(function)
    named = call.plain_kwargs
    return name.endswith("_") or "out" in named or named.get("inplace", False) is not False


#: `x.data` shares the memory of `x`, and not its version.
_ALIASES_UNSEEN: Final = frozenset({vars(torch._C.TensorBase)["data"].__get__})

#: They update running statistics, arguments after the first, without a new version.
_WRITES_STATISTICS: Final = frozenset(
    {
        torch.nn.functional.batch_norm,
        torch.nn.functional.instance_norm,
        torch.batch_norm,
        torch.instance_norm,
        torch.native_batch_norm,
    }
)


#: Parts of names of operators that draw random numbers.
_RANDOM: Final = re.compile(
    "rand|drop|bernoulli|multinomial|normal|poisson|uniform|exponential|geometric|cauchy|binomial"
    "|dirichlet|gamma|rrelu|gumbel|scaled_dot_product_attention|lstm|gru|rnn"
)


@functools.lru_cache(maxsize=4096)
def _may_draw(function: Callable[..., Any]) -> bool:
    return _RANDOM.search(name_of(function).lower()) is not None


def _is_mutable(function: Callable[..., Any]) -> bool:
    """Whether an operator of a library says that it changes an argument: its kernel need not tell
    autograd."""
    if isinstance(function, OpOverload):
        return function._schema.is_mutable
    if isinstance(function, OpOverloadPacket):
        return any(getattr(function, name)._schema.is_mutable for name in function.overloads())
    return False


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None for one that does not count."""
    return None if tensor.is_inference() else tensor._version


def _target_of(function: Callable[..., Any]) -> Any:
    """What the graph calls: methods by name, properties by getattr."""
    if getattr(torch.Tensor, name_of(function), None) is function or is_jagged_method(function):
        return name_of(function)
    if getattr(function, "__name__", None) == "__get__":
        return ("getattr", name_of(function))
    return function


def _identifier(text: str) -> str:
    return _NO_LETTERS.sub("_", text).strip("_")


_NO_LETTERS: Final = re.compile(r"[\W_]+")


class RecordingMode(TorchFunctionMode):
    """Sees the torch operations that native Python code performs during a capture."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self._recorder.run(func, args, kwargs or {}, native=True)
