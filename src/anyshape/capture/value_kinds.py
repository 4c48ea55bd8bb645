"""Classes of values that a program meets, by how a capture guards them."""

from __future__ import annotations

import types
from typing import Final

import torch

#: Values that never change and hold nothing but themselves: guarded by comparing.
ATOMS: Final = frozenset(
    {
        int,
        float,
        bool,
        str,
        bytes,
        complex,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        range,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)

#: Objects that are code rather than data: guarded by identity where they are read.
CODE: Final = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    staticmethod,
    classmethod,
    property,
)

TENSORS: Final = frozenset({torch.Tensor, torch.nn.Parameter})


def is_plain_tensor(kind: type) -> bool:
    """Whether tensors of this class can be followed: torch's own, the jagged one among them."""
    return kind in TENSORS or (
        kind.__name__ == "NestedTensor" and kind.__module__.startswith("torch.nested.")
    )
