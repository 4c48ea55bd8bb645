"""Shape rules of operators that compute element by element: broadcast, promote, keep the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from anyshape.ops.broadcast import broadcast
from anyshape.ops.iteration import iterated_layout
from anyshape.ops.meta import Meta
from anyshape.ops.op import PURE, Effects, Op, OpKind, Rule
from anyshape.ops.promotion import Number, result_type
from anyshape.ops.shape_query import ShapeQuery

DtypeRule = Callable[[torch.dtype], torch.dtype]
MetaOperand = Meta | Number

_HOMES = ("torch", "torch.Tensor", "torch.special", "torch.nn.functional", "torch._C._nn")


def same(dtype: torch.dtype) -> torch.dtype:
    return dtype


def boolean(dtype: torch.dtype) -> torch.dtype:
    return torch.bool


def integer(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a power of integers: booleans count."""
    return torch.int64 if dtype is torch.bool else dtype


def widest(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def pointwise_meta(q: ShapeQuery, operands: tuple[MetaOperand, ...], dtype: DtypeRule) -> Meta:
    """The result of computing element by element on broadcast operands."""
    tensors = [operand for operand in operands if isinstance(operand, Meta)]
    if not tensors:
        raise q.fail("at least one tensor is needed")
    if len(operands) == 1:
        found = tensors[0].dtype
    else:
        try:
            found = result_type(operands)
        except RuntimeError as error:  # unsigned integers wider than a byte join with nothing
            raise q.fail(str(error)) from None
    return fresh(q, tensors, dtype(found), numbers=len(tensors) < len(operands))


def fresh(q: ShapeQuery, tensors: list[Meta], dtype: torch.dtype, *, numbers: bool = False) -> Meta:
    """A result of the shape and the layout that these tensors give it; `numbers` if there were
    numbers among the operands, too."""
    shape, device = tensors[0].shape, tensors[0].device
    if len(tensors) > 1:
        shape = broadcast(q, [tensor.shape for tensor in tensors])
        for tensor in tensors:
            if tensor.device != device and device.type == "cpu":
                device = tensor.device  # A tensor without dimensions may stay behind on the CPU.
    return Meta(shape, dtype, iterated_layout(q, shape, tensors, numbers=numbers), device)


def everywhere(*names: str) -> tuple[str, ...]:
    """These names wherever torch keeps operators; the table passes over those it lacks."""
    return tuple(f"{home}.{name}" for name in names for home in _HOMES)


def pointwise_row(
    name: str,
    rule: Rule,
    *aliases: str,
    methods: Iterable[str] = (),
    differentiable: bool = True,
    signature: str | None = None,
    effects: Effects = PURE,
) -> Op:
    """An operator with its aliases and in-place forms; `methods` are Python's (`__add__`)."""
    names = (name, *aliases)
    plain = [method for method in methods if not _is_in_place(method)]
    return Op(
        name,
        everywhere(*names) + tuple(f"torch.Tensor.{method}" for method in plain),
        rule,
        OpKind.POINTWISE,
        in_place=everywhere(*(f"{name}_" for name in names))
        + tuple(f"torch.Tensor.{method}" for method in methods if method not in plain),
        differentiable=differentiable,
        signature=signature,
        effects=effects,
    )


def _is_in_place(method: str) -> bool:
    return method.startswith("__i") and method != "__invert__"


def unary(dtype: DtypeRule) -> Rule:
    def rule(q: ShapeQuery, input: Meta) -> Meta:
        return Meta(
            input.shape,
            dtype(input.dtype),
            iterated_layout(q, input.shape, (input,)),
            input.device,
        )

    return rule


def binary(dtype: DtypeRule) -> Rule:
    def rule(q: ShapeQuery, input: MetaOperand, other: MetaOperand) -> Meta:
        return pointwise_meta(q, (input, other), dtype)

    return rule
