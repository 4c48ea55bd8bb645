"""Linked machine code: as data, and loaded into this process."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import Final

from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.symbols import find_symbol
from anyshape.support.lazy_dataclass import dataclass

_READ_AND_EXECUTE: Final = mmap.PROT_READ | mmap.PROT_EXEC
_OURS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@dataclass(frozen=True, slots=True)
class Image:
    code: bytes
    #: (outer symbol, where its address goes)
    slots: tuple[tuple[str, int], ...]
    #: words that are relative to the start of the image
    rebased: tuple[int, ...]
    #: (function, where it begins)
    exports: tuple[tuple[str, int], ...]


class LoadedImage:
    """An image in memory, executable and no longer writable. Functions live as long as this."""

    def __init__(self, image: Image, resolve: Callable[[str], int]) -> None:
        addresses = [(place, resolve(name)) for name, place in image.slots]
        try:
            self._memory = mmap.mmap(-1, max(len(image.code), 1), flags=_OURS)
        except (OSError, ValueError) as error:
            raise NativeUnavailable(f"no memory for code: {error}") from error
        # The view keeps the memory from being closed while this object lives.
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        base = ctypes.addressof(self._view)
        self._memory[: len(image.code)] = image.code
        for place, address in addresses:
            struct.pack_into("<Q", self._memory, place, address)
        for place in image.rebased:
            (offset,) = struct.unpack_from("<Q", self._memory, place)
            struct.pack_into("<Q", self._memory, place, base + offset)
        _clear_cache(base, len(self._memory))
        if _mprotect(base, len(self._memory), _READ_AND_EXECUTE):
            raise NativeUnavailable("this system lets no memory become code")
        self._exports = {name: base + place for name, place in image.exports}

    def address(self, name: str) -> int | None:
        return self._exports.get(name)


def _clear_cache(start: int, size: int) -> None:
    """Make a processor that keeps instructions apart from data (aarch64) read what was written."""
    function = find_symbol("__clear_cache")
    if function is not None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(function)(start, start + size)


def _mprotect(address: int, size: int, protection: int) -> int:
    function = ctypes.CDLL(None).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function(address, size, protection)
