"""What users say about dimensions: `mark_dynamic` and its kin.

A mark is kept on the tensor object, and holds for as long as the tensor lives. It is a wish for the
compile at hand, never a guard: an entry that was compiled with marks serves every call whose sizes
fit it.
"""

from __future__ import annotations

from typing import Any

import torch

from anyshape.capture.marks import MARKS, static_modules
from anyshape.errors import BadOption, MarkOutOfRange
from anyshape.policy.decide import Mark, MarkKind
from anyshape.symbolic import Range

Dims = int | tuple[int, ...] | list[int]


def mark_dynamic(
    tensor: torch.Tensor, dim: Dims, *, min: int | None = None, max: int | None = None
) -> None:
    """Make dimensions dynamic from the first compile; an error if the program fixes them. With a
    range, the program is compiled for sizes within it, and others get a program of their own."""
    _mark(tensor, dim, Mark(MarkKind.DYNAMIC, min, max))


def maybe_mark_dynamic(tensor: torch.Tensor, dim: Dims) -> None:
    """The same wish, without an error."""
    _mark(tensor, dim, Mark(MarkKind.MAYBE_DYNAMIC))


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
    is a typical size, for choices that do not change the answer."""
    _mark(tensor, dim, Mark(MarkKind.UNBACKED, min, max))


def mark_static(tensor: Any, dim: Dims | None = None) -> None:
    """Keep dimensions, or all of them, static; of a class of modules, the sizes and integers that
    are found on its instances."""
    if isinstance(tensor, type) and issubclass(tensor, torch.nn.Module):
        if dim is not None:
            raise BadOption(option="dim", value=dim, accepted="a class has no dimensions")
        static_modules.add(tensor)
        return
    _must_be_tensor(tensor)
    dims = tuple(range(tensor.dim())) if dim is None else dim
    _mark(tensor, dims, Mark(MarkKind.STATIC))


def _must_be_tensor(value: object) -> None:
    if not isinstance(value, torch.Tensor):
        accepted = "marks are for tensors; for an integer use anyshape.DynamicInt"
        raise BadOption(option="tensor", value=value, accepted=accepted)


def _mark(tensor: Any, dim: Dims, mark: Mark) -> None:
    _must_be_tensor(tensor)
    if mark.min is not None and mark.max is not None and mark.min > mark.max:
        raise BadOption(option="min", value=mark.min, accepted=f"it is above max={mark.max}")
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    for one in dims:
        if not -tensor.dim() <= one < tensor.dim():
            raise BadOption(
                option="dim", value=one, accepted=f"the tensor has {tensor.dim()} dimensions"
            )
        declared = Range(mark.min, mark.max)
        if not declared.contains(tensor.shape[one]):
            raise MarkOutOfRange(
                mark=mark.kind.value, dim=one, size=tensor.shape[one], range=str(declared)
            )
    held: dict[str, Any] = vars(tensor)
    marks = held.setdefault(MARKS, {})
    for one in dims:
        marks[one % tensor.dim()] = mark
