"""Nodes of graphs that check what was stated of a tensor, where no guard can: a packed weight
decides the sizes of a result, and may be another one of the same class in the next call; a shape
function of another library may be wrong for other sizes than it was compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import torch
from torch.fx.node import has_side_effect

from anyshape.errors import WrongShapeFunction


class OtherForm(Exception):
    """An operation returned something else than when it was captured."""


Check = TypeVar("Check", bound=Callable[..., None])
#: Functions of nodes that look at their tensors, and no more.
CHECKS: Final[set[Callable[..., Any]]] = set()


def check(function: Check) -> Check:
    CHECKS.add(has_side_effect(function))
    return function


@check
def check_dense(
    tensor: torch.Tensor, shape: Sequence[int], order: Sequence[int] | None, dtype: torch.dtype
) -> None:
    """Raise unless it is dense with these sizes. `order`: its dimensions from the outermost in
    memory; None if it is contiguous."""
    if tensor.shape != tuple(shape) or tensor.dtype is not dtype:
        raise OtherForm
    if not (tensor.is_contiguous() if order is None else is_dense(tensor, order)):
        raise OtherForm


@check
def check_sizes(result: Any, said: Any, name: str, dtypes: Any = None) -> None:
    """Raise unless a result has the sizes that the shape function of that operator has stated: a
    tuple for a tensor, a list for several results; and the dtypes, in the same way."""
    found = _sizes(result)
    if found != said:
        raise WrongShapeFunction(op=name, found=f"shape {found}", said=f"shape {said}")
    if dtypes is not None and (found := _dtypes(result)) != dtypes:
        raise WrongShapeFunction(op=name, found=f"dtype {found}", said=f"dtype {dtypes}")


def _sizes(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return [_sizes(each) for each in result]
    return None if result is None else tuple(result.shape)


def _dtypes(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return [_dtypes(each) for each in result]
    return None if result is None else result.dtype


def is_dense(tensor: torch.Tensor, order: Sequence[int]) -> bool:
    """Whether its elements lie without gaps, the dimensions in that order from the outermost."""
    if tensor.numel() == 0:
        return True
    step = 1
    for dim in reversed(order):
        size = tensor.shape[dim]
        if size != 1 and tensor.stride(dim) != step:
            return False
        step *= size
    return True
