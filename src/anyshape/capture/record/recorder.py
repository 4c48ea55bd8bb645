"""Torch operations: each is run for real, written into the graph, its shape computed in symbols.

The real result is at hand, so every shape rule is checked against it on every use. A rule that was
wrong costs the dynamism of that one operation (its sizes are fixed by guards), never the answer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from linecache import getline
from typing import Any, Final, NamedTuple

import torch
import torch.fx
from torch.overrides import _pop_mode_temporarily

from anyshape.capture.abort import AbortCapture
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.record.autocast import inferred
from anyshape.capture.record.bound_call import CallForms, name_of
from anyshape.capture.record.data_dependent_shapes import (
    check_form,
    check_same,
    form_of,
    is_opaque,
    metas_of,
    symbols_of_result,
)
from anyshape.capture.record.inputs import Inputs
from anyshape.capture.record.integer_arguments import numbers_in, tensors_read
from anyshape.capture.record.item_reads import DATA_READERS, TRUTHS, is_constant, number_read
from anyshape.capture.record.number_tensors import NumberTensors
from anyshape.capture.record.op_kinds import (
    ALIASES_UNSEEN,
    STATE_CHANGES,
    is_in_place,
    may_draw,
    may_raise,
    may_write,
    runs_python,
    target_of,
)
from anyshape.capture.record.packed_weights import check_results, is_quantized, with_sizes
from anyshape.capture.record.result_metas import (
    as_it_is,
    as_laid_out,
    as_they_are,
    has_opaque,
    is_negated,
    is_tensors,
    layout_varies,
    real_metas,
)
from anyshape.capture.record.segment_state import Forget, TracedTensor
from anyshape.capture.record.tensor_metadata_reads import (
    CONSTANT_READS,
    DATA_READS,
    NOT_RECORDED,
    SHAPE_READS,
    SIZE_READS,
    read_by,
)
from anyshape.capture.record.torch_state import on_default_device
from anyshape.capture.record.unbacked import is_of_data, observed, places, sizes_in
from anyshape.capture.replay.events import ARGUMENTS, operation
from anyshape.capture.tracer import Tracer
from anyshape.config import config
from anyshape.errors import AnyshapeError, InternalError, NeedsDecision, UnknownOperator
from anyshape.guards.path import Path
from anyshape.ops.effects import (
    is_mutable,
    raises_on_numbers,
    schema_of_extension,
    takes_positions,
    writes_untold,
)
from anyshape.ops.families.pinned_layout import dense_in_order
from anyshape.ops.kernel_launch import KernelLaunch
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.node_meta import (
    ARGUMENT,
    CALL,
    CHECKPOINT,
    NUMBER,
    RESULT,
    UNRECORDED,
    VERSION,
    RecordedCall,
)
from anyshape.ops.runtime_checks import check_sizes
from anyshape.ops.shape_query import NeedKind as NeedKind
from anyshape.ops.table import lookup
from anyshape.symbolic import EVERYTHING, Expr, Size, as_symbol, eq, is_data_dependent

_READS: Final = frozenset({*SHAPE_READS, *DATA_READS})
_GET_ITEM: Final = torch.Tensor.__getitem__


def _with_place(kwargs: dict[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments of a read whose tensor was given by name."""
    return (kwargs["input"],), {name: each for name, each in kwargs.items() if name != "input"}


def _check_is_no_element(key: object) -> None:
    keys = key if isinstance(key, tuple | list) else [key]
    if not any(each is None or each is ... or isinstance(each, slice) for each in keys):
        raise AbortCapture("an element is taken in a mode that takes it by tensors")


def _said_dtypes(value: Any) -> Any:
    if isinstance(value, Meta):
        return value.dtype
    return None if value is None else list(map(_said_dtypes, value))


class _Positions(NamedTuple):
    given: set[torch.fx.Node]
    #: older than the function
    others: set[torch.fx.Node]


class Recorder(Inputs):
    """The operations of one capture."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        self.changes_state = False
        #: whether a run may draw random numbers, though this one may not have
        self.may_draw = False
        #: whether the program asks how tensors lie in memory
        self.asks_for_layout = False
        self.defects: list[str] = []
        #: how many modes are entered in which elements are taken by tensors
        self.elements_by_tensors = 0
        #: tensors of positions: whoever asks for their shapes expects that of one position
        self._positions: _Positions | None = None
        self.number_tensors = NumberTensors()
        #: called with each tensor from outside that an operation may be about to change
        self.before_write: Callable[[torch.Tensor], None] | None = None
        #: what is in a container from outside, as the program sees it
        self.contents_of: Callable[[Any, Path], object] = lambda container, path: container

    @contextmanager
    def shapes_hidden(self, given: set[torch.fx.Node]) -> Iterator[None]:
        """While a function of single positions is given all of them at once."""
        before, self._positions = self._positions, _Positions(given, {*self.graph.nodes} - given)
        try:
            yield
        finally:
            self._positions = before

    def is_always_new(self, tensor: torch.Tensor) -> bool:
        """Whether what made a tensor gives none of its arguments, whatever their sizes are. Those
        that may ask how they lie in memory."""
        known = self.known(tensor)
        if known.path is not None:
            return True
        node = known.node[0] if type(known.node) is tuple else known.node
        call = node.meta.get(CALL)
        if call is None or lookup(call.function) is None or known.opaque:
            return False
        return known.meta.shares_if is None and "memory_format" not in call.kwargs

    def reads_shape(self, tensor: object) -> None:
        """Leave if it is another one than the program expects."""
        if self._is_of_positions(tensor):
            raise AbortCapture("the shape is read of a tensor that is one of many positions")

    def _is_of_positions(self, value: object) -> bool:
        positions = self._positions
        if positions is None or not isinstance(value, torch.Tensor):
            return False
        node = self.node(value)
        if node in positions.others or (node.op == "placeholder" and node not in positions.given):
            return False
        return node in positions.given or self.meta(value).rank > 0

    def _check_places(
        self, function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Leave before an index is used that may be out of range, since it is meant for a tensor of
        one position: a GPU does not go on behind that. Elements of a tensor are taken by as many
        indices as it has dimensions."""
        if not takes_positions(function):
            return
        keys = [each for arg in args for each in (arg if isinstance(arg, tuple | list) else (arg,))]
        if not any(map(self._is_of_positions, (*keys, *kwargs.values()))):
            return
        is_element = function is _GET_ITEM and len(keys) - 1 == args[0].dim()
        if is_element and not self._is_of_positions(args[0]):
            return
        raise AbortCapture(f"`{name_of(function)}` of one of many positions")

    def forget(self) -> None:
        super().forget()
        self.number_tensors.forget()

    # -- numbers ---------------------------------------------------------------------------------

    def number(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        """A float computed from sizes: computed now, and again by the graph."""
        sizes = frozenset(size for arg in args for size in sizes_in(arg))
        self.tracer.cannot_replay("a number is computed")
        try:
            value = function(*map(plain, args))
        except Exception:
            # The program may catch it: it is an error for these numbers only.
            if any(map(is_of_data, args)):
                self.tracer.abort(
                    f"`{name_of(function)}` of a number raised an error", is_error=True
                )
            for source in sizes:
                self.tracer.fix_source(source, f"`{name_of(function)}` of it raises an error")
            raise
        of_data = [is_of_data(arg) for arg in args]
        changing = [type(arg) is TracedFloat or is_of_data(arg) for arg in args]
        may_fail = any(changing) and raises_on_numbers(function, changing)
        if may_fail and (any(of_data) or self.tracer.is_caught()):
            self.changes.note_raising(self.tracer.is_caught)
        node = self.graph.call_function(function, tuple(map(self._operand, args)))
        node.meta[NUMBER] = True
        if any(map(is_of_data, args)):
            return self._number_of_data(node, value)
        if type(value) is float:
            return self.new_float(node, value, sizes)
        for source in sizes:
            self.tracer.fix_source(source, "a number made of it is not a float")
        return value

    def _number_of_data(self, node: torch.fx.Node, value: object) -> object:
        if type(value) is float:
            return self.new_float(node, value)
        if type(value) is int:
            return self.new_integer(node, value, EVERYTHING)
        try:
            self.branch_on_number(
                node, value, "the program branches on a number read from a tensor"
            )
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return value

    def _operand(self, value: object) -> Any:
        if type(value) is TracedInt:
            return self.sizes.of(value.expr)
        if type(value) is TracedFloat:
            return self.number_node(value.node)
        return value

    # -- operations ------------------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        target: Callable[..., object] | str | None = None,
        *,
        native: bool = False,
    ) -> Any:
        """Run a torch operation for real and record it. `native`: for code that is not watched,
        which needs plain numbers."""
        if self.tracer.active:
            # No function modes from here on; that of the default device is one.
            given = on_default_device(function, kwargs)
            with torch._C.DisableTorchFunction():
                if self.number_tensors:
                    args = self.number_tensors.operands(args, self._to_dtype)
                result = self._run(function, args, given, target, native)
            if result is not _NOT_RUN:
                if self.number_tensors:
                    self.number_tensors.note(args, result)
                return result
        return function(*args, **kwargs)

    def _to_dtype(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        found = self._run(torch.Tensor.to, (tensor, dtype), {}, None, False)
        return found if isinstance(found, torch.Tensor) else tensor.to(dtype)

    def _run(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        target: Callable[..., object] | str | None,
        native: bool,
    ) -> object:
        tracer = self.tracer
        try:
            if tracer.is_trial and (may_write(function, kwargs) or may_draw(function)):
                tracer.has_effect(f"`{name_of(function)}` writes, or draws random numbers,")
            if not args and "input" in kwargs and function in _READS:
                args, kwargs = _with_place(kwargs)
            if function in SHAPE_READS and args:
                self.reads_shape(args[0])
            elif function is _GET_ITEM and self.elements_by_tensors and self._positions is None:
                _check_is_no_element(args[1])
            if self._positions is not None:
                self._check_places(function, args, kwargs)
            read = SIZE_READS.get(function)
            if read is not None and args and isinstance(args[0], torch.Tensor):
                return read(self, *args, **kwargs)
            if function in CONSTANT_READS:
                return self._constant_read(function, args, kwargs)
            if function in DATA_READS:
                reader = (TRUTHS if native else DATA_READERS).get(function)
                if reader is None:
                    name = name_of(function)
                    what, hint = read_by(name)
                    raise AbortCapture(f"`{name}` reads {what}", hint)
                if is_constant(self, args):
                    return function(*args, **kwargs)
                return reader(self, *args, **kwargs)
            for place in tensors_read(function, args, kwargs):
                args, kwargs = self._with_numbers(args, kwargs, place)
            converted = self._converted(function, args, kwargs)
        except AbortCapture as left:
            tracer.leave_for(left)
            return _NOT_RUN
        except Exception:
            # The program may catch it. What it depends on is not guarded.
            tracer.abort(f"`{name_of(function)}` raised an error", is_error=True)
            raise
        if self.before_write is not None and may_write(function, kwargs):
            self._tell_writes(converted, self.before_write)
        try:
            if converted.opaque:
                with torch._C._EnableTorchFunction(), _no_mode():
                    result = function(*converted.plain_args, **converted.plain_kwargs)
            else:
                result = function(*converted.plain_args, **converted.plain_kwargs)
        except BaseException:
            tracer.abort(f"`{name_of(function)}` raised an error", is_error=True)
            raise
        try:
            if converted.opaque and type(result) in (int, float, bool):
                node = self._call_node(function, converted, target)
                return number_read(self, torch.int64, node, result)
            while tracer.active:
                try:
                    self._record(function, converted, result, target)
                    break
                except _CountFirst as first:
                    # The number of results is a branch; the operation belongs behind it.
                    tracer.specialize_size(first.size, first.reason)
                if tracer.active:
                    converted = self._converted(function, args, kwargs)
        except AbortCapture as left:
            tracer.leave_for(left)
        except Exception as error:
            # A defect of ours: the operation itself has run, and its result is right.
            if config.on_compile_error == "raise":
                # What the program itself has used up is no defect of ours.
                if isinstance(error, AnyshapeError | RecursionError | MemoryError):
                    raise
                # Of an error of its own, the program is shown its own lines only.
                stage = f"recording `{name_of(function)}`"
                raise InternalError(stage=stage, detail=repr(error)) from error
            tracer.abort(f"recording `{name_of(function)}` failed: {error!r}")
        if tracer.active and layout_varies(result, function):
            layout = self.known(result).meta.layout
            if isinstance(layout, Dense):
                pinned = self._run(dense_in_order, (result, layout.order), {}, None, native)
                return result if pinned is _NOT_RUN else pinned
        return result

    def _converted(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> CallForms:
        """The forms of a call, with all nodes in the segment at hand: to make them may end it."""
        log = self.tracer.log
        if log is not None:
            log.append(ARGUMENTS)
        while True:
            segment = self.segment
            forms = CallForms(self, function, args, kwargs)
            if segment is self.segment:
                return forms

    def _tell_writes(self, call: CallForms, tell: Callable[[torch.Tensor], None]) -> None:
        memory = {each.untyped_storage()._cdata for each in call.every_tensor()}
        for _, tensor, _ in self.changes.externals:
            if tensor.untyped_storage()._cdata in memory:
                tell(tensor)

    def _constant_read(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """What depends on nothing but what the guards of the tensors fix."""
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                self.known(value)
        return function(*args, **kwargs)

    def _record(
        self,
        function: Callable[..., object],
        call: CallForms,
        result: object,
        target: Callable[..., object] | str | None,
    ) -> None:
        if function in NOT_RECORDED:
            raise AbortCapture(
                f"`{name_of(function)}` inside a compiled function",
                "call it outside of what is compiled, on what that gives",
            )
        getter = getattr(function, "__name__", "") == "__get__"
        if not is_tensors(result) and (result is not None or getter):
            raise AbortCapture(f"`{name_of(function)}` returns a {type(result).__name__}")
        if is_negated(result):
            raise AbortCapture(f"`{name_of(function)}` returns a lazily negated tensor")
        call.in_place = is_in_place(function, call, result)
        with self.tracer.expecting():
            value, made = self._infer(function, call, result)
        node = self._call_node(function, call, target)
        node.meta[CALL] = RecordedCall(function, call.metas, call.meta_kwargs)
        if not torch.is_grad_enabled():
            node.meta[UNRECORDED] = True
        if result is not None:
            node.meta[RESULT] = as_they_are(value, result)
            if type(result) is torch.Tensor and not result.is_inference() and result._version:
                node.meta[VERSION] = result._version
            self._bind(result, value, node, call)
        if made is _OPAQUE:
            self.checks_forms = True
            self.graph.call_function(check_form, (node, form_of(result)))
            made = tuple(symbols_of_result(value))
        elif call.packed:
            check_results(self, value, result)
        elif lookup(function) is None and schema_of_extension(function) is not None:
            # Its shape function was compared with the operator at the sizes of this run only.
            said = self._said_sizes(value), str(function), _said_dtypes(value)
            self.graph.call_function(check_sizes, (node, *said))
        if made:
            self._name_sizes(made, result, value)
        if self.tracer.log is not None:
            self.tracer.log.append(operation(self, function, call, result, node))
        if function in STATE_CHANGES:
            self.changes_state = True
            return
        self.may_draw |= may_draw(function)
        self._note_changes(function, call)

    def _said_sizes(self, value: Any) -> Any:
        """The sizes of a result, as nodes."""
        if isinstance(value, Meta):
            return tuple(map(self.sizes.of, value.shape))
        return None if value is None else list(map(self._said_sizes, value))

    def _with_numbers(
        self, args: tuple[object, ...], kwargs: dict[str, object], place: int | str
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments with numbers for the tensors at one place, read as `item` reads them."""

        def read(tensor: torch.Tensor) -> object:
            if tensor.dtype is torch.bool:
                raise AbortCapture("a bool is used as an integer")
            return DATA_READERS[torch.Tensor.item](self, tensor)

        if isinstance(place, str):
            return args, {**kwargs, place: numbers_in(kwargs[place], read)}
        return (*args[:place], numbers_in(args[place], read), *args[place + 1 :]), kwargs

    def _note_changes(self, function: Callable[..., object], call: CallForms) -> None:
        changes = self.changes
        # A launch does not fail by its data, but some programs try others then; and few numbers are
        # too large for an operator.
        may_be_tried = isinstance(function, KernelLaunch) or call.has_floats
        is_tried = may_be_tried and self.tracer.is_caught()
        if is_tried or may_raise(function, call):
            changes.note_raising(self.tracer.is_caught)
        # Code of the program may change what it is given, and then draw, or fail.
        changes.any |= call.in_place or runs_python(function)
        if function in ALIASES_UNSEEN:
            changes.unseen = True
        if writes_untold(function):
            changes.wrote(call.others())
        elif is_mutable(function) and not call.opaque:
            changes.wrote(call.every_tensor())
        elif call.opaque and (call.in_place or is_mutable(function)):
            changes.unseen = changes.any = True

    def _call_node(
        self,
        function: Callable[..., object],
        call: CallForms,
        target: Callable[..., object] | str | None,
    ) -> torch.fx.Node:
        if target is None:
            target = target_of(function)
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
        if self.checkpoint is not None:
            node.meta[CHECKPOINT] = self.checkpoint
        return node

    def _infer(
        self, function: Callable[..., object], call: CallForms, result: object
    ) -> tuple[Any, Sequence[Expr]]:
        """The metas of the result, and the symbols of sizes that depend on data; sizes are fixed
        where they cannot be given in symbols."""
        tracer = self.tracer
        if function in STATE_CHANGES or isinstance(function, KernelLaunch):
            return None, ()
        if call.packed and is_quantized(result):
            raise AbortCapture(f"the result of `{name_of(function)}` is a quantized tensor")
        if call.opaque or has_opaque(result) or (call.packed and lookup(function) is None):
            return metas_of(self, result), _OPAQUE
        seen = real_metas(result) if lookup(function) is None else None
        try:
            found = inferred(tracer.facts, function, call, seen)
        except NeedsDecision as error:
            raise AbortCapture(str(error)) from None
        except UnknownOperator:
            # Neither a rule nor a shape function: the shape may depend on the data.
            return metas_of(self, result), _OPAQUE
        except AnyshapeError as error:
            return self._fixed(function, call, result, str(error)), ()
        for need in found.needs:
            if (
                need.kind is NeedKind.COUNT
                and need.size is not None
                and is_data_dependent(need.fact)
            ):
                raise _CountFirst(need.size, need.reason)
        seen_sizes = dict(observed(found.unbacked, found.value, result))
        if call.packed and len(seen_sizes) < len(found.unbacked):
            return self._fixed(function, call, result, "its result has another rank"), ()
        tracer.facts = found.facts
        for size, value in seen_sizes.items():
            tracer.observe(size, value)
        for need in found.needs:
            tracer.note_assumed(need.fact, f"{name_of(function)}: {need.reason}")
        wrong = self._disagreement(found.value, result)
        if wrong and layout_varies(result, function):
            pinned = as_laid_out(found.value, result)
            if not self._disagreement(pinned, result):
                return pinned, ()
        if wrong:
            if found.unbacked and not call.packed:
                raise AbortCapture(
                    f"`{name_of(function)}` has a result of an unforeseen shape ({wrong})"
                )
            self.defects.append(f"{name_of(function)}: {wrong}")
            return self._fixed(function, call, result, wrong, "a wrong shape rule"), ()
        if call.packed:
            return with_sizes(seen_sizes, found.value), ()
        return found.value, found.unbacked

    def _name_sizes(self, made: Sequence[Expr], result: object, value: object) -> None:
        """Say in the graph where the sizes that an operation made are to be read."""
        for size, tensor, dim in places(made, value, result):
            node = self.graph.call_method("size", (self.node(tensor), dim))
            self.is_number(as_symbol(size), node, dim)

    def _fixed(
        self,
        function: Callable[..., object],
        call: CallForms,
        result: object,
        why: str,
        what: str = "no shape rule",
    ) -> object:
        for symbol in call.symbols():
            size = self.tracer.facts.symbols[symbol.name]
            self.tracer.decide(
                eq(size, self.tracer.value_of(size)),
                f"{name_of(function)} has {what} for these arguments ({why})",
            )
        return real_metas(result)

    def _disagreement(self, value: object, result: object) -> str | None:
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

    def _bind(self, result: object, value: Any, node: object, call: CallForms) -> None:
        """Name the tensors of a result."""
        if isinstance(result, torch.Tensor):
            identity = id(result)
            meta = value if is_opaque(result) else as_it_is(value, result)
            if identity in call.tensors:
                # In place, or nothing to do: it is still that tensor.
                self._returns_itself(call, self._known[identity], value, node)
                if type(node) is torch.fx.Node and not call.in_place:
                    places = (n for n, arg in enumerate(call.plain_args) if arg is result)
                    node.meta[ARGUMENT] = next(places, None)
                self._known[identity].meta = meta
                return
            alive = weakref.ref(result, Forget(self._known, identity))
            known = self._known[identity] = TracedTensor(node, meta, alive, self.segment)
            known.opaque = is_opaque(result)
        elif isinstance(result, tuple | list):
            whole = (
                node
                if type(node) is torch.fx.Node
                else TracedTensor(node, _NOTHING, None, self.segment)
            )
            for index, (item, meta) in enumerate(zip(result, value, strict=True)):
                if item is not None:
                    self._bind(item, meta, (whole, index), call)

    def _returns_itself(
        self, call: CallForms, known: TracedTensor, value: object, node: Any
    ) -> None:
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
        self.tracer.cannot_replay("a mode is changed")
        self.changes_state = True
        return self.graph.call_function(function, args)


@contextmanager
def _no_mode() -> Iterator[None]:
    """Without our own function mode: a class of tensors may have a function of its own."""
    with _pop_mode_temporarily():
        yield


class _CountFirst(Exception):
    """How many results an operation has depends on data."""

    def __init__(self, size: Size, reason: str) -> None:
        super().__init__(reason)
        self.size = size
        self.reason = reason


_NOT_RUN: Final = object()

#: Stands for the sizes of a result that nobody can say beforehand: all of them.
_OPAQUE: Final[Any] = object()


_NOTHING: Final = Meta((), torch.float32, Dense(()), torch.device("cpu"))
