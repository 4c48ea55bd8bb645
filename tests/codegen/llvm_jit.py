"""Kernels made and run for tests, over numpy arrays, as native segments are built and loaded."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.llvm.choice import USUAL, CpuChoice
from anyshape.codegen.llvm.module import scratch_bytes
from anyshape.codegen.target import Target
from anyshape.config import config
from anyshape.loops.expr import FLOAT8
from anyshape.loops.kernels import Kernel
from anyshape.runtime.loader.build import Source, build, load
from anyshape.runtime.loader.host_target import HostTarget, capped, detected
from anyshape.symbolic import Size, evaluate, symbol
from anyshape.symbolic.expr import as_symbol
from tests.codegen.assembler import build_assembly
from tests.codegen.cpu_emulator import Emulated, emulator, linked
from tests.codegen.one_module import module

NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": np.uint16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "b1": np.bool_,
    **dict.fromkeys(FLOAT8, np.uint8),
}

AVX2 = Target("x86_64-unknown-linux-gnu", "haswell", "")
NEON = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "")


@cache
def host() -> Target:
    """This machine, less what `config.cpu_features` leaves out."""
    return Target(*capped(detected(), config.cpu_features))


def assembly(kernel: Kernel, target: Target) -> str:
    text = module({"kernel": kernel}, target)
    return build_assembly(text, target.triple, target.cpu, target.features)


@dataclass
class Compiled:
    loaded: Any
    entry: Any
    scratch: Size
    milliseconds: float
    text: str

    def __call__(
        self,
        buffers: Sequence[np.ndarray | int],
        sizes: Sequence[int] = (),
        numbers: Sequence[float] = (),
        threads: int = 64,
    ) -> int:
        pointers = [b.ctypes.data if isinstance(b, np.ndarray) else b for b in buffers]
        values = {as_symbol(symbol(f"n{i}")): size for i, size in enumerate(sizes)}
        space = np.empty(evaluate(self.scratch, values) * threads + 64, np.uint8)
        start = -space.ctypes.data % 64 + space.ctypes.data
        return self.entry(
            (ctypes.c_void_p * max(1, len(pointers)))(*pointers),
            (ctypes.c_int64 * max(1, len(sizes)))(*sizes),
            (ctypes.c_double * max(1, len(numbers)))(*numbers),
            start,
        )


def architecture(target: Target) -> str:
    return target.triple.split("-")[0]


def compiled(
    kernel: Kernel, target: Target | None = None, choice: CpuChoice = USUAL
) -> Compiled | Emulated:
    """The kernel, loaded. Code for another machine is run by qemu; where that is missing, it is
    made and linked all the same, and what would run it is skipped."""
    target = target or host()
    start = time.perf_counter()
    text = module({"kernel": kernel}, target, choice)
    is_ours = architecture(target) == architecture(host())
    triple = host().triple if is_ours else target.triple
    own = HostTarget(triple, target.cpu, target.features, target.lanes)
    built = build(Source(text, None, "kernel", ()), own)
    if not is_ours:
        assert dict(built.image.exports).get("kernel") is not None, "code that our linker refused"
        if emulator(architecture(target)) is None:
            pytest.skip(f"made and linked; to run it takes qemu-{architecture(target)}")
        return emulated(kernel, text, target)
    loaded = load(built)
    spent = (time.perf_counter() - start) * 1e3
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(loaded.address("kernel") or 0)
    return Compiled(loaded, entry, scratch_bytes(kernel, target, choice), spent, text)


def emulated(kernel: Kernel, text: str, target: Target) -> Emulated:
    return Emulated(linked(text, target), architecture(target), scratch_bytes(kernel, target), text)


def runs(kernel: Kernel, sizes: Sequence[int]) -> Mapping[Any, int]:
    return {as_symbol(symbol(f"n{i}")): size for i, size in enumerate(sizes)}
