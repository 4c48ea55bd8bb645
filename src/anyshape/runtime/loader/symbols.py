"""The C functions that native code calls: their addresses, and what torch's take, by the header
that torch is installed with.

A row of our table that this torch does not agree with would call a function with the wrong
arguments. So it is looked up before code is built; torch comes with its headers.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import torch

from anyshape.runtime.loader.errors import NativeUnavailable


@functools.cache
def libtorch_cpu() -> ctypes.CDLL:
    return ctypes.CDLL(_library("libtorch_cpu.so"))


@functools.cache
def libtorch_cuda() -> ctypes.CDLL:
    return ctypes.CDLL(_library("libtorch_cuda.so"))


@functools.cache
def libtorch_python() -> ctypes.PyDLL:
    return ctypes.PyDLL(_library("libtorch_python.so"))


def _library(name: str) -> str:
    """The file of a library that torch has loaded: beside torch, or where it was mapped from."""
    beside = Path(torch.__file__).parent / "lib" / name
    if beside.exists():
        return str(beside)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(f"/{name}"):
            return line.split(maxsplit=5)[-1]
    raise NativeUnavailable(f"{name} is not among the libraries that torch has loaded")


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@functools.cache
def _arithmetic() -> list[ctypes.CDLL]:
    """Where compilers put what has no instruction: `fmaf`, `__truncsfhf2`."""
    found: list[ctypes.CDLL] = []
    for name in ("libm.so.6", "libgcc_s.so.1"):
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return found


#: Threads that torch would use here. at::get_num_threads also sets up a thread that torch has not
#: seen yet, whose OpenMP would otherwise not know what `torch.set_num_threads` said.
_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "anyshape_num_threads": ("_ZN2at15get_num_threadsEv", "omp_get_max_threads"),
}

#: By the beginning of a name: where to look. libtorch_cpu also answers for the OpenMP library that
#: it is linked with, be it GNU's or Intel's: the one whose threads torch's own loops use.
_HOMES: Final[tuple[tuple[tuple[str, ...], Callable[[], list[ctypes.CDLL]]], ...]] = (
    (("aoti_torch_cuda_", "aoti_torch_get_current_cuda_"), lambda: [libtorch_cuda()]),
    (("aoti_torch_", "torch_", "_ZN2at", "GOMP_", "omp_"), lambda: [libtorch_cpu()]),
    (("_Z16THPVariable", "THP"), lambda: [libtorch_python()]),
    (("Py", "_Py"), lambda: [ctypes.pythonapi]),
    (("",), lambda: [_process(), *_arithmetic()]),
)


@functools.cache
def find_symbol(name: str) -> int | None:
    """The address of a C function or variable that this process has, or None."""
    for spelling in _SPELLINGS.get(name, (name,)):
        homes = next(home for starts, home in _HOMES if spelling.startswith(starts))
        for library in homes():
            try:
                found = ctypes.c_char.in_dll(library, spelling)
            except ValueError:
                continue
            return ctypes.addressof(found)
    return None


def address_of(name: str) -> int:
    found = find_symbol(name)
    if found is None:
        raise NativeUnavailable(f"no library of this process has `{name}`")
    return found


#: by device
_HEADER: Final = "include/torch/csrc/inductor/aoti_torch/generated/c_shim_{}.h"

#: As the table of C functions writes them: `codegen/host/externs.py`. A length comes with its list.
_LETTERS: Final = {
    "AtenTensorHandle": "T",
    "AtenTensorHandle*": "t",
    "int64_t": "i",
    "int64_t*": "j",
    "double": "f",
    "double*": "g",
    "int32_t": "b",
    "int32_t*": "c",
    "const char*": "s",
    "const int64_t*": "I",
    "const int64_t**": "J",
    "const int32_t*": "B",
}


def c_signature(symbol: str) -> tuple[str, str] | None:
    """A letter for each parameter and for each thing that it gives by address (`?` for kinds that
    we do not know); None if the header does not have it."""
    device = symbol.removeprefix("aoti_torch_").partition("_")[0]
    found = re.search(rf"\b{re.escape(symbol)}\((.*?)\);", _header(device))
    if found is None:
        return None
    letters, results = "", ""
    for parameter in found[1].split(", "):
        kind, name = parameter.rsplit(" ", 1)
        if re.fullmatch(r"ret\d+", name):
            results += _LETTERS.get(kind.removesuffix("*"), "?")
        elif not name.endswith("_len_"):
            letters += _LETTERS.get(kind, "?")
    return letters, results


@functools.cache
def _header(device: str) -> str:
    try:
        return (Path(torch.__file__).parent / _HEADER.format(device)).read_text()
    except OSError:
        return ""
