"""The text of a segment: its kernels and its host function, as `codegen/` writes them.

Apart from `build.py`, which loads this when code has to be made: most of `codegen/` is imported
here, and code that is found on disk needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from anyshape.codegen.host import (
    APART,
    HostAbi,
    HostUnsupported,
    KernelCode,
    helpers_module,
    host_function,
)
from anyshape.codegen.host.externs import row_of
from anyshape.codegen.ir_builder import join_module
from anyshape.codegen.llvm import module
from anyshape.codegen.llvm.choice import USUAL, CpuChoice
from anyshape.codegen.llvm.threads import launch_functions
from anyshape.codegen.nvptx.launch import (
    BRANCH,
    DECLARATIONS,
    failures,
    launch_function,
)
from anyshape.codegen.nvptx.launch_helpers import launch_helpers
from anyshape.codegen.nvptx.module import Counts, LaunchRule
from anyshape.codegen.nvptx.products import product_helpers
from anyshape.codegen.target import Target, Texts
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Extern, Launch, Segment
from anyshape.runtime.loader.build import Source
from anyshape.runtime.loader.host_target import HostTarget
from anyshape.runtime.loader.symbols import c_signature, find_symbol
from anyshape.runtime.loader.torch_abi import WRAP, TorchAbi, dtype_codes
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size

#: torch's number for devices of this type
_CUDA: Final = 1
_NAME: Final = "anyshape_segment"
_NO_CHOICES: Final[Mapping[Kernel, CpuChoice]] = {}


def helpers_source(abi: TorchAbi | None, gpu: int | None = None) -> Source:
    """What all segments call, or those for a GPU. One function of it is Python's, where torch's
    memory is known."""
    launches = [launch_functions()] if gpu is None else [launch_helpers(gpu), product_helpers(gpu)]
    text = join_module([helpers_module(host_abi(abi, gpu)), *launches])
    # Nothing that a call takes can be measured to be longer by it, and a first call takes a tenth
    # less.
    return Source(text, None if abi is None else APART, quick=True)


def source_of(
    segment: Segment,
    kernels_text: Callable[[Mapping[str, Kernel], Target], Texts] | None,
    scratch_bytes: Callable[[Kernel], Size] | None,
    host: HostTarget,
    abi: TorchAbi | None,
    choices: Mapping[Kernel, CpuChoice] = _NO_CHOICES,
) -> Source:
    """The text of a segment, and the names of its functions. The text of kernels, and the bytes
    that their threads need, may be somebody else's."""
    _check_externs(segment, "cpu")
    target = Target(*host)
    kernels: dict[Kernel, KernelCode] = {}
    for step in segment.steps:
        if isinstance(step, Launch) and step.kernel not in kernels:
            name = f"{_NAME}.k{len(kernels)}"
            choice = choices.get(step.kernel, USUAL)
            kernels[step.kernel] = KernelCode(
                name,
                module.scratch_bytes(step.kernel, choice=choice)
                if scratch_bytes is None
                else scratch_bytes(step.kernel),
            )
    code = host_function(segment, _NAME, kernels, host_abi(abi))
    named = {own.name: kernel for kernel, own in kernels.items()}
    if kernels_text is None:
        texts = module.module_texts(named, target, choices)
    else:
        texts = kernels_text(named, target)
    text = join_module([texts.beside, code.text])
    # Where most of the work is apart, this module only calls it.
    quick = bool(texts.apart)
    return Source(text, code.entry, code.run, code.reasons, texts.apart, quick)


def gpu_source_of(
    segment: Segment,
    rules: Mapping[Kernel, tuple[Sequence[LaunchRule], Counts]],
    abi: HostAbi,
) -> Source:
    """The same where kernels are on a GPU already: what starts them. `rules`: by kernel, in the
    order of the table that the code is given."""
    _check_externs(segment, abi.device)
    kernels: dict[Kernel, KernelCode] = {}
    launches: list[str] = []
    functions = 0
    for number, (kernel, (own, counts)) in enumerate(rules.items()):
        name = f"{_NAME}.k{number}"
        kernels[kernel] = KernelCode(name, failures=failures(own[0].name))
        launches.append(launch_function(name, own, counts, functions, number))
        functions += len(own)
    code = host_function(segment, _NAME, kernels, abi)
    branch = [BRANCH] if abi.branches else []
    text = join_module([DECLARATIONS, *branch, *launches, code.text])
    return Source(text, code.entry, code.run, code.reasons, quick=True)


def _check_externs(segment: Segment, device: str) -> None:
    """Whether this torch has the C functions that we know."""
    rows = {step.function: row_of(step) for step in segment.steps if isinstance(step, Extern)}
    for _, row in sorted(rows.items()):
        symbol = row.symbol(device)
        if c_signature(symbol) != row.signature or find_symbol(symbol) is None:
            raise HostUnsupported(f"{symbol} of this torch is not the one that we know")


def host_abi(found: TorchAbi | None, gpu: int | None = None, *, branches: bool = False) -> HostAbi:
    """How torch and Python are made here, as far as that is known. `gpu`: the number of the one
    that tensors are on."""
    own = (
        HostAbi(None, 0, dict(dtype_codes()), WRAP)
        if found is None
        else HostAbi(found.tensor_offset, found.type_offset, dict(found.dtypes), WRAP)
    )
    if gpu is None:
        return own
    return replace(
        own,
        device="cuda",
        device_type=_CUDA,
        device_index=gpu,
        is_launched=True,
        branches=branches,
        products=True,
    )
