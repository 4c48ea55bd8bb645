"""Kernels, all that they call and what starts their threads, as one module."""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.codegen.llvm.choice import USUAL, CpuChoice
from anyshape.codegen.llvm.module import _NO_METADATA, _emitter, _part, _triple
from anyshape.codegen.llvm.plan import make_plan
from anyshape.codegen.llvm.threads import entry_function, launch_functions
from anyshape.codegen.target import Target
from anyshape.codegen.vector_math import definitions
from anyshape.loops.kernels import Kernel


def module(kernels: Mapping[str, Kernel], target: Target, choice: CpuChoice = USUAL) -> str:
    texts: list[str] = []
    functions: set[tuple[str, str, int]] = set()
    for name, kernel in kernels.items():
        plan = make_plan(kernel, target, choice)
        part, needed = _part(plan, kernel, name, "internal", target)
        texts.append(f"{part}\n\n{entry_function(_emitter(plan, target), name, name)}")
        functions |= needed
    texts.append(definitions(sorted(functions)))
    return "\n\n".join([_triple(target), launch_functions(), *texts, _NO_METADATA])
