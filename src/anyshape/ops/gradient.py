"""What gradients are written with: tensors of a graph that is being made.

A row says of an operator what the gradients of its arguments are, as a program would:

    @gradient("sin")
    def gradient_sin(grad: Term, result: Term, input: Term) -> Gradients:
        return {"input": grad * input.cos()}

What is done with a `Term` is recorded as an operator of the backward graph, with shapes by the same
rules and native code by the same rows. A gradient may have the sizes that the arguments were
stretched to, and another dtype: whoever asks for it brings it back.

Of an operator that torch has made of others the gradients are those of its parts: `made_of` says
what they are, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

from anyshape.ops.meta import Meta
from anyshape.symbolic import Answer, Expr, Fact, Size, ge, lt

if TYPE_CHECKING:
    import torch.fx


class NoGradient(Exception):
    """A row does not cover these arguments: torch's autograd does the operator."""


class Records(Protocol):
    """Where the operators of a backward graph go."""

    def record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of torch on terms, sizes and numbers."""
        ...

    def is_same(self, a: Size, b: Size) -> bool: ...
    def prove(self, fact: Fact) -> Answer: ...


class Term:
    """A tensor of the graph. It has torch's methods and operators."""

    __slots__ = ("meta", "node", "records")

    def __init__(self, records: Records, node: torch.fx.Node, meta: Meta) -> None:
        self.records = records
        self.node = node
        self.meta = meta

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.meta.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.meta.dtype

    @property
    def rank(self) -> int:
        return len(self.meta.shape)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A function of torch that takes this tensor first."""
        return self.records.record(function, self, *args, **kwargs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(torch.Tensor, name)
        return lambda *args, **kwargs: self.records.record(function, self, *args, **kwargs)

    def __add__(self, other: Any) -> Term:
        return self.call(torch.add, other)

    def __radd__(self, other: Any) -> Term:
        return self.call(torch.add, other)

    def __sub__(self, other: Any) -> Term:
        return self.call(torch.sub, other)

    def __rsub__(self, other: Any) -> Term:
        return self.call(torch.rsub, other)

    def __mul__(self, other: Any) -> Term:
        return self.call(torch.mul, other)

    def __rmul__(self, other: Any) -> Term:
        return self.call(torch.mul, other)

    def __truediv__(self, other: Any) -> Term:
        return self.call(torch.div, other)

    def __neg__(self) -> Term:
        return self.call(torch.neg)

    def __pow__(self, other: Any) -> Term:
        return self.call(torch.pow, other)

    def __gt__(self, other: Any) -> Term:
        return self.call(torch.gt, other)

    def __lt__(self, other: Any) -> Term:
        return self.call(torch.lt, other)

    def __ge__(self, other: Any) -> Term:
        return self.call(torch.ge, other)

    def __le__(self, other: Any) -> Term:
        return self.call(torch.le, other)

    def __matmul__(self, other: Any) -> Term:
        return self.call(torch.matmul, other)


#: By the names of the arguments; those that have none are left out.
Gradients = dict[str, Any]


def zeros_like(term: Term) -> Term:
    """A gradient of zeros, which is another thing than none."""
    return term.call(torch.zeros_like)


def whole(term: Term) -> Term:
    """16-bit floats are computed in f32: torch's own functions for gradients round once."""
    return term.float() if term.dtype in (torch.float16, torch.bfloat16) else term


def sum_to(grad: Term, shape: Sequence[Size]) -> Term:
    """The gradient of a tensor that was stretched: the sum over where its elements went."""
    more = grad.rank - len(shape)
    same = grad.records.is_same
    dims = [*range(more)]
    for dim, size in enumerate(shape, more):
        if same(grad.shape[dim], size):
            continue
        if not same(size, 1):
            raise NoGradient("whether it was broadcast is not known")
        dims.append(dim)
    if dims:
        grad = grad.sum(dims, True)
    for _ in range(more):
        grad = grad.squeeze(0)
    return grad


def rearranged(grad: Term, shape: Sequence[Size]) -> Term:
    """A gradient in other sizes. Whether it could be seen so in its memory is not asked."""
    return (grad if grad.meta.is_contiguous else grad.contiguous()).reshape(shape)


def back_in(grad: Term, dim: Any, keepdim: bool, rank: int) -> Term:
    """The gradient of a result of a reduction, with the dimensions that it has reduced."""
    if keepdim or rank == 0:
        return grad
    if dim is None or dim in ((), []):
        dims = list(range(rank))
    else:
        dims = sorted(d % rank for d in (dim if isinstance(dim, tuple | list) else (dim,)))
    for each in dims:
        grad = grad.unsqueeze(each)
    return grad


def place_of(records: Records, index: Any, size: Size) -> Size:
    """A place in a dimension, counted from its beginning."""
    if not isinstance(index, int | Expr):
        raise NoGradient("a place that is a tensor")
    for place in (index, index + size):
        if records.prove(ge(place, 0)) is Answer.YES:
            return place
        if records.prove(lt(place, 0)) is not Answer.YES:
            break
    raise NoGradient("from which end it is counted is not known")
