"""Operators that take weights packed into objects of TorchScript classes.

    torch.ops.quantized.linear_dynamic(x, packed, reduce_range=True)

`packed` is a `torch.ScriptObject`: only native code sees what is in it. A graph takes the object as
an input and calls the operator with whatever it finds there. What the object decides (how many
features there are) is seen in the result of a run, and checked in every later one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeGuard

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.support.lazy_dataclass import dataclass

#: Namespaces of torch's own operators. Others may change an object without a word in the schema.
_NAMESPACES: Final = frozenset(
    {"aten", "quantized", "_quantized", "sparse", "mkldnn_prepacked", "prepacked"}
)

#: How the names of classes begin whose objects no operator changes.
_CLASSES: Final = tuple(
    f"__torch__.torch.classes.{space}."
    for space in ("quantized", "rnn", "sparse", "mkldnn", "xnnpack")
)


@dataclass(frozen=True, slots=True)
class Packed:
    """What a shape rule sees of such an object: its class. Never what is in it."""

    class_name: str


def is_packed(value: object) -> TypeGuard[torch.ScriptObject]:
    return type(value) is torch.ScriptObject and class_of(value).startswith(_CLASSES)


def class_of(value: torch.ScriptObject) -> str:
    """The qualified name of its TorchScript class."""
    return str(value._type().qualified_name())


def takes_packed(function: object) -> bool:
    """Whether an operator computes new tensors from tensors and packed weights, and does nothing
    else. One without a tensor to work on gives those that are inside of the object."""
    if isinstance(function, OpOverloadPacket):
        return all(_computes(getattr(function, name)) for name in function.overloads())
    return isinstance(function, OpOverload) and _computes(function)


@lru_cache(maxsize=1024)
def _computes(operator: OpOverload) -> bool:
    if operator.namespace not in _NAMESPACES:
        return False
    schema = operator._schema
    return (
        not schema.is_mutable
        and any("Tensor" in str(argument.type) for argument in schema.arguments)
        and all(str(result.type) == "Tensor" for result in schema.returns)
        and bool(schema.returns)
    )
