"""What users say about dimensions: `mark_dynamic` and its kin.

A mark is kept on the tensor object, and holds for as long as the tensor lives. It is a wish for the
compile at hand, never a guard: an entry that was compiled with marks serves every call whose sizes
fit it.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import torch

from anyshape.arguments import spelled
from anyshape.capture.marks import MARKS, as_kept, static_modules
from anyshape.errors import BadOption, MarkOutOfRange
from anyshape.policy.decide import Mark, MarkKind
from anyshape.symbolic import Range

Dims = int | tuple[int, ...] | list[int]


@spelled
def mark_dynamic(
    tensor: torch.Tensor, dim: Dims, *, min: int | None = None, max: int | None = None
) -> None:
    """Make dimensions dynamic from the first compile; an error if the program fixes them. With a
    range, the program is compiled for sizes within it, and others get a program of their own.

    >>> double = anyshape.compile(lambda x: x * 2)
    >>> x = torch.ones(3, 4)
    >>> anyshape.mark_dynamic(x, 0, min=2, max=64)
    >>> for y in (x, torch.ones(5, 4), torch.ones(64, 4)):
    ...     z = double(y)
    >>> double.stats().captures
    1
    """
    _mark(tensor, dim, Mark(MarkKind.DYNAMIC, _limit("min", min), _limit("max", max)))


@spelled
def maybe_mark_dynamic(tensor: torch.Tensor, dim: Dims) -> None:
    """Make dimensions dynamic from the first compile where the program allows it; no error if not.

    >>> first_four = anyshape.compile(lambda x: x.view(4))
    >>> x = torch.ones(4)
    >>> anyshape.maybe_mark_dynamic(x, 0)
    >>> first_four(x)
    tensor([1., 1., 1., 1.])
    """
    _mark(tensor, dim, Mark(MarkKind.MAYBE_DYNAMIC))


@spelled
def mark_unbacked(
    tensor: torch.Tensor,
    dim: Dims,
    *,
    min: int = 0,
    max: int | None = None,
    hint: int | None = None,
) -> None:
    """Compile for any size of the dimension without looking at the one it has: what the program
    asks about it is a branch of the compiled program, or, by `check`, checked when it runs. `hint`
    is a typical size, for choices that do not change the answer.

    >>> @anyshape.compile
    ... def half(x: torch.Tensor) -> torch.Tensor:
    ...     return x[: x.shape[0] // 2]
    >>> x = torch.arange(6)
    >>> anyshape.mark_unbacked(x, 0, min=2)
    >>> half(x), half(torch.arange(4)), half.stats().captures
    (tensor([0, 1, 2]), tensor([0, 1]), 1)
    """
    mark = Mark(MarkKind.UNBACKED, _limit("min", min), _limit("max", max))
    typical, declared = _limit("hint", hint), Range(mark.min, mark.max)
    if typical is not None and not declared.contains(typical):
        raise BadOption(
            option="hint", value=hint, accepted=f"the range is {declared.said_of('size')}"
        )
    _mark(tensor, dim, mark)


@spelled
def mark_static(tensor: torch.Tensor | type[torch.nn.Module], dim: Dims | None = None) -> None:
    """Keep dimensions, or all of them, static; of a class of modules, the sizes and integers that
    are found on its instances.

    >>> double = anyshape.compile(lambda x: x * 2, dynamic=True)
    >>> for n in (3, 5):
    ...     x = torch.ones(n)
    ...     anyshape.mark_static(x, 0)
    ...     y = double(x)
    >>> double.stats().captures
    2
    """
    if isinstance(tensor, type) and issubclass(tensor, torch.nn.Module):
        if dim is not None:
            raise BadOption(option="dim", value=dim, accepted="a class has no dimensions")
        static_modules.add(tensor)
        return
    _must_be_tensor(tensor, " and, here, for classes of modules")
    dims = tuple(range(tensor.dim())) if dim is None else dim
    _mark(tensor, dims, Mark(MarkKind.STATIC))


def _must_be_tensor(value: object, also: str = "") -> None:
    if not isinstance(value, torch.Tensor):
        accepted = f"marks are for tensors{also}; for an integer use anyshape.DynamicInt"
        raise BadOption(option="tensor", value=value, accepted=accepted)


def _mark(tensor: Any, dim: Dims, mark: Mark) -> None:
    _must_be_tensor(tensor)
    if mark.min is not None and mark.max is not None and mark.min > mark.max:
        raise BadOption(option="min", value=mark.min, accepted=f"it is above max={mark.max}")
    dims = [_dimension(tensor, one) for one in (dim if isinstance(dim, tuple | list) else (dim,))]
    declared = Range(mark.min, mark.max)
    for one in dims:
        if not declared.contains(tensor.shape[one]):
            raise MarkOutOfRange(
                mark=mark.kind.value,
                dim=one,
                size=tensor.shape[one],
                range=declared.said_of("size"),
            )
    held: dict[str, Any] = vars(tensor)
    marks = held.setdefault(MARKS, {})
    for one in dims:
        marks[one] = as_kept(mark)


def _dimension(tensor: torch.Tensor, dim: object) -> int:
    """Counted from the front."""
    rank = tensor.dim()
    one = _integer("dim", dim, "a dimension is an integer; several are a tuple of integers")
    if not -rank <= one < rank:
        accepted = f"the tensor has {rank} dimension{'s' * (rank != 1)}: {-rank} to {rank - 1}"
        if rank == 0:
            accepted = "the tensor has no dimensions: it is a single number"
        raise BadOption(option="dim", value=dim, accepted=accepted)
    return one % rank


def _limit(name: str, value: int | None) -> int | None:
    return (
        None
        if value is None
        else _integer(name, value, "it takes an integer, or None for no limit")
    )


def _integer(name: str, value: object, accepted: str) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise BadOption(option=name, value=value, accepted=accepted)
    return operator.index(value)
