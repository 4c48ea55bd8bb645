"""A segment becomes a function: its kernels and its host function in one module, built or found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Segment
from anyshape.runtime.loader.build import (
    Loaded,
    Source,
    code_name,
    disk_cache,
    found_or_begun,
    identity,
    load,
)
from anyshape.runtime.loader.code_bundle import open_bundle
from anyshape.runtime.loader.disk_cache import key_of
from anyshape.runtime.loader.host_target import HostTarget, host_target
from anyshape.runtime.loader.image import Built
from anyshape.runtime.loader.load import plain_function, python_function
from anyshape.runtime.loader.own_sources import sources_hash
from anyshape.runtime.loader.torch_abi import TorchAbi, torch_abi
from anyshape.symbolic import Size

if TYPE_CHECKING:
    from anyshape.codegen.llvm.choice import CpuChoice
    from anyshape.codegen.target import Target, Texts

#: What makes text of a segment, and what calls it, since others may have made it.
_SOURCES: Final = ("codegen", "loops", "symbolic", "backends/native", "runtime")

_NO_CHOICES: Final[Mapping[Kernel, CpuChoice]] = {}

#: the text of kernels by name, and of all that they need beside them
KernelsText = Callable[[Mapping[str, Kernel], "Target"], "Texts"]


def native_function(
    segment: Segment,
    kernels_text: KernelsText | None = None,
    scratch_bytes: Callable[[Kernel], Size] | None = None,
    *,
    key: str | None = None,
    keep: Callable[[str], None] | None = None,
    choices: Mapping[Kernel, CpuChoice] = _NO_CHOICES,
) -> Callable[..., Any]:
    """What runs the segment: called with its tensors, integers and floats, gives its outputs."""
    made = native_function_later(
        segment, kernels_text, scratch_bytes, key=key, keep=keep, choices=choices
    )
    return made.result() if isinstance(made, DeferredCode) else made


class DeferredCode:
    """A function whose code threads still make."""

    __slots__ = ("_function", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._function: Callable[..., Any] | None = None

    def result(self) -> Callable[..., Any]:
        """The function, once it is there; or what kept it from being made, as an exception."""
        if self._function is None:
            self._function = self._make()
        return self._function


def native_function_later(
    segment: Segment,
    kernels_text: KernelsText | None = None,
    scratch_bytes: Callable[[Kernel], Size] | None = None,
    *,
    key: str | None = None,
    keep: Callable[[str], None] | None = None,
    choices: Mapping[Kernel, CpuChoice] = _NO_CHOICES,
) -> Callable[..., Any] | DeferredCode:
    """What runs the segment, now or later.

    `key`: all that the text depends on besides our own sources, if that is less work than the text;
    the code is then found without making it. Ranges of symbols and `choices` belong to it. `keep`
    is given the text if it was made. `choices`: of plans that are not the usual ones.
    """
    cache = disk_cache()
    host = host_target(cache)
    abi = torch_abi()
    made: list[Source] = []

    def source() -> Source:
        if not made:
            text = source_text()
            made.append(text.source_of(segment, kernels_text, scratch_bytes, host, abi, choices))
            if keep is not None:
                keep(_whole_text(made[0]))
        return made[0]

    # How torch is made decides on the helpers, another module, and on how they are called.
    parts = (repr(abi), *((source().text, *source().apart) if key is None else (key,)))
    built = found_or_begun(key_of_code(*parts), source, host, cache)
    helpers = host_helpers(host, abi).code
    if isinstance(built, Built):
        return python_function(built, segment, helpers)
    return DeferredCode(lambda: python_function(built.result(), segment, helpers))


def key_of_code(*parts: str) -> str:
    """Of what our own sources make of these texts."""
    return key_of(*parts, sources_hash(disk_cache(), *_SOURCES))


def segment_source(segment: Segment) -> str:
    """The text of a segment's modules, to be looked at."""
    host = host_target(disk_cache())
    return _whole_text(source_text().source_of(segment, None, None, host, torch_abi()))


def _whole_text(source: Source) -> str:
    return "\n\n".join([*source.apart, source.text])


def source_text() -> Any:
    """What writes text; code that is found on disk needs none of it."""
    from anyshape.backends.native import source

    return source


def no_alias_function() -> Callable[..., bool] | None:
    """`apart(n, *tensors)`: True where the first n tensors are contiguous and share no memory with
    each other or the rest. None where torch's memory is not known."""
    helpers = host_helpers(host_target(disk_cache()), torch_abi())
    return None if helpers.apart is None else plain_function(helpers.apart, helpers.code)


#: As `codegen/host/tensor_match.py` has it.
_ALIKE: Final = "anyshape_host_alike"


def tensor_match_function() -> Callable[..., bool] | None:
    """`alike(address of a table, *tensors)`: True where tensors are as the table says. None where
    torch's memory is not known."""
    helpers = host_helpers(host_target(disk_cache()), torch_abi())
    return None if helpers.apart is None else plain_function(_ALIKE, helpers.code)


class Helpers(NamedTuple):
    code: Loaded
    #: the name of a function of Python among them, which are there or not
    apart: str | None
    #: by what name and in what form a package takes them along
    packed: tuple[str, bytes]


def host_helpers(
    host: HostTarget,
    abi: TorchAbi | None,
    gpu: int | None = None,
    others: Loaded | None = None,
) -> Helpers:
    """What functions of segments call: those on the CPU, or on the GPU of this number, which find
    what is not torch's among `others`."""
    helpers = _host_helpers(host, abi, gpu, others)
    # Also where an earlier program of this process has loaded them: another process has to.
    bundle = open_bundle()
    if bundle is not None:
        name, data = helpers.packed
        bundle.used[name] = data
    return helpers


@functools.cache
def _host_helpers(
    host: HostTarget, abi: TorchAbi | None, gpu: int | None, others: Loaded | None
) -> Helpers:
    key = key_of_code("helpers", repr(abi), str(gpu))
    found = found_or_begun(key, lambda: source_text().helpers_source(abi, gpu), host, disk_cache())
    built = found if isinstance(found, Built) else found.result()
    return Helpers(load(built, others), built.entry, (code_name(key, host), built.to_bytes()))


def native_identity() -> dict[str, str]:
    """What native code that is made here is for, and made by; `NativeUnavailable` if there is
    none."""
    cache = disk_cache()
    return {**identity(host_target(cache)), "anyshape": sources_hash(cache, *_SOURCES)}
