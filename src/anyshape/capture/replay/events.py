"""An operation as it lies on the log: what was called, and what is known of its tensors.

The log holds no tensor that the program made: it would keep all of them alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.record.bound_call import CallForms, name_of
from anyshape.capture.record.op_kinds import (
    ALIASES_UNSEEN,
    STATE_CHANGES,
    may_draw,
    may_raise,
    runs_python,
)
from anyshape.capture.record.segment_state import TracedTensor
from anyshape.guards.guard import Frame
from anyshape.ops.effects import is_mutable, writes_untold
from anyshape.symbolic import Expr

#: On the log: what follows, to the next operation, is done for its arguments.
ARGUMENTS: Final = object()


class Input:
    """A tensor from outside as it is when an operation meets it: it may be changed later."""

    __slots__ = ("face", "known", "meta")

    def __init__(self, known: TracedTensor, tensor: torch.Tensor) -> None:
        self.known = known
        self.meta = known.meta
        self.face = metadata_key(tensor)


class Parts:
    """A container of arguments or of a result, and how it is made of its parts: anew by each
    replay."""

    __slots__ = ("make", "parts")

    def __init__(self, make: Callable[[list[Any]], object], parts: list[Any]) -> None:
        self.make = make
        self.parts = parts


def tensors_in(form: object) -> Iterator[TracedTensor]:
    """The tensors of an argument or of a result."""
    if type(form) is TracedTensor:
        yield form
    elif type(form) is Parts:
        for part in form.parts:
            yield from tensors_in(part)


class Operation:
    """One operation. In `args` and `kwargs` a tensor is its `TracedTensor`, a dynamic size its
    expression."""

    __slots__ = (
        "args",
        "caught",
        "draws",
        "externals",
        "faces",
        "frame",
        "function",
        "kind",
        "kwargs",
        "meta",
        "metas",
        "more",
        "node",
        "raises",
        "results",
        "target",
        "whole",
    )

    def __init__(self, function: Callable[..., Any], node: torch.fx.Node) -> None:
        self.function = function
        self.node = node
        self.kind = node.op
        self.target = node.target
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        #: the tensors from outside among them
        self.externals: dict[TracedTensor, Input] = {}
        #: arguments that the node has and the function has not: the name of a property
        self.more: tuple[object, ...] = ()
        self.meta = dict(node.meta)
        #: the class of a result of several tensors
        self.whole: type | None = None
        self.results: list[TracedTensor] = []
        #: of the results, when they were made: an operation in place gives a tensor another
        self.metas: list[Any] = []
        self.faces: list[tuple[object, ...]] = []
        self.draws = self.raises = self.caught = False
        #: the line of the program
        self.frame: Frame | None = None

    def again(self, node: torch.fx.Node) -> Operation:
        """The same with another node, and no tensors yet."""
        made = Operation(self.function, node)
        made.more, made.whole = self.more, self.whole
        made.metas, made.faces, made.frame = self.metas, self.faces, self.frame
        made.draws, made.raises, made.caught = self.draws, self.raises, self.caught
        return made


def metadata_key(tensor: torch.Tensor) -> tuple[object, ...]:
    """All that a program can see of a tensor without looking at its data."""
    return (
        type(tensor),
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        tensor.device,
        tensor.requires_grad,
        tensor.layout,
        tensor.is_leaf,
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.is_inference(),
    )


def operation(
    recorder: Any,
    function: Callable[..., object],
    call: CallForms,
    result: Any,
    node: torch.fx.Node,
) -> Operation | str:
    """A recorded operation for the log; a text if it does more than to compute its result."""
    if (
        call.in_place
        or call.opaque
        or call.has_floats
        or function in STATE_CHANGES
        or function in ALIASES_UNSEEN
        or runs_python(function)
        or writes_untold(function)
        or is_mutable(function)
    ):
        return f"`{name_of(function)}` does more than to compute"
    several = not isinstance(result, torch.Tensor)
    if several and (type(result) not in (tuple, list) or not all(map(_is_tensor, result))):
        return f"the result of `{name_of(function)}`"
    made = Operation(function, node)
    made.frame = recorder.tracer.user_frame()
    made.draws, made.raises = may_draw(function), may_raise(function, call)
    made.caught = made.raises and recorder.tracer.is_caught()
    known = recorder._known
    template = _Template(known, made.externals)
    try:
        made.args = list(map(template.of, call.plain_args, call.metas))
        made.kwargs = {
            name: template.of(value, call.meta_kwargs[name])
            for name, value in call.plain_kwargs.items()
        }
    except _NotSimple as error:
        return str(error)
    if made.kind == "call_function" and made.target is getattr:
        made.more = tuple(node.args[len(call.plain_args) :])
    made.whole = type(result) if several else None
    for tensor in result if several else (result,):
        held = known.get(id(tensor))
        if held is None:
            return "a result that has no name"
        made.results.append(held)
        made.metas.append(held.meta)
        made.faces.append(metadata_key(tensor))
    return made


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


class _NotSimple(Exception):
    """An argument of a kind that is not replayed."""


class _Template:
    """Arguments with their tensors and sizes named."""

    def __init__(
        self, known: dict[int, TracedTensor], externals: dict[TracedTensor, Input]
    ) -> None:
        self._known = known
        self._externals = externals

    def of(self, value: Any, meta: Any) -> object:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            known = self._known[id(value)]
            if known.path is not None:
                self._externals[known] = Input(known, value)
            return known
        if type(meta) is Expr:
            return meta
        if kind is tuple or kind is list:
            parts = list(map(self.of, value, meta))
            return value if _is_plain(parts, value) else Parts(kind, parts)
        if kind is slice:
            ends = (value.start, value.stop, value.step)
            parts = list(map(self.of, ends, (meta.start, meta.stop, meta.step)))
            return value if _is_plain(parts, ends) else Parts(_slice, parts)
        if kind is dict or isinstance(value, tuple):
            raise _NotSimple(f"an argument that is a {kind.__name__}")
        return value


def _is_plain(parts: list[object], value: Any) -> bool:
    return all(part is item for part, item in zip(parts, value, strict=True))


def _slice(parts: list[object]) -> slice:
    return slice(*parts)
