"""The host function: a segment as one native function that Python calls.

In: a segment, the names of its kernels' functions, facts of torch's memory. Out: LLVM IR as text,
and words for the numbers that it fails with. It must not know whether the facts are those of this
process.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.codegen.host import entry, helpers, products, run, sizes
from anyshape.codegen.host.abi import HostAbi, HostUnsupported, Reasons
from anyshape.codegen.host.externs import EXTERNS, declaration
from anyshape.codegen.host.helpers import helpers_module
from anyshape.codegen.host.no_alias_check import APART
from anyshape.codegen.host.steps import KernelCode
from anyshape.codegen.ir_builder import join_module
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
    called = dict.fromkeys(code.name for code in kernels.values())
    runs = run.Run(segment, f"{name}.run", kernels, abi, why).text()
    texts = [
        sizes.DECLARATIONS,
        run.DECLARATIONS,
        entry.DECLARATIONS,
        helpers.DECLARATIONS,
        *([products.DECLARATIONS] if abi.products else []),
        *(f"declare i32 @{name}(ptr, ptr, ptr, ptr)" for name in called),
        *(declaration(EXTERNS[function], abi.device) for function in sorted(externs)),
        runs,
    ]
    if with_entry:
        texts.append(entry.Entry(segment, name, f"{name}.run", abi, why).text())
    return HostCode(join_module(texts), name if with_entry else None, f"{name}.run", why.all())
