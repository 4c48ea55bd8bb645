"""What LLVM calls the machine that we run on.

LLVM knows; but to ask it takes longer than to load code. So its answer is kept on disk, under what
the system says of the processor.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from anyshape.runtime.loader.disk_cache import DiskCache, key_of
from anyshape.runtime.loader.engine import llvm
from anyshape.runtime.loader.errors import NativeUnavailable

#: A vector of this many f32; LLVM splits it where registers are narrower.
_LANES: Final = 16


class HostTarget(NamedTuple):
    triple: str
    cpu: str
    features: str
    lanes: int


def host_target(cache: DiskCache) -> HostTarget:
    key = key_of("host target", llvmlite_version(), _processor())
    found = cache.read(key)
    if found is not None:
        triple, cpu, features, lanes = json.loads(found)
        return HostTarget(triple, cpu, features, lanes)
    target = _asked()
    cache.write(key, json.dumps(target).encode())
    return target


def _asked() -> HostTarget:
    binding = llvm()
    return HostTarget(
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        _LANES,
    )


@functools.cache
def llvmlite_version() -> str:
    """Without importing it."""
    try:
        return importlib.metadata.version("llvmlite")
    except importlib.metadata.PackageNotFoundError as error:
        raise NativeUnavailable("llvmlite is needed to make native code") from error


def _processor() -> str:
    """What tells processors apart: the kernel's lines on the first one, less what changes as it
    runs."""
    text = " ".join(os.uname()[3:])  # the version of the kernel, and the machine
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            lines = file.read(8192).decode(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return text
    moving = ("cpu MHz", "bogomips", "BogoMIPS", "processor", "core id", "apicid", "initial apicid")
    return "\n".join([text, *(line for line in lines if not line.startswith(moving))])
