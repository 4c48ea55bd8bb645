"""Built code as a function of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.loops.expr import BAD_POSITIONS
from anyshape.loops.program import Buffer, Segment
from anyshape.runtime.loader.build import Loaded, load
from anyshape.runtime.loader.errors import NativeFailed, OutOfRange
from anyshape.runtime.loader.image import Built
from anyshape.runtime.loader.torch_abi import TORCH_DTYPE, last_torch_error
from anyshape.symbolic import Symbol, evaluate

_METH_FASTCALL: Final = 0x0080
_CPU: Final = torch.device("cpu")
#: What torch says where memory of a device is at an end.
_NO_MEMORY: Final = "out of memory"

#: Says more about a reason to fail.
Said = Callable[[str], str | None]


def torch_said(reason: str) -> str | None:
    """What torch had to say of a call that failed for this reason."""
    return last_torch_error() if reason.startswith("torch") else None


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Failure:
    """The `self` of a native function: says which exception a number is. And since the function
    holds it, it holds what the function needs to exist."""

    __slots__ = ("_keeps", "_reasons", "_said")

    def __init__(self, reasons: tuple[str, ...], *keeps: object, said: Said = torch_said) -> None:
        self._reasons = reasons
        self._keeps = keeps
        self._said = said

    def keep(self, more: object) -> None:
        self._keeps = (*self._keeps, more)

    def __call__(self, number: int) -> RuntimeError:
        reason = self._reasons[number - 1]
        said = self._said(reason)
        if said and _NO_MEMORY in said:
            return torch.OutOfMemoryError(said)
        reason = f"{reason}: {said}" if said else reason
        return OutOfRange(reason) if reason in BAD_POSITIONS else NativeFailed(reason)


def python_function(
    built: Built,
    segment: Segment,
    helpers: Loaded,
    device: torch.device = _CPU,
    said: Said = torch_said,
) -> Callable[..., Any]:
    """What is called with the segment's tensors, integers and floats, and gives its outputs.
    `said`: more about a reason to fail."""
    code = load(built, helpers)
    failure = _Failure(built.reasons, code, helpers, said=said)
    if built.entry is None:
        run = code.address(built.run or "")
        assert run is not None, "code without the function that it was made for"
        return CalledWithAddresses(run, segment, failure, device)
    return _callable(built.entry, code, failure)


def plain_function(name: str, code: Loaded) -> Callable[..., Any]:
    """A function of Python that never fails, by its name in the code."""
    return _callable(name, code, _Failure((), code))


def _callable(name: str, code: Loaded, itself: _Failure) -> Callable[..., Any]:
    address = code.address(name)
    assert address is not None, "code without the function that it was made for"
    method = _MethodDef(name.encode(), address, _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # CPython reads the method's definition until the function is gone, and lets `self` go last.
    itself.keep(method)
    return make(ctypes.addressof(method), itself, None)


_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)


class CalledWithAddresses:
    """A segment called from Python with the addresses of tensors: the way that relies on nothing
    but torch's documented functions. Slower by some ten microseconds a call."""

    def __init__(
        self,
        address: int,
        segment: Segment,
        failure: Callable[[int], BaseException],
        device: torch.device,
    ) -> None:
        self._run = _RUN(address)
        self._segment = segment
        self._failure = failure
        self._device = device

    def __call__(self, *arguments: Any) -> Any:
        segment = self._segment
        count = (len(segment.inputs), len(segment.given), len(segment.numbers))
        if len(arguments) != sum(count):
            raise NativeFailed(f"the function takes {sum(count)} arguments")
        tensors = arguments[: count[0]]
        integers = arguments[count[0] : count[0] + count[1]]
        floats = arguments[count[0] + count[1] :]
        for position, (tensor, buffer) in enumerate(zip(tensors, segment.inputs, strict=True)):
            is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
            if not is_plain or not (tensor.data_ptr() or tensor.numel() == 0):
                raise NativeFailed(
                    f"argument {position} ({buffer.name}) is no plain tensor with memory"
                )
        values = dict(zip(segment.given, integers, strict=True))
        values |= {symbol: tensors[k].shape[dim] for symbol, k, dim in segment.read}
        outputs = [_made(buffer, values, self._device) for buffer in segment.outputs]
        pointers = [tensor.data_ptr() for tensor in (*tensors, *outputs)]
        # Arrays of at least one element: ctypes gives those of none no address.
        failed = self._run(
            (ctypes.c_void_p * max(len(pointers), 1))(*pointers),
            None,
            (ctypes.c_int64 * max(len(values), 1))(*(values[each] for each in segment.symbols)),
            (ctypes.c_double * max(count[2], 1))(*floats),
        )
        if failed:
            raise self._failure(failed)
        if len(outputs) == 1:
            return outputs[0]
        return tuple(outputs) if outputs else None


def _made(buffer: Buffer, values: dict[Symbol, int], device: torch.device) -> torch.Tensor:
    sizes = [evaluate(size, values) for size in buffer.sizes]
    strides = [evaluate(stride, values) for stride in buffer.strides]
    return torch.empty_strided(sizes, strides, dtype=TORCH_DTYPE[buffer.dtype], device=device)
