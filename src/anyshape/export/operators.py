"""Operators by name, as packages have them: `torch.nn.functional.gelu`, `operator.add`.

A name stands for a function of torch that works on tensors, an operator of a library, or one of the
few functions of Python that graphs use. A package is data from outside: a name of anything else
(`torch.load`, `os.system`) is refused, and so is a method or an attribute that is not a tensor's
public one.
"""

from __future__ import annotations

import builtins
import keyword
import math
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import get_ignored_functions, get_overridable_functions

from anyshape.export import results
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.table import lookup, own_functions


class UnknownName(Exception):
    """A function without a stable name, or a name of no operator."""


#: Modules of torch in which operators live; the first that has one names it.
_NAMESPACES: Final[tuple[tuple[str, Any], ...]] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.Tensor", torch.Tensor),
    ("torch._C._nn", getattr(torch._C, "_nn")),  # noqa: B009 no stub has it
    ("torch._C._VariableFunctions", getattr(torch._C, "_VariableFunctions")),  # noqa: B009 no stub has it
    ("torch._C._special", getattr(torch._C, "_special")),  # noqa: B009 no stub has it
    ("torch._C._linalg", getattr(torch._C, "_linalg")),  # noqa: B009 no stub has it
    ("torch._C._fft", getattr(torch._C, "_fft")),  # noqa: B009 no stub has it
)

_OURS: Final[dict[str, Callable[..., Any]]] = {
    **results.OPERATORS,
    **{f"anyshape.{each.__name__}": each for each in own_functions()},
    "anyshape.enter_mode": enter_mode,
    "anyshape.leave_mode": leave_mode,
    "torch._C._set_grad_enabled": torch._C._set_grad_enabled,
}

_BUILTINS: Final = frozenset(
    {"min", "max", "abs", "round", "pow", "float", "int", "bool", "sum", "len", "divmod", "getattr"}
)
_PYTHON: Final[dict[str, tuple[ModuleType, frozenset[str]]]] = {
    "operator": (
        operator,
        frozenset(dir(operator)) - {"attrgetter", "methodcaller", "itemgetter", "call"},
    ),
    "math": (math, frozenset(dir(math))),
    "builtins": (builtins, _BUILTINS),
}

#: Functions of torch that make tensors of nothing: torch lists them with those that it ignores.
_MAKERS: Final = frozenset(
    {
        *("arange", "empty", "empty_permuted", "empty_strided", "eye", "full", "linspace"),
        *("logspace", "normal", "ones", "rand", "randint", "randn", "randperm", "range"),
        *("scalar_tensor", "tensor", "as_tensor", "tril_indices", "triu_indices", "zeros"),
        *("complex", "cat", "stack", "meshgrid", "einsum", "hann_window"),
        *("hamming_window", "blackman_window", "bartlett_window", "kaiser_window", "polar"),
    }
)


def _functions() -> Iterator[tuple[str, str, Any]]:
    """What namespaces of torch have that can be called: the namespace, the name, the function."""
    for prefix, module in _NAMESPACES:
        for name in dir(module):
            function = getattr(module, name, None)
            if callable(function) and not isinstance(function, type | ModuleType):
                with suppress(TypeError):  # one that cannot be a key is no operator
                    hash(function)
                    yield prefix, name, function


@lru_cache(maxsize=1)
def _of_torch() -> dict[object, str]:
    """Functions of torch that are operators, with their names."""
    overridable = {id(each) for found in get_overridable_functions().values() for each in found}
    ignored = {id(each) for each in get_ignored_functions()}
    found: dict[Any, str] = {}
    for prefix, name, function in _functions():
        known = lookup(function) is not None or id(function) in overridable
        maker = prefix == "torch" and name in _MAKERS
        private = prefix.startswith("torch._C") and id(function) not in ignored
        if known or maker or private:
            found.setdefault(function, f"{prefix}.{name}")
    return found


@lru_cache(maxsize=1)
def _by_name() -> dict[str, object]:
    known = _of_torch()
    return {f"{prefix}.{name}": each for prefix, name, each in _functions() if each in known}


def name_of(function: object) -> str:
    """The stable name of a function that a graph calls."""
    for name, ours in _OURS.items():
        if ours is function:
            return name
    if isinstance(function, OpOverload | OpOverloadPacket):
        return f"torch.ops.{str(function).replace('::', '.')}"
    name = getattr(function, "__name__", "")
    for prefix, (module, allowed) in _PYTHON.items():
        if name in allowed and getattr(module, name, None) is function:
            return f"{prefix}.{name}"
    # `operator.and_` calls itself `and_`; a function may have another name than it is found by.
    try:
        found = _of_torch().get(function)
    except TypeError:
        found = None
    if found is None:
        raise UnknownName(getattr(function, "__qualname__", None) or repr(function))
    return found


def function_of(name: str) -> object:
    """The function of that name."""
    ours = _OURS.get(name)
    if ours is not None:
        return ours
    prefix, _, last = name.rpartition(".")
    if prefix in _PYTHON:
        module, allowed = _PYTHON[prefix]
        if last in allowed:
            return getattr(module, last)
    if name.startswith("torch.ops."):
        return _of_library(name)
    found = _by_name().get(name)
    if found is None:
        raise UnknownName(name)
    return found


#: Operators of libraries that reach outside of the process.
_NO_OPERATORS: Final = frozenset({"from_file"})


def _of_library(name: str) -> object:
    parts = name.split(".")[2:]
    if not _NO_OPERATORS.isdisjoint(parts):
        raise UnknownName(name)
    if not all(part.isidentifier() and not part.startswith("__") for part in parts):
        raise UnknownName(name)
    found: object = torch.ops
    for part in parts:
        found = getattr(found, part, None)
    if not isinstance(found, OpOverload | OpOverloadPacket):
        raise UnknownName(name)
    return found


def is_method(name: str) -> bool:
    """Whether it is a method that a graph may call on a tensor."""
    if not is_word(name) or not callable(getattr(torch.Tensor, name, None)):
        return False
    return name in _DUNDERS if name.startswith("_") else name not in _NO_METHODS


#: What operators of Python call: plainly, with the operands swapped, and in place.
_DUNDERS: Final = frozenset(
    f"__{form}{name}__"
    for form in ("", "r", "i")
    for name in (
        *("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
) | frozenset(
    f"__{name}__"
    for name in (
        *("neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge"),
        *("getitem", "setitem", "bool", "int", "float", "len", "contains", "index"),
    )
)

#: They run code that is given to them, or reach outside of the process.
_NO_METHODS: Final = frozenset(
    {"apply_", "map_", "map2_", "register_hook", "share_memory_", "storage", "untyped_storage"}
)


def is_word(name: object) -> bool:
    """Whether a text can be a name in generated code, and nothing else."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)


def is_attribute(name: object) -> bool:
    return is_word(name) and not str(name).startswith("_")
