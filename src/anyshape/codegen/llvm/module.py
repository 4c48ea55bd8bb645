"""Kernels as functions, and modules of them."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from anyshape.codegen.llvm.choice import USUAL, CpuChoice
from anyshape.codegen.llvm.collapsed_axes import choice as choice_function
from anyshape.codegen.llvm.emitter import PARAMETERS, Emitter
from anyshape.codegen.llvm.kernel import part_function
from anyshape.codegen.llvm.plan import KernelPlan, make_plan, short_plan
from anyshape.codegen.llvm.threads import (
    LAUNCH_DECLARATION,
    THREAD_DECLARATIONS,
    entry_function,
)
from anyshape.codegen.llvm.values import compute
from anyshape.codegen.target import Machine, Target, Texts
from anyshape.codegen.vector_math import definitions
from anyshape.codegen.vector_math.table import RARE
from anyshape.loops.collapsed_axes import vectors_extent
from anyshape.loops.kernels import Kernel
from anyshape.symbolic import Size

Function = tuple[str, str, int]

#: For what does not depend on the processor.
_ANY: Final = Target("", "", "")
_NO_CHOICES: Final[Mapping[Kernel, CpuChoice]] = {}
_NO_METADATA: Final = "!0 = !{}\n"
#: stands for a kernel in its text until that has a name
_NAMELESS: Final = "as.kernel.nameless"


def scratch_bytes(kernel: Kernel, target: Target = _ANY, choice: CpuChoice = USUAL) -> Size:
    """What each thread needs; `%scratch` has as much for each that there may be."""
    return make_plan(kernel, target, choice).bytes_for_a_thread()


def module_texts(
    kernels: Mapping[str, Kernel], target: Target, choices: Mapping[Kernel, CpuChoice] = _NO_CHOICES
) -> Texts:
    """Kernels as several modules. What loops is apart, under a name that follows from its text:
    kernels that programs have in common are compiled once. What only begins them is beside. The
    whole needs `launch_functions` from elsewhere."""
    beside: list[str] = [LAUNCH_DECLARATION]
    apart: dict[str, None] = {}
    for name, kernel in kernels.items():
        code = _code(kernel, target, choices.get(kernel, USUAL))
        apart |= dict.fromkeys(code.modules)
        beside.append(f"declare i32 @{code.name}.part({_TYPES})")
        beside.append(entry_function(_emitter(code.plan, target), name, code.name))
    return Texts("\n\n".join([*beside, _NO_METADATA]), tuple(apart))


class _Code(NamedTuple):
    plan: KernelPlan
    #: that follows from its text
    name: str
    modules: tuple[str, ...]


@functools.lru_cache(maxsize=512)
def _code(kernel: Kernel, target: Target, choice: CpuChoice) -> _Code:
    """What loops. Graphs of one function have most of their kernels in common."""
    plan = make_plan(kernel, target, choice)
    part, needed = _part(plan, kernel, _NAMELESS, "external", target)
    functions, rare = _rare_apart(definitions(sorted(needed)))
    text = "\n\n".join([_triple(target), THREAD_DECLARATIONS, part, functions, _NO_METADATA])
    name = f"as.kernel.{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"
    modules = [f"{_triple(target)}\n\n{each}" for each in rare]
    return _Code(plan, name, (*modules, text.replace(_NAMELESS, name)))


def _rare_apart(functions: str) -> tuple[str, list[str]]:
    """The text with declarations of its rare functions instead, and these: long, and the same for
    all kernels."""
    rare: list[str] = []

    def declared(found: re.Match[str]) -> str:
        result, name, given = found["result"], found["name"], found["given"]
        if len(set(_OURS.findall(found[0]))) > 1:
            return found[0]  # it calls others
        rare.append(found[0].replace("define internal", "define", 1))
        types = ", ".join(parameter.rsplit(" ", 1)[0] for parameter in given.split(", "))
        return f"declare {result} @{name}({types}) {RARE}\n"

    return _RARE.sub(declared, functions), rare


_OURS: Final = re.compile(r"@as\.[\w.]+")
_RARE: Final = re.compile(
    rf"^define internal (?P<result>[^@\n]+) @(?P<name>[\w.]+)\((?P<given>[^)\n]*)\) "
    rf"{re.escape(RARE)} \{{$.*?^\}}\n",
    re.MULTILINE | re.DOTALL,
)
#: of a part's parameters
_TYPES: Final = ", ".join(parameter.split()[0] for parameter in PARAMETERS.split(", "))


def _triple(target: Target) -> str:
    return f'target triple = "{target.triple}"'


def _emitter(plan: KernelPlan, target: Target) -> Emitter:
    return Emitter(plan, Machine.of(target), compute)


def _part(
    plan: KernelPlan, kernel: Kernel, name: str, linkage: str, target: Target
) -> tuple[str, frozenset[Function]]:
    """The function of a part, and those of vector_math that it calls. There may be two of it, for a
    short axis and for a long one."""
    usual = _emitter(plan, target)
    extent = vectors_extent(kernel)
    other = None if extent is None or isinstance(extent, int) else short_plan(kernel, target)
    if extent is None or other is None or not _fits(other, plan):
        return part_function(usual, name, linkage), frozenset(usual.functions)
    short = _emitter(other, target)
    texts = [
        part_function(usual, f"{name}.long", "internal"),
        part_function(short, f"{name}.short", "internal"),
        choice_function(_emitter(plan, target), extent, name, linkage),
    ]
    return "\n\n".join(texts), frozenset(usual.functions | short.functions)


def _fits(short: KernelPlan, plan: KernelPlan) -> bool:
    """Whether the memory of a thread, which is that of the usual plan, is enough."""
    needed, given = short.bytes_for_a_thread(), plan.bytes_for_a_thread()
    return isinstance(needed, int) and isinstance(given, int) and needed <= given
