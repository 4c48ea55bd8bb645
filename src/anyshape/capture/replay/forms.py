"""Arguments and results of a call without their tensors, to compare two calls.

Nothing that could be changed through one is let in but tensors and objects from outside: whatever
happens to those is seen.
"""

from __future__ import annotations

from typing import Any

import torch

from anyshape.capture.numbers.concolic import TracedInt, plain
from anyshape.capture.record.segment_state import TracedTensor
from anyshape.capture.replay.events import Parts, metadata_key
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.path import Path
from anyshape.guards.values import strictly_equal
from anyshape.symbolic import Expr


class NoForm(Exception):
    """A value that a replay could not stand for."""


class Atom:
    """A constant; compared by type as well as by value."""

    __slots__ = ("value",)
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Atom and strictly_equal(self.value, other.value)


class External:
    """An object, or a tensor, from outside: that very one."""

    __slots__ = ("path", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, value: object, path: Path) -> None:
        self.value = value
        self.path = path

    def __eq__(self, other: object) -> bool:
        return type(other) is External and self.value is other.value


class Forms:
    """The form of the arguments of one call; tensors by the order in which they are met."""

    def __init__(self, tracer: Tracer, known: dict[int, TracedTensor]) -> None:
        self._tracer = tracer
        self._known = known
        #: what is known of the tensors, and the tensors, in order
        self.tensors: dict[TracedTensor, torch.Tensor] = {}
        #: the number of each
        self._numbers: dict[TracedTensor, int] = {}
        self.externals: list[External] = []

    def arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        return (*map(self.of, args), *((name, self.of(value)) for name, value in kwargs.items()))

    def of(self, value: Any) -> object:
        kind = type(value)
        if kind in ATOMS:
            return Atom(value)
        if kind is TracedInt:
            return ("size", value.expr, plain(value))
        path = self._tracer.path_of(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if path is not None:
            self.externals.append(External(value, path))
            return self.externals[-1]
        if kind is tuple or kind is torch.Size:
            return (kind, *map(self.of, value))
        raise NoForm(kind.__name__)

    def _tensor(self, tensor: torch.Tensor, path: Path | None) -> object:
        known = self._known.get(id(tensor))
        if known is None or known.opaque:
            raise NoForm("a tensor that nobody has used")
        number = self._numbers.setdefault(known, len(self._numbers))
        self.tensors[known] = tensor
        if path is not None:
            self.externals.append(External(tensor, path))
            return (number, self.externals[-1], known.meta)
        return (number, known.meta, metadata_key(tensor))


def result_form(
    value: Any, tracer: Tracer, known: dict[int, TracedTensor], seen: set[int]
) -> object:
    """A result with each tensor as what is known of it, and each dynamic size as its expression."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, torch.Tensor):
        found = known.get(id(value))
        if found is None:
            raise NoForm("a tensor that nobody has used")
        return found
    if kind is TracedInt:
        return value.expr
    if (kind is tuple or kind is list) and tracer.path_of(value) is None:
        if id(value) in seen:
            raise NoForm("a container that is there twice")
        seen.add(id(value))
        return Parts(kind, [result_form(item, tracer, known, seen) for item in value])
    raise NoForm(kind.__name__)


def built(form: Any, tensors: dict[TracedTensor, torch.Tensor], tracer: Tracer) -> object:
    """The result of a replay."""
    kind = type(form)
    if kind is TracedTensor:
        return tensors[form]
    if kind is Expr:
        return tracer.integer(form)
    if kind is Parts:
        return form.make([built(part, tensors, tracer) for part in form.parts])
    return form
