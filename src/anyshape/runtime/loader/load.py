"""Built code as a function of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from anyshape.loops.expr import OUT_OF_RANGE
from anyshape.loops.program import Segment
from anyshape.runtime.loader.build import Loaded, load
from anyshape.runtime.loader.ctypes_call import CalledWithAddresses
from anyshape.runtime.loader.errors import NativeFailed, OutOfRange
from anyshape.runtime.loader.serialized_code import Built
from anyshape.runtime.loader.torch_abi import last_torch_error

_METH_FASTCALL: Final = 0x0080


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

    __slots__ = ("_keeps", "_reasons")

    def __init__(self, reasons: tuple[str, ...], *keeps: object) -> None:
        self._reasons = reasons
        self._keeps = keeps

    def keep(self, more: object) -> None:
        self._keeps = (*self._keeps, more)

    def __call__(self, number: int) -> NativeFailed:
        reason = self._reasons[number - 1]
        if reason.startswith("torch"):
            said = last_torch_error()
            if said:
                reason = f"{reason}: {said}"
        return OutOfRange(reason) if reason == OUT_OF_RANGE else NativeFailed(reason)


def python_function(built: Built, segment: Segment, helpers: Loaded) -> Callable[..., Any]:
    """What is called with the segment's tensors, integers and floats, and gives its outputs."""
    code = load(built, helpers)
    if built.entry is None:
        run = code.address(built.run or "")
        assert run is not None, "code without the function that it was made for"
        return CalledWithAddresses(run, segment, _Failure(built.reasons, code, helpers))
    return _callable(built.entry, code, _Failure(built.reasons, code, helpers))


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
