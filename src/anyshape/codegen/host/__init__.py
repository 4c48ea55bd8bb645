"""The host function: a segment as one native function that Python calls.

In: a segment, the names of its kernels' functions, facts of torch's memory. Out: LLVM IR as text,
and words for the numbers that it fails with. It must not know whether the facts are those of this
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anyshape.codegen.host import entry, helpers, run, sizes
from anyshape.codegen.host.abi import HostAbi, HostUnsupported
from anyshape.codegen.host.error_codes import Reasons
from anyshape.codegen.host.extern_calls import declaration
from anyshape.codegen.host.externs import EXTERNS
from anyshape.codegen.host.helpers import helpers_module
from anyshape.codegen.host.module import join_module
from anyshape.codegen.host.no_alias_check import APART
from anyshape.codegen.host.run import KernelCode
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Extern, Segment
from anyshape.support.lazy_dataclass import dataclass

__all__ = [
    "APART",
    "HostAbi",
    "HostCode",
    "HostUnsupported",
    "KernelCode",
    "helpers_module",
    "host_function",
    "join_module",
]


@dataclass(frozen=True, slots=True)
class HostCode:
    text: str
    #: the function that Python calls; None where torch's memory is not known
    entry: str | None
    #: the function that takes addresses
    run: str
    #: what number 1, 2, ... means
    reasons: tuple[str, ...]


def host_function(
    segment: Segment, name: str, kernels: Mapping[Kernel, KernelCode], abi: HostAbi
) -> HostCode:
    """The functions `name` and `name.run`. Kernels are declared, not defined, and so are the
    functions of `helpers_module`."""
    why = Reasons()
    with_entry = abi.tensor_offset is not None
    externs = {step.function for step in segment.steps if isinstance(step, Extern)}
    runs = run.run_function(segment, f"{name}.run", kernels, abi, why)
    texts = [
        sizes.DECLARATIONS,
        run.DECLARATIONS,
        entry.DECLARATIONS,
        helpers.DECLARATIONS,
        *(f"declare i32 @{k.name}(ptr, ptr, ptr, ptr)" for k in _in_order(kernels)),
        *(declaration(EXTERNS[function]) for function in sorted(externs)),
        runs,
    ]
    if with_entry:
        texts.append(entry.entry_function(segment, name, f"{name}.run", abi, why))
    return HostCode(join_module(texts), name if with_entry else None, f"{name}.run", why.all())


def _in_order(kernels: Mapping[Kernel, KernelCode]) -> Iterable[KernelCode]:
    return {code.name: code for code in kernels.values()}.values()
