"""What shape rules see of the real results of an operation: a tensor, or several."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.capture.record.data_dependent_shapes import is_opaque
from anyshape.ops.meta import Meta, of_tensor
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
