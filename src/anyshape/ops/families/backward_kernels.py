"""Gradients by torch's own kernels for them, where loops would not be better."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.ops.gradient import Term
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind
from anyshape.ops.shape_query import ShapeQuery


def gradient_by_kernel(
    grad: torch.Tensor, input: torch.Tensor, kernel: str, *rest: Any
) -> torch.Tensor:
    """The gradient of the input."""
    if not input.numel():
        return torch.zeros_like(input, memory_format=torch.contiguous_format)
    made = getattr(torch.ops.aten, kernel)(grad.contiguous(), input.contiguous(), *rest)
    return made.contiguous()


def gradient_by_sizes(grad: torch.Tensor, kernel: str, sizes: Any, *rest: Any) -> torch.Tensor:
    """The gradient of an input of which the kernel takes the sizes."""
    if not grad.numel():
        return grad.new_zeros(sizes)
    return getattr(torch.ops.aten, kernel)(grad.contiguous(), sizes, *rest).contiguous()


def _like_input(q: ShapeQuery, grad: Meta, input: Meta, kernel: str, *rest: Any) -> Meta:
    return input.like()


def _of_sizes(q: ShapeQuery, grad: Meta, kernel: str, sizes: Any, *rest: Any) -> Meta:
    return grad.like(tuple(sizes))


def by_kernel(kernel: str, grad: Term, input: Term, *rest: Any) -> Term:
    return grad.call(gradient_by_kernel, input, kernel, *rest)


ROWS: tuple[Op, ...] = tuple(
    Op(name, (f"{__name__}.{name}",), rule, OpKind.CALL_OUT, differentiable=False)
    for name, rule in (("gradient_by_kernel", _like_input), ("gradient_by_sizes", _of_sizes))
)
