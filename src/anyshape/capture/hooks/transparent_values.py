"""Attributes of built-in values that follow from the value itself."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.native_values import BY_IDENTITY
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.numbers.traced_text import TracedText
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS

Call = Callable[..., Any]

#: Built-in values whose attributes follow from the value itself.
TRANSPARENT: Final = frozenset(
    {
        *ATOMS,
        TracedInt,
        TracedFloat,
        TracedText,
        torch.Size,
        slice,
        torch.finfo,
        torch.iinfo,
        types.BuiltinFunctionType,
        types.MethodType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.MethodWrapperType,
        types.GeneratorType,
        *BY_IDENTITY,
        list,
        tuple,
        dict,
        set,
        frozenset,
    }
)


#: Attributes that dynamic numbers have, and answer without being fixed.
_OF_NUMBERS: Final = frozenset(
    {"real", "imag", "numerator", "denominator", "bit_length", "is_integer", "__class__"}
)

#: Of those, what has methods and no other attributes.
_SAY_NOTHING: Final = frozenset({list, tuple, dict, set, frozenset, torch.Size, slice})


def transparent_attribute(tracer: Tracer, call: Call, obj: Any, name: str) -> object:
    """An attribute of a value that is known in full, or a method of one that is not."""
    kind = type(obj)
    if kind in (TracedInt, TracedFloat) and name not in _OF_NUMBERS:
        return getattr(tracer.specialize(obj, f"`{name}` of it"), name)
    path = tracer.path_of(obj)
    if path is None or kind in _SAY_NOTHING:
        return getattr(obj, name)
    if kind is types.MethodType:
        if name in ("__func__", "__self__"):
            return tracer.read(getattr(obj, name), path.attribute(name))
        if name == "__doc__" or not hasattr(kind, name):
            function = tracer.read(obj.__func__, path.attribute("__func__"))
            return call(getattr, function, name)
    if kind is types.GeneratorType and not callable(getattr(obj, name, None)):
        raise AbortCapture(f"`{name}` of a generator from outside the function")
    return getattr(obj, name)
