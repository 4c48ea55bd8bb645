"""What shape rules see of the real results of an operation: a tensor, or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeGuard

import torch

from anyshape.capture.record.data_dependent_shapes import is_opaque
from anyshape.ops.actual_strides import dense_order
from anyshape.ops.meta import Dense, Meta, of_tensor
from anyshape.ops.table import lookup
from anyshape.support.lazy_dataclass import replace


def has_opaque(result: object) -> bool:
    if isinstance(result, torch.Tensor):
        return is_opaque(result)
    return isinstance(result, tuple | list) and any(map(has_opaque, result))


def is_tensors(result: object) -> bool:
    if isinstance(result, torch.Tensor):
        return True
    return isinstance(result, tuple | list) and all(
        item is None or is_tensors(item) for item in result
    )


def is_negated(result: object) -> bool:
    """Whether the numbers in memory are those of a tensor with the other sign: native code would
    read them as they are."""
    if isinstance(result, torch.Tensor):
        return result.layout is torch.strided and result.is_neg()
    return isinstance(result, tuple | list) and any(map(is_negated, result))


def real_metas(result: object) -> object:
    if isinstance(result, torch.Tensor):
        return of_tensor(result)
    if isinstance(result, tuple | list):
        return tuple(map(real_metas, result))
    return result


def as_it_is(meta: Meta, tensor: torch.Tensor) -> Meta:
    if (
        meta.dtype is tensor.dtype
        and meta.requires_grad is tensor.requires_grad
        and meta.device == tensor.device
    ):
        return meta
    return replace(
        meta, dtype=tensor.dtype, requires_grad=tensor.requires_grad, device=tensor.device
    )


def as_they_are(value: Any, result: Any) -> object:
    """The metas of a result, with dtype and grad of the real one."""
    if isinstance(result, torch.Tensor):
        return None if is_opaque(result) else as_it_is(value, result)
    return tuple(
        None if item is None else as_they_are(meta, item)
        for meta, item in zip(value, result, strict=True)
    )


def layout_varies(result: object, function: Callable[..., object]) -> TypeGuard[torch.Tensor]:
    """Whether torch may give another layout to this result at other sizes; it is without gaps."""
    if not isinstance(result, torch.Tensor) or result.device.type not in WITH_MANY_KERNELS:
        return False
    entry = lookup(function)
    if entry is None or not entry.op.layout_varies or is_opaque(result):
        return False
    return dense_order(tuple(result.shape), result.stride()) is not None


def as_laid_out(meta: Meta, tensor: torch.Tensor) -> Meta:
    """The meta with the layout of the real tensor."""
    order = dense_order(tuple(tensor.shape), tensor.stride())
    assert order is not None
    return replace(meta, layout=Dense(order))


#: Devices on which torch takes one of several kernels by the sizes of a call.
WITH_MANY_KERNELS: Final = {"cuda"}
