"""Machine code: linked, as data; loaded into this process, by us or by LLVM; as bytes on disk.

LLVM loads it on machines whose relocations we do not know, and as the judge of our own linker.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import mmap
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from anyshape.runtime.loader.elf import UNDEFINED, joined_objects, read_object
from anyshape.runtime.loader.engine import llvm
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.symbols import find_symbol
from anyshape.support.lazy_dataclass import asdict, dataclass

_READ_AND_EXECUTE: Final = mmap.PROT_READ | mmap.PROT_EXEC
_OURS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@dataclass(frozen=True, slots=True)
class Image:
    code: bytes
    #: (outer symbol, where its address goes)
    slots: tuple[tuple[str, int], ...] = ()
    #: words that are relative to the start of the image
    rebased: tuple[int, ...] = ()
    #: (function, where it begins)
    exports: tuple[tuple[str, int], ...] = ()


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


_NUMBERS: Final = itertools.count()


class LoadedByLlvm:
    """Objects in memory, which may need each other. Functions live as long as this."""

    def __init__(self, objects: Sequence[bytes], resolve: Callable[[str], int]) -> None:
        binding = llvm()
        self._jit: Any = binding.create_lljit_compiler(use_jit_link=False)
        library = binding.JITLibraryBuilder()
        for data in objects:
            library.add_object_img(data)
        names: dict[str, None] = {}
        outer: dict[str, None] = {}
        for symbol in joined_objects([read_object(data) for data in objects]).symbols:
            if symbol.section == UNDEFINED and symbol.name:
                outer[symbol.name] = None
            elif symbol.binding and symbol.name:
                names[symbol.name] = None
        for name in outer:
            library.import_symbol(name, resolve(name))
        for name in names:
            library.export_symbol(name)
        self._tracker = library.link(self._jit, f"anyshape{next(_NUMBERS)}")
        self._exports = {name: self._tracker[name] for name in names}

    def address(self, name: str) -> int | None:
        return self._exports.get(name)


@dataclass(frozen=True, slots=True)
class Built:
    """The code of a segment, and its functions in it: linked by us, or, where objects have `ends`,
    for LLVM to link, several one after the other. The disk cache keeps it as a line of JSON and
    then machine code."""

    entry: str | None
    run: str | None
    reasons: tuple[str, ...]
    image: Image
    #: where each object ends
    ends: tuple[int, ...] = ()

    def load(self, resolve: Callable[[str], int]) -> LoadedImage | LoadedByLlvm:
        """Put the code into memory."""
        if not self.ends:
            return LoadedImage(self.image, resolve)
        code = self.image.code
        return LoadedByLlvm([code[a:b] for a, b in pairwise((0, *self.ends))], resolve)

    def to_bytes(self) -> bytes:
        fields = {**asdict(self), **asdict(self.image), "kind": "object" if self.ends else "image"}
        del fields["image"], fields["code"]
        return json.dumps(fields).encode() + b"\n" + self.image.code


def from_bytes(data: bytes) -> Built:
    head, _, code = data.partition(b"\n")
    fields = json.loads(head)
    image = Image(
        code,
        slots=tuple((name, place) for name, place in fields["slots"]),
        rebased=tuple(fields["rebased"]),
        exports=tuple((name, place) for name, place in fields["exports"]),
    )
    reasons, ends = tuple(fields["reasons"]), tuple(fields["ends"])
    return Built(fields["entry"], fields["run"], reasons, image, ends)
