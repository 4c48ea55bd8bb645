"""Torch operations: each is run for real, written into the graph, its shape computed in symbols.

The real result is at hand, so every shape rule is checked against it on every use. A rule that was
wrong costs the dynamism of that one operation (its sizes are fixed by guards), never the answer.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from linecache import getline
from typing import Any, Final

import torch
import torch.fx
from torch.overrides import TorchFunctionMode

from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.size_nodes import Computed, SizeNodes
from anyshape.capture.tensor_reads import CONSTANT_READS, DATA_READS, NOT_RECORDED, SIZE_READS
from anyshape.capture.tracer import ATOMS, Leave, Tracer
from anyshape.config import config
from anyshape.errors import AnyshapeError, NeedsDecision
from anyshape.guards.guard import Kind, TensorSpec
from anyshape.guards.path import Path
from anyshape.ops.infer import How, infer
from anyshape.ops.meta import Dense, Meta, Strided, of_tensor
from anyshape.ops.op import Lowering
from anyshape.ops.table import lookup
from anyshape.symbolic import Expr, Size, Symbol, as_symbol, eq
from anyshape.symbolic.expr import symbols_of


class Known:
    """A tensor that the capture can name: its node in the graph and its shape in symbols."""

    __slots__ = ("alive", "meta", "node")

    def __init__(self, node: Any, meta: Meta, alive: object) -> None:
        #: a node, or (node of a tuple, index) until somebody uses it
        self.node = node
        self.meta = meta
        self.alive = alive


#: What the value of a float argument cannot change the shape of, beyond pointwise operators.
_SHAPE_FREE_OF_FLOATS: Final = frozenset(
    {
        torch.nn.functional.scaled_dot_product_attention,
        torch.full,
        torch.full_like,
        torch.Tensor.new_full,
        torch.nn.functional.dropout,
        torch.nn.functional.layer_norm,
        torch.Tensor.__setitem__,
        torch.Tensor.fill_,
    }
)

_POINTWISE_ENOUGH: Final = (Lowering.POINTWISE, Lowering.REDUCTION, Lowering.MATMUL)


class Recorder:
    """The graph of one capture."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        tracer.recorder = self
        self.graph = torch.fx.Graph()
        self._known: dict[int, Known] = {}
        #: placeholders in the order in which they were made: a path or a symbol each
        self.inputs: list[tuple[torch.fx.Node, Path | Symbol, Any]] = []
        self._symbol_nodes: dict[Symbol, torch.fx.Node] = {}
        self._object_nodes: dict[int, torch.fx.Node] = {}
        self.sizes = SizeNodes(self.graph, self._symbol_node)
        #: whether a recorded operation changes a tensor or some state in place
        self.in_place = False
        self.changes_state = False
        self.defects: list[str] = []

    # -- inputs ----------------------------------------------------------------------------------

    def _placeholder(self, name: str, source: Path | Symbol, example: Any) -> torch.fx.Node:
        last = self.inputs[-1][0] if self.inputs else None
        if last is None:
            with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
                node = self.graph.placeholder(name)
        else:
            with self.graph.inserting_after(last):
                node = self.graph.placeholder(name)
        self.inputs.append((node, source, example))
        return node

    def _symbol_node(self, symbol: Symbol) -> torch.fx.Node:
        found = self._symbol_nodes.get(symbol)
        if found is None:
            value = self.tracer.facts.hints[symbol]
            found = self._placeholder(symbol.name, symbol, value)
            self._symbol_nodes[symbol] = found
        return found

    def object_node(self, value: object) -> torch.fx.Node:
        """A placeholder for an external object that an operation takes as it is."""
        path = self.tracer.path_of(value)
        if path is None:
            raise Leave(f"an operation takes a {type(value).__name__} made by the program")
        found = self._object_nodes.get(id(value))
        if found is None:
            found = self._object_nodes[id(value)] = self._placeholder(
                _identifier(path.text), path, value
            )
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
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            raise Leave(f"a tensor of layout {tensor.layout}")
        if _is_transformed(tensor):
            raise Leave("a tensor inside a function transform")
        if tensor.is_conj() or tensor.is_neg():
            raise Leave("a lazily conjugated or negated tensor")
        module_property = tracer.below_module(path)
        chosen = tracer.chooser.sizes(path, tensor, module_property)
        shape: list[Size] = []
        for dim, (size, declared) in enumerate(zip(tensor.shape, chosen, strict=True)):
            shape.append(size if declared is None else tracer.new_symbol(path, dim, size, declared))
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
        node = self._placeholder(_identifier(path.text), path, tensor)
        found = self._known[id(tensor)] = Known(node, meta, tensor)
        return found

    def _node_of(self, known: Known) -> torch.fx.Node:
        node = known.node
        if type(node) is tuple:
            whole, index = node
            if type(whole) is not torch.fx.Node:
                whole = self._node_of(whole)
            node = known.node = self.graph.call_function(operator.getitem, (whole, index))
        return node

    def node(self, tensor: torch.Tensor) -> torch.fx.Node:
        return self._node_of(self.known(tensor))

    def meta(self, tensor: torch.Tensor) -> Meta:
        return self.known(tensor).meta

    def pin_layouts(self) -> None:
        """Guard strides, offset and flags of every input exactly: what follows from sizes alone
        leaves them open at the sizes 0 and 1."""
        for _, source, example in self.inputs:
            if isinstance(source, Path) and isinstance(example, torch.Tensor):
                self.tracer.guard(Kind.PREDICATE, source, ExactLayout(example))

    # -- numbers ---------------------------------------------------------------------------------

    def number(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A float computed from sizes: computed now, and again by the graph."""
        value = function(*map(plain, args))
        node = self.graph.call_function(function, tuple(map(self._operand, args)))
        sizes = frozenset(size for arg in args for size in _sizes_in(arg))
        if type(value) is float:
            return TracedFloat(value, Computed(node, sizes), self.tracer)
        if type(value) is int:
            for size in sizes:
                self.tracer.decide(
                    eq(size, self.tracer.value_of(size)), "a float made of it became an integer"
                )
        return value

    def _operand(self, value: Any) -> Any:
        if type(value) is TracedInt:
            return self.sizes.of(value.expr)
        if type(value) is TracedFloat:
            return value.node.node
        return value

    # -- operations ------------------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Callable[..., Any] | str | None = None,
    ) -> Any:
        """Run a torch operation for real and record it."""
        if self.tracer.active:
            with torch._C.DisableTorchFunction():
                result = self._run(function, args, kwargs, target)
            if result is not _NOT_RUN:
                return result
        return function(*args, **kwargs)

    def _run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Callable[..., Any] | str | None,
    ) -> Any:
        tracer = self.tracer
        try:
            read = SIZE_READS.get(function)
            if read is not None and args and isinstance(args[0], torch.Tensor):
                return read(self, *args, **kwargs)
            if function in CONSTANT_READS:
                return self._constant_read(function, args, kwargs)
            if function in DATA_READS:
                raise Leave(
                    f"`{_name(function)}` reads the data of a tensor",
                    "keep the value in a tensor (torch.where instead of `if`)",
                )
            converted = _Arguments(self, function, args, kwargs)
        except Leave as left:
            tracer.leave(left.reason, *left.hints)
            return _NOT_RUN
        try:
            result = function(*converted.plain_args, **converted.plain_kwargs)
        except BaseException:
            tracer.leave(f"`{_name(function)}` raised an error")
            raise
        try:
            self._record(function, converted, result, target)
        except Leave as left:
            tracer.leave(left.reason, *left.hints)
        except Exception as error:
            if config.on_compile_error == "raise":
                raise
            # A defect of ours: the operation itself has run, and its result is right.
            tracer.leave(f"recording `{_name(function)}` failed: {error!r}")
        return result

    def _constant_read(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What depends on nothing but what the guards of the tensors fix."""
        for value in args:
            if isinstance(value, torch.Tensor):
                self.known(value)
        return function(*args, **kwargs)

    def _record(
        self,
        function: Callable[..., Any],
        call: _Arguments,
        result: Any,
        target: Callable[..., Any] | str | None,
    ) -> None:
        if function in NOT_RECORDED:
            raise Leave(f"`{_name(function)}` inside a compiled function")
        getter = getattr(function, "__name__", "") == "__get__"
        if not _is_tensors(result) and (result is not None or getter):
            raise Leave(f"`{_name(function)}` returns a {type(result).__name__}")
        value = self._infer(function, call, result)
        node = self._call_node(function, call, target)
        if result is not None:
            self._bind(result, value, node, call)
        entry = lookup(function)
        if function in _STATE_CHANGES:
            self.changes_state = True
        elif result is None or (entry.in_place if entry else _in_place(function, call)):
            self.in_place = True

    def _call_node(
        self,
        function: Callable[..., Any],
        call: _Arguments,
        target: Callable[..., Any] | str | None,
    ) -> torch.fx.Node:
        if target is None:
            target = _target_of(function)
        assert target is not None
        if isinstance(target, str):
            node = self.graph.call_method(target, call.node_args, call.node_kwargs)
        elif isinstance(target, tuple):  # the getter of a property
            node = self.graph.call_function(getattr, (*call.node_args, target[1]))
        else:
            node = self.graph.call_function(target, call.node_args, call.node_kwargs)
        frame = self.tracer.user_frame()
        if frame is not None:
            line = getline(frame.filename, frame.line).strip()
            node.meta["stack_trace"] = (
                f'File "{frame.filename}", line {frame.line}, in {frame.function}\n    {line}'
            )
        return node

    def _infer(self, function: Callable[..., Any], call: _Arguments, result: Any) -> Any:
        """The metas of the result; sizes are fixed where they cannot be given in symbols."""
        tracer = self.tracer
        if function in _STATE_CHANGES:
            return None
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
        except AnyshapeError as error:
            if not call.symbolic and _shape_is_given(function):
                return _metas(result)
            return self._fixed(function, call, result, str(error))
        if found.unbacked:
            raise Leave(
                f"the shape of `{_name(function)}`'s result depends on data",
                "use an operation whose shape follows from its inputs' shapes",
            )
        before = tracer.facts
        if found.facts is not before:
            tracer.facts = found.facts
            for need in found.needs:
                tracer.note_assumed(need.fact, f"{_name(function)}: {need.reason}")
        if found.how is How.SPECIALISED and call.symbolic:
            pass  # the sizes were fixed by the needs
        wrong = self._disagreement(found.value, result)
        if wrong:
            self.defects.append(f"{_name(function)}: {wrong}")
            return self._fixed(function, call, result, wrong)
        return found.value

    def _fixed(self, function: Callable[..., Any], call: _Arguments, result: Any, why: str) -> Any:
        for symbol in call.symbols():
            size = self.tracer.facts.symbols[symbol.name]
            self.tracer.decide(
                eq(size, self.tracer.value_of(size)),
                f"{_name(function)} has no shape rule for these arguments ({why})",
            )
        return _metas(result)

    def _disagreement(self, value: Any, result: Any) -> str | None:
        """How the metas differ from the real result, in this run; dtype and grad are taken from the
        real one, since sizes do not change them."""
        if isinstance(result, torch.Tensor):
            if not isinstance(value, Meta):
                return f"{value!r} for a tensor"
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

    def _bind(self, result: Any, value: Any, node: Any, call: _Arguments) -> None:
        """Name the tensors of a result."""
        if isinstance(result, torch.Tensor):
            identity = id(result)
            meta = _as_it_is(value, result)
            if identity in call.tensors:
                # In place, or nothing to do: it is still that tensor.
                self._known[identity].meta = meta
                return
            alive = weakref.ref(result, _Forget(self._known, identity))
            self._known[identity] = Known(node, meta, alive)
        elif isinstance(result, tuple | list):
            whole = node if type(node) is torch.fx.Node else Known(node, _NOTHING, None)
            for index, (item, meta) in enumerate(zip(result, value, strict=True)):
                if item is not None:
                    self._bind(item, meta, (whole, index), call)

    # -- making a node without an operation -------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any) -> torch.fx.Node:
        """A node for a change of state (a mode entered or left)."""
        self.changes_state = True
        return self.graph.call_function(function, args)


class ExactLayout:
    """Whether a tensor lies in its storage as another one does."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._layout = _layout_of(tensor)

    def __call__(self, tensor: torch.Tensor) -> bool:
        return _layout_of(tensor) == self._layout


def _layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()


class _Forget:
    """Takes a tensor off the list when it dies, so that its identity can be used again."""

    __slots__ = ("identity", "known")

    def __init__(self, known: dict[int, Known], identity: int) -> None:
        self.known = known
        self.identity = identity

    def __call__(self, reference: object) -> None:
        self.known.pop(self.identity, None)


class _Arguments:
    """The arguments of a call in three forms: plain (to run), nodes (to record), metas (to
    infer)."""

    def __init__(
        self,
        recorder: Recorder,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._recorder = recorder
        self.tensors: set[int] = set()
        self.symbolic = False
        self._sizes: list[Size] = []
        self._floats: list[TracedFloat] = []
        converted = [self._convert(value) for value in args]
        self.plain_args = tuple(item[0] for item in converted)
        self.node_args = tuple(item[1] for item in converted)
        self.metas = tuple(item[2] for item in converted)
        self.plain_kwargs: dict[str, Any] = {}
        self.node_kwargs: dict[str, Any] = {}
        self.meta_kwargs: dict[str, Any] = {}
        for name, value in kwargs.items():
            (
                self.plain_kwargs[name],
                self.node_kwargs[name],
                self.meta_kwargs[name],
            ) = self._convert(value)
        if self._floats and not _free_of_floats(function):
            for value in self._floats:
                recorder.tracer.fix(value, f"{_name(function)} may shape its result by it")

    def symbols(self) -> Iterable[Symbol]:
        return sorted(
            {symbol for size in self._sizes for symbol in symbols_of(size)}, key=lambda s: s.name
        )

    def _convert(self, value: Any) -> tuple[Any, Any, Any]:
        kind = type(value)
        if kind in ATOMS:
            return value, value, value
        if isinstance(value, torch.Tensor):
            if kind not in _PLAIN_TENSORS:
                raise Leave(f"a tensor subclass: {kind.__name__}")
            known = self._recorder.known(value)
            self.tensors.add(id(value))
            self._note(known.meta.shape)
            if isinstance(known.meta.layout, Strided):
                self._note(known.meta.layout.strides)
            return value, self._recorder._node_of(known), known.meta
        if kind is TracedInt:
            expr = value.expr
            self._note((expr,))
            return plain(value), self._recorder.sizes.of(expr), expr
        if kind is TracedFloat:
            self._floats.append(value)
            return plain(value), value.node.node, plain(value)
        if kind is tuple or kind is list or kind is torch.Size:
            return self._sequence(value, tuple if kind is torch.Size else kind)
        if kind is dict:
            items = {key: self._convert(item) for key, item in self._items(value)}
            return tuple({key: item[form] for key, item in items.items()} for form in range(3))  # pyright: ignore[reportReturnType] three forms
        if kind is slice:
            parts = [self._convert(part) for part in (value.start, value.stop, value.step)]
            return tuple(slice(*(part[form] for part in parts)) for form in range(3))  # pyright: ignore[reportReturnType] three forms
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return self._sequence(value, lambda items: kind(*items))
        if kind is torch.Generator:
            return value, self._recorder.object_node(value), value
        raise Leave(f"an operation takes a {kind.__name__}")

    def _sequence(self, value: Any, make: Callable[..., Any]) -> tuple[Any, Any, Any]:
        path = self._recorder.tracer.path_of(value)
        if path is not None:
            self._recorder.tracer.guard(Kind.LENGTH, path, len(value))
            value = [self._recorder.tracer.read(x, path.item(i)) for i, x in enumerate(value)]
        items = [self._convert(item) for item in value]
        return tuple(make([item[form] for item in items]) for form in range(3))

    def _items(self, value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        path = self._recorder.tracer.path_of(value)
        if path is not None:
            raise Leave("an operation takes a dictionary from outside")
        return value.items()

    def _note(self, sizes: Iterable[Size]) -> None:
        for size in sizes:
            if type(size) is not int:
                self.symbolic = True
                self._sizes.append(size)


_PLAIN_TENSORS: Final = frozenset({torch.Tensor, torch.nn.Parameter})

_NOT_RUN: Final = object()
_NOTHING: Final = Meta((), torch.float32, Dense(()), torch.device("cpu"))

_is_transformed: Any = getattr(torch._C, "_functorch").is_functorch_wrapped_tensor  # noqa: B009 no stub has it

_STATE_CHANGES: Final = frozenset({torch._C._set_grad_enabled})


def _shape_is_given(function: Callable[..., Any]) -> bool:
    """Whether the real result may be trusted for the shape at given sizes: not where the shape
    could depend on data, which an operator without a rule might."""
    return lookup(function) is not None


def _free_of_floats(function: Callable[..., Any]) -> bool:
    if function in _SHAPE_FREE_OF_FLOATS:
        return True
    entry = lookup(function)
    return entry is not None and entry.op.lowering in _POINTWISE_ENOUGH


def _sizes_in(value: Any) -> Iterable[Expr]:
    if type(value) is TracedInt:
        return (value.expr,) if isinstance(value.expr, Expr) else ()
    return value.node.sizes if type(value) is TracedFloat else ()


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


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or str(function)
    owner: Any = getattr(function, "__self__", None)
    if name == "__get__" and hasattr(owner, "__name__"):
        return owner.__name__
    return name


def _in_place(function: Callable[..., Any], call: _Arguments) -> bool:
    name = _name(function)
    return name.endswith("_") or "out" in call.plain_kwargs


def _target_of(function: Callable[..., Any]) -> Any:
    """What the graph calls: methods by name, properties by getattr."""
    if getattr(torch.Tensor, _name(function), None) is function:
        return _name(function)
    if getattr(function, "__name__", None) == "__get__":
        return ("getattr", _name(function))
    return function


def _identifier(text: str) -> str:
    made = "".join(letter if letter.isalnum() else "_" for letter in text).strip("_")
    while "__" in made:
        made = made.replace("__", "_")
    return made


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
        return self._recorder.run(func, args, kwargs or {})


__all__ = ["Recorder", "RecordingMode", "as_symbol"]
