"""Functions that `torch.jit.script` compiled: their Python code is followed, as far as it is given
what that compiler takes as it is."""

from __future__ import annotations

import dis
import types
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt

#: What is given to a parameter of a type as it is. Other numbers, and tensors in their place, are
#: converted.
_AS_THEY_ARE: Final[dict[str, tuple[type, ...]]] = {
    "Tensor": (torch.Tensor, torch.nn.Parameter),
    "int": (int, TracedInt),
    "float": (float, TracedFloat),
    "bool": (bool,),
    "str": (str,),
    "NoneType": (type(None),),
}


def python_of(function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """The code that was compiled."""
    behind = getattr(function, "_torchdynamo_inline", None)
    if behind is None:
        raise AbortCapture("cannot trace into `torch.jit.ScriptFunction`")
    parameters = function.schema.arguments
    by_name = {each.name: each for each in parameters}
    given = [*zip(parameters, args, strict=False)]
    given += [(by_name[name], value) for name, value in kwargs.items() if name in by_name]
    if len(given) != len(args) + len(kwargs) or not all(map(_fits, given)):
        raise AbortCapture(f"arguments that `{function.name}` converts, as it is scripted")
    if not _means_the_same(behind, set()):
        raise AbortCapture(f"`{function.name}` does something else where it is scripted")
    return behind


def _means_the_same(function: types.FunctionType, seen: set[object]) -> bool:
    """Whether Python code, and what it calls of the program, neither asks who runs it nor raises
    errors: those of scripted code are all of one class."""
    if function in seen or function.__module__.partition(".")[0] == "torch":
        return True
    seen.add(function)
    code = function.__code__
    if "is_scripting" in code.co_names:
        return False
    if any(each.opname in _RAISES for each in dis.get_instructions(code)):
        return False
    for name in code.co_names:
        value = function.__globals__.get(name)
        called = getattr(value, "_torchdynamo_inline", value)
        if isinstance(called, types.FunctionType) and not _means_the_same(called, seen):
            return False
    return True


_RAISES: Final = frozenset({"RAISE_VARARGS", "LOAD_ASSERTION_ERROR"})


def _fits(given: tuple[Any, object]) -> bool:
    parameter, value = given
    name = str(parameter.type)
    kinds = _AS_THEY_ARE.get(name.removeprefix("Optional[").removesuffix("]"), ())
    return type(value) in kinds or (value is None and name.startswith("Optional["))
