"""A segment becomes a function: its kernels and its host function in one module, built or found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from anyshape.codegen.host import (
    APART,
    HostAbi,
    HostUnsupported,
    KernelCode,
    helpers_module,
    host_function,
    join_module,
)
from anyshape.codegen.host.externs import EXTERNS
from anyshape.codegen.llvm import launch_functions
from anyshape.codegen.target import Target
from anyshape.codegen.texts import Texts
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Extern, Launch, Segment
from anyshape.runtime.native.build import (
    Loaded,
    Source,
    disk_cache,
    found_or_built,
    identity,
    load,
)
from anyshape.runtime.native.c_signatures import c_signature
from anyshape.runtime.native.disk_cache import key_of
from anyshape.runtime.native.host_target import HostTarget, host_target
from anyshape.runtime.native.load import plain_function, python_function
from anyshape.runtime.native.shelf import contents_stamp
from anyshape.runtime.native.source_stamp import source_stamp
from anyshape.runtime.native.symbols import find_symbol
from anyshape.runtime.native.torch_abi import WRAP, dtype_codes, torch_abi
from anyshape.symbolic import Size

_NAME: Final = "anyshape_segment"

#: What makes text of a segment.
_SOURCES: Final = ("codegen", "loops", "symbolic", "native.py")

#: And what calls it, since others may have made it.
_ALL_SOURCES: Final = (*_SOURCES, "runtime")

#: the text of kernels by name, and of all that they need beside them
KernelsText = Callable[[Mapping[str, Kernel], Target], Texts]


def native_function(
    segment: Segment,
    kernels_text: KernelsText,
    scratch_bytes: Callable[[Kernel], Size],
    *,
    key: str | None = None,
    keep: Callable[[str], None] | None = None,
) -> Callable[..., Any]:
    """What runs the segment: called with its tensors, integers and floats, gives its outputs.

    `key`: all that the text depends on besides our own sources, if that is less work than the text;
    the code is then found without making it. Ranges of symbols belong to it. `keep` is given the
    text if it was made.
    """
    cache = disk_cache()
    host = host_target(cache)
    abi = host_abi()
    made: list[Source] = []

    def source() -> Source:
        if not made:
            made.append(source_of(segment, kernels_text, scratch_bytes, host, abi))
            if keep is not None:
                keep(_whole_text(made[0]))
        return made[0]

    helpers = _helpers_text(abi)
    # The helpers are another module: code that was made for others would call them wrongly.
    parts = (
        (helpers, source().text, *source().apart)
        if key is None
        else (helpers, key, source_stamp(*_SOURCES))
    )

    def on_shelves() -> str:
        return (
            key_of(*parts) if key is None else key_of(helpers, key, contents_stamp(*_ALL_SOURCES))
        )

    built = found_or_built(key_of(*parts), source, host, cache, on_shelves)
    return python_function(built, segment, _helpers(host, helpers))


def segment_source(
    segment: Segment, kernels_text: KernelsText, scratch_bytes: Callable[[Kernel], Size]
) -> str:
    """The text of a segment's modules, to be looked at."""
    host = host_target(disk_cache())
    return _whole_text(source_of(segment, kernels_text, scratch_bytes, host, host_abi()))


def _whole_text(source: Source) -> str:
    return "\n\n".join([*source.apart, source.text])


def apart_function() -> Callable[..., bool] | None:
    """`apart(n, *tensors)`: True where the first n tensors are contiguous and share no memory with
    each other or the rest. None where torch's memory is not known."""
    abi = host_abi()
    if abi.tensor_offset is None:
        return None
    return plain_function(APART, _helpers(host_target(disk_cache()), _helpers_text(abi)))


def _helpers_text(abi: HostAbi) -> str:
    return join_module([helpers_module(abi), launch_functions()])


@functools.cache
def _helpers(host: HostTarget, text: str) -> Loaded:
    return load(found_or_built(text, lambda: Source(text), host, disk_cache()))


def source_of(
    segment: Segment,
    kernels_text: KernelsText,
    scratch_bytes: Callable[[Kernel], Size],
    host: HostTarget,
    abi: HostAbi,
) -> Source:
    _check_externs(segment)
    target = Target(*host)
    kernels: dict[Kernel, KernelCode] = {}
    for step in segment.steps:
        if isinstance(step, Launch) and step.kernel not in kernels:
            name = f"{_NAME}.k{len(kernels)}"
            kernels[step.kernel] = KernelCode(name, scratch_bytes(step.kernel))
    code = host_function(segment, _NAME, kernels, abi)
    named = {own.name: kernel for kernel, own in kernels.items()}
    texts = kernels_text(named, target)
    text = join_module([texts.beside, code.text])
    return Source(text, code.entry, code.run, code.reasons, texts.apart)


def _check_externs(segment: Segment) -> None:
    """Whether this torch has the C functions that we know."""
    for name in sorted({step.function for step in segment.steps if isinstance(step, Extern)}):
        row = EXTERNS.get(name)
        if row is None:
            raise HostUnsupported(f"there is no C function {name}")
        if c_signature(row.symbol) != row.signature or find_symbol(row.symbol) is None:
            raise HostUnsupported(f"{row.symbol} of this torch is not the one that we know")


def native_identity() -> dict[str, str]:
    """What native code that is made here is for, and made by; `NativeUnavailable` if there is
    none."""
    made_by = contents_stamp(*_ALL_SOURCES)
    return {**identity(host_target(disk_cache())), "anyshape": made_by}


def host_abi() -> HostAbi:
    """How torch and Python are made here, as far as that is known."""
    found = torch_abi()
    if found is None:
        return HostAbi(None, 0, dict(dtype_codes()), WRAP)
    return HostAbi(found.tensor_offset, found.type_offset, dict(found.dtypes), WRAP)
