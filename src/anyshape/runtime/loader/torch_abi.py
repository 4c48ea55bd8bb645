"""How native code reaches a tensor's data and makes tensors: facts of this torch, found and tried.

A Python tensor holds a C++ `at::Tensor` at some offset: its one word is what `_cdata` says. A
pointer to that word is what libtorch's C functions call a tensor handle. A handle that they give
out becomes a Python tensor by `THPVariable_Wrap`, a C++ function that libtorch_python exports.

None of this is promised by anybody. So it is tried on tensors of all kinds before it is used; where
a trial fails, `torch_abi` gives None, and native functions are called from Python with the
addresses that `data_ptr()` tells.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Final

import torch

from anyshape.loops.expr import FULL_NAMES
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.symbols import address_of, libtorch_cpu, libtorch_python
from anyshape.support.lazy_dataclass import dataclass

TORCH_DTYPE: Final = {name: getattr(torch, full) for name, full in FULL_NAMES.items()}

#: `PyObject* THPVariable_Wrap(const at::TensorBase&)`, as torch spells it since 2.6 or so.
WRAP: Final = "_Z16THPVariable_WrapRKN2at10TensorBaseE"

#: What native code needs besides `WRAP` to take and make tensors.
_NEEDED: Final = (
    WRAP,
    "aoti_torch_get_data_ptr",
    "aoti_torch_get_numel",
    "aoti_torch_get_sizes",
    "aoti_torch_empty_strided",
    "aoti_torch_delete_tensor_object",
    "PyObject_CallOneArg",
    "PyErr_SetObject",
)


@dataclass(frozen=True, slots=True)
class TorchAbi:
    #: of the at::Tensor in a Python tensor
    tensor_offset: int
    #: of `ob_type` in any object
    type_offset: int
    #: torch's numbers for dtypes
    dtypes: tuple[tuple[str, int], ...]


def dtype_codes() -> tuple[tuple[str, int], ...]:
    """What torch's C functions call the dtypes."""
    library = libtorch_cpu()
    found: list[tuple[str, int]] = []
    for name, spelled in FULL_NAMES.items():
        address_of(f"aoti_torch_dtype_{spelled}")
        function = getattr(library, f"aoti_torch_dtype_{spelled}")
        function.restype = ctypes.c_int32
        found.append((name, function()))
    return tuple(found)


@functools.cache
def torch_abi() -> TorchAbi | None:
    """What the trials found; None where this torch is made otherwise."""
    try:
        return _found()
    except (NativeUnavailable, _NotSo, AttributeError):
        return None


class _NotSo(Exception):
    """This torch or this Python is not made as we know them."""


def _found() -> TorchAbi:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise _NotSo  # reference counts are kept in another way
    for name in _NEEDED:
        address_of(name)
    samples = _samples()
    abi = TorchAbi(_tensor_offset(samples), _type_offset(samples), dtype_codes())
    _try_data_and_sizes(abi, samples)
    _try_new_tensors(abi)
    return abi


def _samples() -> list[torch.Tensor]:
    base = torch.arange(24.0).reshape(4, 6)
    return [
        base,
        base[1:, 2:4],
        base.t(),
        torch.empty(0),
        torch.tensor(3),
        torch.zeros(3, dtype=torch.bool),
        torch.nn.Parameter(torch.zeros(5)),
        torch.zeros(2, dtype=torch.bfloat16)[1:],
    ]


def _offset(words: dict[int, int], size: int) -> int:
    """Where all objects, by their addresses, have the word that is said, and have nothing but it.
    `size`: bytes of each that are looked at."""
    width = ctypes.sizeof(ctypes.c_size_t)
    found = [
        {k for k, w in enumerate((ctypes.c_size_t * (size // width)).from_address(at)) if w == word}
        for at, word in words.items()
    ]
    common = set.intersection(*found)
    if len(common) != 1:
        raise _NotSo
    return common.pop() * width


def _tensor_offset(samples: list[torch.Tensor]) -> int:
    """Of the address of the C++ part."""
    words = {id(sample): sample._cdata for sample in samples}
    return _offset(words, torch._C.TensorBase.__basicsize__)


def _type_offset(samples: list[torch.Tensor]) -> int:
    values = [*samples, "text", 7, 1.5, None, object()]
    return _offset({id(value): id(type(value)) for value in values}, object.__basicsize__)


def _try_data_and_sizes(abi: TorchAbi, samples: list[torch.Tensor]) -> None:
    get = libtorch_cpu().aoti_torch_get_data_ptr
    sizes = libtorch_cpu().aoti_torch_get_sizes
    for function in (get, sizes):
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int32
    for sample in samples:
        pointer = ctypes.c_void_p()
        if get(id(sample) + abi.tensor_offset, ctypes.addressof(pointer)):
            raise _NotSo
        if (pointer.value or 0) != sample.data_ptr():
            raise _NotSo
        if sizes(id(sample) + abi.tensor_offset, ctypes.addressof(pointer)):
            raise _NotSo
        found = (ctypes.c_int64 * sample.dim()).from_address(pointer.value or 0)
        if tuple(found) != tuple(sample.shape):
            raise _NotSo


def _try_new_tensors(abi: TorchAbi) -> None:
    """New tensors are what `torch.empty_strided` makes, here and in inference mode, and die with
    their last reference."""
    make = tensor_maker()
    codes = dict(abi.dtypes)
    shapes = [((2, 3), (3, 1)), ((), ()), ((0, 4), (4, 1)), ((2, 3), (1, 2))]
    for inference in (False, True):
        with torch.inference_mode(inference):
            for name, dtype in TORCH_DTYPE.items():
                sizes, strides = shapes[codes[name] % len(shapes)]
                new = make(sizes, strides, codes[name])
                like = torch.empty_strided(sizes, strides, dtype=dtype)
                if not _same_kind(new, like) or sys.getrefcount(new) != sys.getrefcount(like):
                    raise _NotSo
                # Casts are all that there is for all dtypes.
                new.copy_(torch.ones(sizes))
                if not bool((new.double() == 1).all()):
                    raise _NotSo


def _same_kind(new: object, like: torch.Tensor) -> bool:
    return (
        type(new) is torch.Tensor
        and (new.shape, new.stride(), new.dtype, new.device, new.layout)
        == (like.shape, like.stride(), like.dtype, like.device, like.layout)
        and new.requires_grad is False
        and new.is_inference() is like.is_inference()
    )


def tensor_maker() -> Callable[[tuple[int, ...], tuple[int, ...], int], torch.Tensor]:
    """`make(sizes, strides, dtype code)`, in the way of native code but from Python."""
    library = libtorch_cpu()
    make, delete = library.aoti_torch_empty_strided, library.aoti_torch_delete_tensor_object
    make.restype = delete.restype = ctypes.c_int32
    wrap = getattr(libtorch_python(), WRAP)
    wrap.argtypes, wrap.restype = [ctypes.c_void_p], ctypes.py_object

    def made(sizes: tuple[int, ...], strides: tuple[int, ...], code: int) -> torch.Tensor:
        words = ctypes.c_int64 * max(len(sizes), 1)
        handle = ctypes.c_void_p()
        failed = make(
            ctypes.c_int64(len(sizes)),
            words(*sizes),
            words(*strides),
            ctypes.c_int32(code),
            ctypes.c_int32(0),
            ctypes.c_int32(0),
            ctypes.byref(handle),
        )
        if failed:
            raise _NotSo
        try:
            return wrap(handle)
        finally:
            delete(handle)

    return made


def last_torch_error() -> str | None:
    """What the C function that failed last in this thread had to say, where torch keeps it."""
    function = getattr(libtorch_cpu(), "torch_exception_get_what_without_backtrace", None)
    if function is None:
        return None
    function.restype = ctypes.c_char_p
    said = function()
    return None if said is None else said.decode(errors="replace")
