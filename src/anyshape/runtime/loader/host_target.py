"""What LLVM calls the machine that we run on, and what of it native code may use.

LLVM knows; but to ask it takes longer than to load code. So its answer is kept on disk, under what
the system says of the processor. `config.cpu_features` is a cap on top of that: what the processor
has of a fixed list, so that all processors that have the whole list are one target, with the same
keys on disk.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from anyshape.config import config
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


class Cap(NamedTuple):
    """Instructions that many processors have."""

    #: whose instructions every processor of the architecture has, and LLVM's tuning for none
    cpu: str
    features: tuple[str, ...]


#: x86-64-v3, which all but small processors have since 2015.
_AVX2: Final = (
    *("64bit", "avx", "avx2", "bmi", "bmi2", "cmov", "crc32", "cx16", "cx8", "f16c", "fma", "fxsr"),
    *("lzcnt", "mmx", "movbe", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2"),
    *("ssse3", "xsave"),
)
#: x86-64-v4
_AVX512: Final = (*_AVX2, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

#: by architecture and `config.cpu_features`
_CAPS: Final = {
    "x86_64": {
        "baseline": Cap("x86-64", _AVX2),
        "avx2": Cap("x86-64", _AVX2),
        "avx512": Cap("x86-64", _AVX512),
    },
    # armv8-a: no SVE, products of bytes, nor arithmetic of halves
    "aarch64": {
        "baseline": Cap("generic", ("fp-armv8", "neon")),
        "neon": Cap("generic", ("fp-armv8", "neon")),
    },
}


def host_target(cache: DiskCache) -> HostTarget:
    """What native code is made for: this machine, or the part of it that the settings allow."""
    return capped(_whole_machine(cache), config.cpu_features)


def capped(target: HostTarget, features: str) -> HostTarget:
    """The target with no features but those of the cap that it has."""
    cap = _CAPS.get(target.triple.split("-")[0], {}).get(features)
    if cap is None:
        return target
    has = target.features.split(",")
    kept = ",".join(f"+{each}" for each in cap.features if f"+{each}" in has)
    return HostTarget(target.triple, cap.cpu, kept, target.lanes)


def _whole_machine(cache: DiskCache) -> HostTarget:
    key = key_of("host target", llvmlite_version(), _processor())
    found = cache.read(key)
    if found is not None:
        triple, cpu, features, lanes = json.loads(found)
        return HostTarget(triple, cpu, features, lanes)
    target = detected()
    cache.write(key, json.dumps(target).encode())
    return target


def detected() -> HostTarget:
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
