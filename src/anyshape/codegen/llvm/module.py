"""Kernels as functions, and modules of them."""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.kernel import part_function
from anyshape.codegen.llvm.machine import Machine
from anyshape.codegen.llvm.plan import make_plan
from anyshape.codegen.llvm.scratch import bytes_for_a_thread
from anyshape.codegen.llvm.threads import entry_function, launch_functions
from anyshape.codegen.llvm.values import compute
from anyshape.codegen.target import Target
from anyshape.codegen.vector_math import definitions
from anyshape.loops.kernels import Kernel
from anyshape.symbolic import Size

Function = tuple[str, str, int]

#: For what does not depend on the processor.
_ANY = Target("", "", "")


def kernel_function(kernel: Kernel, name: str, target: Target) -> str:
    """`define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)` and what it calls,
    but for `launch_functions`, `!0` and vector_math's definitions of `requirements`."""
    return _write(kernel, name, target)[0]


def requirements(kernel: Kernel, target: Target) -> frozenset[Function]:
    """The functions of vector_math that the kernel calls: (name, dtype, lanes)."""
    return _write(kernel, "kernel", target)[1]


def scratch_bytes(kernel: Kernel, target: Target = _ANY) -> Size:
    """What each thread needs; `%scratch` has as much for each that there may be."""
    return bytes_for_a_thread(make_plan(kernel, target))


def module(kernels: Mapping[str, Kernel], target: Target) -> str:
    """One module with all of them."""
    texts: list[str] = []
    functions: set[Function] = set()
    for name, kernel in kernels.items():
        text, needed = _write(kernel, name, target)
        texts.append(text)
        functions |= needed
    texts.append(definitions(sorted(functions)))
    return "\n\n".join(
        [f'target triple = "{target.triple}"', launch_functions(), *texts, "!0 = !{}\n"]
    )


def _write(kernel: Kernel, name: str, target: Target) -> tuple[str, frozenset[Function]]:
    plan = make_plan(kernel, target)
    machine = Machine.of(target)
    part = Emitter(plan, machine, compute)
    entry = entry_function(Emitter(plan, machine, compute), name)
    return f"{part_function(part, name)}\n\n{entry}", frozenset(part.functions)
