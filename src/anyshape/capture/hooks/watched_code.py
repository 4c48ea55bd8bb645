"""Whether code is watched, or is a torch operation: by where it stands."""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.ops.origins import LIBRARY, OURSELVES, PACKAGES, TORCH, is_of_torch
from anyshape.ops.table import lookup

#: Of our own code, what users call (`check`), the operators of exported graphs, and programs that
#: stand for users' own.
_OURS_WATCHED: Final = frozenset(
    os.path.join(OURSELVES, name)
    for name in (
        *("api.py", "export/results.py", "export/copy_on_write.py"),
        *("capture/outline/sequences.py", "cli/self_test_programs.py"),
    )
)

#: Parts of torch written as ordinary programs on top of its operations. What they call that cannot
#: be followed, such as a collective, splits them.
_TORCH_WATCHED: Final = (
    "nn/modules/",
    "ao/nn/",
    "ao/quantization/fake_quantize.py",
    "nn/attention/flex_attention.py",
    "nn/functional.py",
    "nn/parallel/",
    "nn/utils/",
    "optim/",
    "autograd/function.py",
    "amp/autocast_mode.py",
    "amp/grad_scaler.py",
    "distributed/algorithms/",
    "distributed/fsdp/",
    "distributed/optim/",
    "_functorch/functional_call.py",
    "_jit_internal.py",
    "jit/__init__.py",
    "fx/graph_module.py",
    "utils/checkpoint.py",
    "utils/_contextlib.py",
    "utils/_foreach_utils.py",
    "utils/_pytree.py",
    "utils/hooks.py",
    "distributions/",
    "backends/",
    "random.py",
)

#: Parts of the standard library that are ordinary programs, too; the rest is native code to us.
_LIBRARY_WATCHED: Final = (
    "contextlib.py",
    "dataclasses.py",
    "enum.py",
    "functools.py",
    "collections/__init__.py",
    "_collections_abc.py",
    "statistics.py",
    "fractions.py",
    "bisect.py",
    "heapq.py",
)


_FROZEN_WATCHED: Final = ("<frozen _collections_abc>",)


@functools.cache
def may_be_watched(filename: str) -> bool:
    if filename.startswith("<frozen "):
        return filename in _FROZEN_WATCHED
    if filename.startswith(OURSELVES):
        return filename in _OURS_WATCHED
    if filename.startswith(TORCH):
        return filename[len(TORCH) :].startswith(_TORCH_WATCHED)
    if filename.startswith(PACKAGES):
        return f"{os.sep}numpy{os.sep}" not in filename
    if filename.startswith(LIBRARY):
        return filename[len(LIBRARY) :] in _LIBRARY_WATCHED
    return True


_FUNCTIONS: object = getattr(torch._C, "_VariableFunctions")  # noqa: B009 no stub has it

_OPERATION_MODULES: Final = frozenset(
    {
        "torch.nn.functional",
        "torch.functional",
        "torch._tensor",
        "torch._jit_internal",
        "torch._C._nn",
        "torch._C._linalg",
        "torch._C._fft",
        "torch._C._special",
        "torch._C._sparse",
        "torch._C._nested",
        "torch.nested",
        "torch.nested._internal.nested_tensor",
    }
)


#: All functions in these take tensors.
_OF_TENSORS: Final = frozenset(
    {"torch._tensor", "torch.nested", "torch.nested._internal.nested_tensor"}
)


def is_operation(function: Callable[..., Any]) -> bool:
    """Whether a callable is a torch operation: a function of its arguments and of torch's state."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not issubclass(type(owner), _LASTING):
        return False
    is_elsewhere = getattr(function, "__module__", None) not in _OPERATION_MODULES
    if is_elsewhere and not isinstance(function, _BUILTIN):
        # What is remembered must not keep the program's objects alive.
        return lookup(function) is not None
    return _is_operation(function)


#: Owners of functions that are there as long as the process is.
_LASTING: Final = (type, types.ModuleType)
#: Functions that are.
_BUILTIN: Final = (
    *(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType),
    *(types.MethodWrapperType, types.ClassMethodDescriptorType, OpOverload, OpOverloadPacket),
)


@functools.lru_cache(maxsize=4096)
def _is_operation(function: Callable[..., object]) -> bool:
    if isinstance(function, OpOverload | OpOverloadPacket) or lookup(function) is not None:
        return True
    name = getattr(function, "__name__", "")
    # What every object has, such as `__new__`, those functions have, too.
    if getattr(_FUNCTIONS, name, None) is function and getattr(object, name, None) is not function:
        return True
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        module = owner.__name__
    if module not in _OPERATION_MODULES:
        return False
    if isinstance(function, types.FunctionType):
        # Those that torch lets a function mode see take tensors; the others are helpers.
        seen = {"handle_torch_function", "has_torch_function"} & set(function.__code__.co_names)
        return is_of_torch(function) and (module in _OF_TENSORS or bool(seen))
    return True
