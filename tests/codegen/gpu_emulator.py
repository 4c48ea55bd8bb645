"""Kernels for GPUs, run without one: the same text for this processor, a thread for each thread.

What the threads of a block have of their own is given to the function; barriers and shuffles are
calls of Python, where the threads wait for each other.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from anyshape.codegen.nvptx.launch import Geometry, chosen, geometry
from anyshape.codegen.nvptx.module import LaunchRule, module_text, nvptx_target
from anyshape.loops.kernels import Kernel
from tests.codegen.jit import host_machine, optimized

_REGISTERS = ("tid.x", "tid.y", "ntid.x", "ntid.y", "ctaid.x", "nctaid.x")
_GIVEN = ", ".join([f"i32 %emu.{name}" for name in _REGISTERS] + ["ptr %barrier", "ptr %shuffle"])
_SHARED = 1 << 16


def _for_host(text: str) -> str:
    text = re.sub(r"^target .*\n", "", text, flags=re.M)
    text = re.sub(r"^declare .*@llvm\.nvvm\..*\n", "", text, flags=re.M)
    text = re.sub(
        r"define ptx_kernel void @(\S+)\(ptr byval\(\[\d+ x i64\]\) align 8 %buffers\)",
        rf"define void @\1(ptr %buffers, {_GIVEN})",
        text,
    )
    text = re.sub(
        r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(\)", r"add i32 %emu.\1, 0", text
    )
    text = text.replace("call void @llvm.nvvm.barrier0()", "call void %barrier()")
    text = text.replace("  call void @llvm.trap()\n", "")
    text = re.sub(
        r"call i32 @llvm\.nvvm\.shfl\.sync\.bfly\.i32\(i32 -1, (i32 \S+), (i32 \d+), i32 31\)",
        r"call i32 %shuffle(\1, \2)",
        text,
    )
    text = re.sub(
        r"addrspacecast ptr addrspace\(3\) (\S+) to ptr", r"getelementptr i8, ptr \1, i64 0", text
    )
    text = re.sub(
        r"external addrspace\(3\) global \[0 x i8\]",
        f"internal global [{_SHARED} x i8] zeroinitializer",
        text,
    )
    return text.replace("addrspace(3) ", "")


class Emulated:
    """A kernel, called with arrays, sizes and numbers; gives the number of a check that failed."""

    def __init__(self, kernel: Kernel, counts: tuple[int, int, int]) -> None:
        text, rules = module_text({"kernel": (kernel, counts)}, nvptx_target((9, 0), 80))
        self.text = text
        self.rules: tuple[LaunchRule, ...] = rules["kernel"]
        machine = host_machine()
        module = optimized(_for_host(text), machine)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def __call__(
        self,
        buffers: Sequence[np.ndarray],
        sizes: Sequence[int] = (),
        numbers: Sequence[float] = (),
        shared: int = _SHARED,
    ) -> int:
        addresses = [each.ctypes.data for each in buffers]
        rule = chosen(self.rules, sizes, addresses)
        shape = geometry(rule, sizes, shared)
        if shape is None:
            return 0
        scratch = np.zeros(shape.scratch + 64, np.uint8)
        failed = ctypes.c_int32(0)
        words = [*addresses, *sizes, *np.array(numbers, np.float64).view(np.int64).tolist()]
        words += [-(-scratch.ctypes.data // 64) * 64, shape.private, ctypes.addressof(failed)]
        params = (ctypes.c_int64 * len(words))(*words)
        self._run(rule.name, shape, params)
        return failed.value

    def _run(self, name: str, shape: Geometry, params: Any) -> None:
        address = self._engine.get_function_address(name)
        wait, swap = ctypes.CFUNCTYPE(None), ctypes.CFUNCTYPE(*[ctypes.c_int32] * 3)
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int32] * 6, wait, swap)(address)
        width, height = shape.block
        count = width * height
        together = "rows" in {rule.form for rule in self.rules}
        barrier = threading.Barrier(count)
        warps = [threading.Barrier(32) for _ in range(-(-count // 32))]
        slots = [0] * count
        own = threading.local()

        def shuffle(value: int, distance: int) -> int:
            warp = warps[own.number // 32]
            slots[own.number] = value
            warp.wait()
            found = slots[own.number ^ distance]
            warp.wait()
            return found

        def one(number: int, block: int) -> None:
            own.number = number
            entry(
                ctypes.addressof(params),
                number % width,
                number // width,
                width,
                height,
                block,
                shape.grid,
                waiting,
                swapping,
            )

        waiting, swapping = wait(barrier.wait if together else lambda: None), swap(shuffle)
        for block in range(shape.grid):
            if not together:
                for number in range(count):
                    one(number, block)
                continue
            threads = [threading.Thread(target=one, args=(n, block)) for n in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
