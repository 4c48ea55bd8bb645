"""A segment called from Python with the addresses of tensors: the way that relies on nothing but
torch's documented functions. Slower by some ten microseconds a call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from anyshape.loops.program import Buffer, Segment
from anyshape.runtime.loader.errors import NativeFailed
from anyshape.runtime.loader.torch_abi import TORCH_DTYPE
from anyshape.symbolic import Symbol, evaluate

_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)


class CalledWithAddresses:
    def __init__(
        self, address: int, segment: Segment, failure: Callable[[int], BaseException]
    ) -> None:
        self._run = _RUN(address)
        self._segment = segment
        self._failure = failure

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
        outputs = [_made(buffer, values) for buffer in segment.outputs]
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


def _made(buffer: Buffer, values: dict[Symbol, int]) -> torch.Tensor:
    sizes = [evaluate(size, values) for size in buffer.sizes]
    strides = [evaluate(stride, values) for stride in buffer.strides]
    return torch.empty_strided(sizes, strides, dtype=TORCH_DTYPE[buffer.dtype], device="cpu")
