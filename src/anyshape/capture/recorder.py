"""Torch operations: each is run for real, written into the graph, its shape computed in symbols.

The real result is at hand, so every shape rule is checked against it on every use. A rule that was
wrong costs the dynamism of that one operation (its sizes are fixed by guards), never the answer.
"""

from __future__ import annotations

import operator
import re
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from linecache import getline
from typing import Any, Final

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode

from anyshape.capture.call_forms import CallForms, name_of
from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.size_nodes import Computed, SizeNodes
from anyshape.capture.tensor_reads import CONSTANT_READS, DATA_READS, NOT_RECORDED, SIZE_READS
from anyshape.capture.tracer import Leave, Tracer
from anyshape.config import config
from anyshape.errors import AnyshapeError, NeedsDecision, UnknownOperator
from anyshape.guards.guard import Kind, TensorSpec
from anyshape.guards.path import Path
from anyshape.ops.infer import infer
from anyshape.ops.meta import Dense, Meta, of_tensor
from anyshape.ops.table import lookup
from anyshape.symbolic import Expr, Size, Symbol, eq


class Known:
    """A tensor that the capture can name: its node in the graph and its shape in symbols."""

    __slots__ = ("alive", "meta", "node")

    def __init__(self, node: Any, meta: Meta, alive: object) -> None:
        #: a node, or (node of a tuple, index) until somebody uses it
        self.node = node
        self.meta = meta
        self.alive = alive


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
        self.changes_state = False
        #: of the tensors that are inputs, their versions before the program changed them
        self._versions: list[tuple[torch.Tensor, int | None]] = []
        #: whether something may have been changed that versions do not tell
        self._changes_unseen = False
        self._in_place = False
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
        self._versions.append((tensor, _version(tensor)))
        return found

    def repeatable(self) -> bool:
        """Whether the graph may be run a second time: it has changed nothing but its own tensors.

        Asked when a compiled run fails and has to be made again, eagerly.
        """
        if self._changes_unseen and self._in_place:
            return False
        return not any(
            self._in_place if version is None else _version(tensor) != version
            for tensor, version in self._versions
        )

    def node_of(self, known: Known) -> torch.fx.Node:
        node = known.node
        if type(node) is tuple:
            whole, index = node
            if type(whole) is not torch.fx.Node:
                whole = self.node_of(whole)
            node = known.node = self.graph.call_function(operator.getitem, (whole, index))
        return node

    def node(self, tensor: torch.Tensor) -> torch.fx.Node:
        return self.node_of(self.known(tensor))

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
        for size in sizes:
            self.tracer.decide(
                eq(size, self.tracer.value_of(size)), "a number made of it is not a float"
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
                    f"`{name_of(function)}` reads the data of a tensor",
                    "keep the value in a tensor (torch.where instead of `if`)",
                )
            converted = CallForms(self, function, args, kwargs)
        except Leave as left:
            tracer.leave(left.reason, *left.hints)
            return _NOT_RUN
        try:
            result = function(*converted.plain_args, **converted.plain_kwargs)
        except BaseException:
            tracer.leave(f"`{name_of(function)}` raised an error")
            raise
        try:
            self._record(function, converted, result, target)
        except Leave as left:
            tracer.leave(left.reason, *left.hints)
        except Exception as error:
            if config.on_compile_error == "raise":
                raise
            # A defect of ours: the operation itself has run, and its result is right.
            tracer.leave(f"recording `{name_of(function)}` failed: {error!r}")
        return result

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
        value = self._infer(function, call, result)
        node = self._call_node(function, call, target)
        if result is not None:
            self._bind(result, value, node, call)
        entry = lookup(function)
        if function in _STATE_CHANGES:
            self.changes_state = True
            return
        if result is None or (entry is not None and entry.in_place) or _in_place(function, call):
            self._in_place = True
        if function in _ALIASES_UNSEEN:
            self._changes_unseen = True
        if function in _WRITES_UNSEEN or _is_mutable(function):
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

    def _infer(self, function: Callable[..., Any], call: CallForms, result: Any) -> Any:
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
        except UnknownOperator:
            # Neither a rule nor a shape function: the shape may depend on the data.
            raise Leave(f"the shape of `{name_of(function)}`'s result is not known") from None
        except AnyshapeError as error:
            return self._fixed(function, call, result, str(error))
        if found.unbacked:
            raise Leave(
                f"the shape of `{name_of(function)}`'s result depends on data",
                "use an operation whose shape follows from its inputs' shapes",
            )
        tracer.facts = found.facts
        for need in found.needs:
            tracer.note_assumed(need.fact, f"{name_of(function)}: {need.reason}")
        wrong = self._disagreement(found.value, result)
        if wrong:
            self.defects.append(f"{name_of(function)}: {wrong}")
            return self._fixed(function, call, result, wrong)
        return found.value

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


_NOT_RUN: Final = object()
_NOTHING: Final = Meta((), torch.float32, Dense(()), torch.device("cpu"))

_is_transformed: Any = getattr(torch._C, "_functorch").is_functorch_wrapped_tensor  # noqa: B009 no stub has it

_STATE_CHANGES: Final = frozenset({torch._C._set_grad_enabled})


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


def _in_place(function: Callable[..., Any], call: CallForms) -> bool:
    name = name_of(function)
    named = call.plain_kwargs
    return name.endswith("_") or "out" in named or named.get("inplace", False) is not False


#: `x.data` shares the memory of `x`, and not its version.
_ALIASES_UNSEEN: Final = frozenset({vars(torch._C.TensorBase)["data"].__get__})

#: They update running statistics without a new version.
_WRITES_UNSEEN: Final = frozenset(
    {
        torch.nn.functional.batch_norm,
        torch.nn.functional.instance_norm,
        torch.batch_norm,
        torch.instance_norm,
        torch.native_batch_norm,
    }
)


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
    if getattr(torch.Tensor, name_of(function), None) is function:
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
        return self._recorder.run(func, args, kwargs or {})
