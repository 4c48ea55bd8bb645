"""Text that holds numbers or tensors which another run may have otherwise.

`f"{x.shape[0]}: {loss}"` is a `str` with its pieces beside it, so that a compiled run can write it
anew. What only passes it on (`print`, a logger, a result) needs no more. What looks into it (a key
of a dictionary, a comparison, `split`) settles it: the numbers in it are guarded. A tensor in it
cannot be, and the capture ends there.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import torch

from anyshape.capture.numbers.traced import TracedFloat, TracedInt, is_traced, plain
from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tensor as it was when the program showed it to somebody, who may look at it later: a copy
    that the graph makes, and what is said of it besides its elements."""

    tensor: torch.Tensor
    parameter: bool
    requires_grad: bool
    #: the name of the function in autograd's graph that it came from
    grad_fn: str | None


class Piece(NamedTuple):
    """A value as it is formatted within a text: a traced number or a `Snapshot`."""

    value: Any
    conversion: str | None
    spec: str


class TracedText(str):
    """A text with its pieces: strings that stay as they are, and values that are formatted."""

    __slots__ = ("pieces", "tracer")

    pieces: tuple[str | Piece, ...]
    tracer: Any

    def __new__(cls, text: str, pieces: tuple[str | Piece, ...], tracer: object) -> TracedText:
        made = str.__new__(cls, text)
        made.pieces = pieces
        made.tracer = tracer
        return made

    # Programs look at it; that the class is ours is nobody's business.
    __class__ = property(lambda self: str)  # pyright: ignore[reportIncompatibleMethodOverride] ours

    def specialize(self, reason: str) -> None:
        """Guard all numbers in it."""
        for piece in self.pieces:
            if not isinstance(piece, Piece):
                continue
            if type(piece.value) is Snapshot:
                self.tracer.abort("the text of a tensor is looked into", "print or log it instead")
                return
            self.tracer.specialize(piece.value, reason)


TracedText.__name__ = "str"


class _Settling:
    """A method of `str` that looks at the text. It is no Python function: nobody follows its
    code."""

    def __init__(self, name: str) -> None:
        self._own = getattr(str, name)

    def __get__(self, text: Any, kind: object = None) -> Any:
        if text is None:
            return self._own
        if text.tracer.active:
            text.tracer.specialize(text, "a text made of it is looked into")
        return functools.partial(self._own, bare(text))


#: They make or describe the object, and do not look at the text.
_BLIND: Final = frozenset(
    {
        *("__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__delattr__"),
        *("__init_subclass__", "__subclasshook__", "__dir__", "__doc__", "maketrans"),
    }
)

for _name in dir(str):
    if _name not in _BLIND:
        setattr(TracedText, _name, _Settling(_name))


def bare(value: object) -> Any:
    """The plain number or text behind a traced one, without a guard, and the very object that the
    program was given; anything else as it is."""
    if is_traced(value) and value.given is not None:
        return value.given
    return str.__str__(value) if type(value) is TracedText else plain(value)


def joined(parts: tuple[str, ...]) -> str:
    """The parts one after the other."""
    text = "".join(map(bare, parts))
    tracer = next((part.tracer for part in parts if type(part) is TracedText), None)
    if tracer is None or not tracer.active:
        return text
    pieces: list[str | Piece] = []
    for part in parts:
        pieces += part.pieces if type(part) is TracedText else (part,)
    return TracedText(text, tuple(pieces), tracer)


TRACED_VALUES: Final = frozenset({TracedInt, TracedFloat, TracedText})
