"""A segment on a GPU, run by Python: its kernels, launched one after the other in torch's current
stream.

What a run at given sizes needs is worked out once and kept: which function of each kernel, how many
threads, and all of its arguments but the addresses.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch

from anyshape.codegen.nvptx.geometry import chosen, geometry
from anyshape.codegen.nvptx.module import Counts, LaunchRule
from anyshape.loops.program import Buffer, Launch, Segment
from anyshape.runtime.cuda.code import GpuTarget, Module, most_dynamic
from anyshape.runtime.cuda.driver import driver
from anyshape.runtime.loader.errors import OutOfRange
from anyshape.runtime.loader.torch_abi import TORCH_DTYPE
from anyshape.symbolic import Symbol, evaluate

#: Sizes of which a segment keeps what a run needs.
_MOST_KEPT: Final = 256


class KernelModule(NamedTuple):
    """The code of a kernel, and how it is launched."""

    module: Module
    rules: tuple[LaunchRule, ...]
    counts: Counts


def check_memory(codes: Sequence[KernelModule]) -> torch.Tensor | None:
    """Where checks of these kernels leave their numbers: the GPU writes to it, and it is read
    without waiting. None if there are no checks."""
    if not any(rule.checks for code in codes for rule in code.rules):
        return None
    return torch.zeros(len(codes), dtype=torch.int32, device="cpu").pin_memory()


def raise_failed_check(failures: torch.Tensor, codes: Sequence[KernelModule]) -> None:
    """What an earlier call has found."""
    for number, code in zip(failures.tolist(), codes, strict=True):
        if number:
            failures.zero_()
            raise OutOfRange(f"{code.rules[0].checks[number - 1]} (in an earlier call)")


class _Ready(NamedTuple):
    """A launch at given sizes."""

    function: int
    name: str
    grid: int
    block: tuple[int, int]
    shared: int
    #: bytes of private memory, of each row or thread and in all
    private: int
    scratch: int
    #: numbers of its buffers, in the order of the segment's
    buffers: tuple[int, ...]
    sizes: tuple[int, ...]
    numbers: tuple[int, ...]
    #: where a check that fails leaves its number
    failure: int
    argument: Any


class _Run(NamedTuple):
    """The launches of a segment at given sizes, and the buffers that it makes."""

    launches: tuple[_Ready, ...]
    #: sizes, strides and dtype of outputs, then of temporaries
    made: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]


class CudaSegment:
    def __init__(
        self,
        segment: Segment,
        device: torch.device,
        target: GpuTarget,
        codes: Sequence[KernelModule],
    ) -> None:
        self._segment = segment
        self._device = device
        self._target = target
        self._codes = codes
        self._driver = driver()
        self._inputs, self._given = len(segment.inputs), len(segment.given)
        self._reads = tuple((each.tensor, each.dim) for each in segment.read)
        self._runs: dict[tuple[int, ...], _Run] = {}
        self._failures = check_memory(codes)

    def __call__(self, *arguments: Any) -> Any:
        if self._failures is not None:
            raise_failed_check(self._failures, self._codes)
        # torch.cuda's own functions of these take longer than a launch.
        if torch._C._cuda_getDevice() != self._device.index:
            with torch.cuda.device(self._device):
                return self._called(arguments)
        return self._called(arguments)

    def _called(self, arguments: Sequence[Any]) -> Any:
        inputs, given = self._inputs, self._given
        tensors = arguments[:inputs]
        pointers = [tensor.data_ptr() for tensor in tensors]
        sizes = (
            *arguments[inputs : inputs + given],
            *(tensors[number].shape[dim] for number, dim in self._reads),
            *(pointer & 15 for pointer in pointers),
        )
        run = self._runs.get(sizes)
        if run is None:
            run = self._prepared(sizes, pointers)
        made = [
            torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
            for shape, strides, dtype in run.made
        ]
        pointers += [tensor.data_ptr() for tensor in made]
        stream = torch._C._cuda_getCurrentRawStream(self._device.index)
        numbers = [_word(float(value)) for value in arguments[inputs + given :]]
        for each in run.launches:
            scratch: torch.Tensor | None = None
            if each.scratch:
                scratch = torch.empty(each.scratch, dtype=torch.uint8, device=self._device)
            argument = each.argument(
                *(pointers[number] for number in each.buffers),
                *each.sizes,
                *(numbers[number] for number in each.numbers),
                0 if scratch is None else scratch.data_ptr(),
                each.private if each.scratch else 0,
                each.failure,
            )
            params = ctypes.c_void_p(ctypes.addressof(argument))
            self._driver.launch(
                each.function,
                each.grid,
                each.block,
                each.shared,
                stream,
                ctypes.addressof(params),
                each.name,
            )
        outputs = made[: len(self._segment.outputs)]
        if len(outputs) == 1:
            return outputs[0]
        return tuple(outputs) if outputs else None

    def _prepared(self, key: tuple[int, ...], pointers: Sequence[int]) -> _Run:
        segment = self._segment
        symbols = (*segment.given, *(each.symbol for each in segment.read))
        values: dict[Symbol, int] = dict(zip(symbols, key, strict=False))
        every = (*segment.inputs, *segment.outputs, *segment.temporaries)
        numbers = {buffer.name: number for number, buffer in enumerate(every)}
        names = {name: number for number, name in enumerate(segment.numbers)}
        # Memory of our own begins where any vector may.
        addresses = [*pointers, *(0 for _ in every[len(pointers) :])]
        ready: list[_Ready] = []
        launches = [step for step in segment.steps if isinstance(step, Launch)]
        for position, (launch, code) in enumerate(zip(launches, self._codes, strict=True)):
            sizes = tuple(evaluate(size, values) for size in launch.sizes)
            buffers = tuple(numbers[name] for name in launch.buffers)
            rule = chosen(code.rules, sizes, [addresses[number] for number in buffers])
            shape = geometry(rule, sizes, most_dynamic(self._target))
            if shape is None:
                continue
            index = self._device.index
            function = code.module.function(index, rule.name, most_dynamic(self._target))
            count = len(buffers) + len(sizes) + len(launch.numbers) + 3
            failure = 0
            if self._failures is not None:
                failure = self._failures.data_ptr() + 4 * position
            ready.append(
                _Ready(
                    function,
                    rule.name,
                    shape.grid,
                    shape.block,
                    shape.shared,
                    shape.private,
                    shape.scratch,
                    buffers,
                    sizes,
                    tuple(names[name] for name in launch.numbers),
                    failure,
                    ctypes.c_int64 * count,
                )
            )
        made = tuple(_made(buffer, values) for buffer in every[len(segment.inputs) :])
        if len(self._runs) >= _MOST_KEPT:
            self._runs.clear()
        run = self._runs[key] = _Run(tuple(ready), made)
        return run


def _made(
    buffer: Buffer, values: dict[Symbol, int]
) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    sizes = tuple(evaluate(size, values) for size in buffer.sizes)
    strides = tuple(evaluate(stride, values) for stride in buffer.strides)
    return sizes, strides, TORCH_DTYPE[buffer.dtype]


def _word(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]
