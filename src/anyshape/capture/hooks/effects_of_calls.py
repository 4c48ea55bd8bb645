"""Which calls may be made in a part of the program that is tried, and runs again where it cannot be
followed: those that have no effect, or whose effects other hooks see."""

from __future__ import annotations

import dis
import functools
import math
import operator
import types
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.capture.builtins import process_queries, vmap
from anyshape.capture.builtins import table as natives
from anyshape.capture.hooks.watched_code import is_operation, may_be_watched
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS


def check_call(tracer: Tracer, function: Any, args: tuple[object, ...]) -> None:
    """Raise `AbortCapture` in a trial, unless the call is one of these."""
    if not _is_seen(function, args):
        name = getattr(function, "__name__", type(function).__name__)
        tracer.has_effect(f"`{name}`, which may have effects, is called")


def _is_seen(function: Any, args: tuple[object, ...]) -> bool:
    kind = type(function)
    if kind in _LEAD_ON or isinstance(function, torch.nn.Module):
        return True
    if kind is types.FunctionType:
        if function in natives.MODELS:
            return function in _WITHOUT_EFFECTS
        if is_operation(function):
            return True
        code = function.__code__
        return may_be_watched(code.co_filename) and not _sets_variables_outside(code)
    if isinstance(function, type):
        return function in _CLASSES or issubclass(function, BaseException)
    if kind in _NATIVE:
        return _is_pure(function, args)
    return isinstance(getattr(kind, "__call__", None), types.FunctionType)  # noqa: B004 its code is what counts


@functools.lru_cache(maxsize=4096)
def _sets_variables_outside(code: types.CodeType) -> bool:
    """Those of a function that is captured, too, which no hook sees."""
    return any(
        each.opname in ("STORE_DEREF", "DELETE_DEREF") and each.argval in code.co_freevars
        for each in dis.get_instructions(code)
    )


def _is_pure(function: Any, args: tuple[object, ...]) -> bool:
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        holder = getattr(function, "__objclass__", None)
        if holder is None:
            if any(isinstance(each, Iterator) for each in args):
                return False  # It may be advanced.
            if function.__module__ == math.__name__ or function in _WITHOUT_EFFECTS:
                return True
            return process_queries.is_question(function) or is_operation(function)
        owner = args[0] if args else None
    if isinstance(owner, torch.Tensor) or is_operation(function):
        return True
    return type(owner) in ATOMS or (
        isinstance(owner, (list, tuple, dict, set, frozenset)) and function.__name__ in _READS
    )


#: Hooks see what they do.
_LEAD_ON: Final = frozenset(
    {
        *(types.MethodType, functools.partial, torch.jit.ScriptFunction),
        *(OpOverload, OpOverloadPacket, vmap.Mapped),
    }
)
_NATIVE: Final = frozenset(
    {
        *(types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType),
        *(types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    }
)
_CLASSES: Final[frozenset[Any]] = frozenset(
    {
        *(bool, int, float, complex, str, tuple, list, dict, set, frozenset, slice, range, type),
        *(enumerate, zip, map, reversed, torch.Size, torch.device),
    }
)
_WITHOUT_EFFECTS: Final[frozenset[Any]] = frozenset(
    {
        *(abs, all, any, callable, divmod, getattr, hasattr, isinstance, issubclass, len, max, min),
        *(pow, repr, round, sorted, sum),
        *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
        *(operator.mod, operator.pow, operator.and_, operator.or_, operator.xor, operator.neg),
        *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
        *(operator.not_, operator.truth, operator.is_, operator.is_not, operator.getitem),
        *vmap.MODELS,
        torch.is_tensor,
    }
)
_READS: Final = frozenset(
    {
        *("get", "keys", "values", "items", "copy", "index", "count", "union", "intersection"),
        *("difference", "issubset", "issuperset", "isdisjoint"),
        *("__getitem__", "__contains__", "__len__", "__iter__", "__eq__", "__ne__"),
    }
)
