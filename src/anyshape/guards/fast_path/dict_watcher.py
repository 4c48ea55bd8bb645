"""How often dictionaries have changed, counted by a dictionary watcher of CPython.

CPython up to 3.12 gives a dictionary a new version with every change. Later ones do not, but call a
function before every change of a dictionary that is watched (`PyDict_AddWatcher`, `PyDict_Watch`).
The function is a few instructions that add one to a word of a table, at a place that the address of
the dictionary says:

    address = watcher.count_of(dictionary)      the word at it changes before the dictionary does

It is no Python function: that could be interrupted by another thread between the count and the
change, and would run while exceptions are on their way. A change of a watched dictionary takes some
five nanoseconds longer.

Two dictionaries may share a word: then a change of one looks like a change of both. Code and table
are never given back, since dictionaries change until the very end of the interpreter.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

_WORD: Final = 8
#: how many words the table has, as a power of two
_BITS: Final = 17
#: odd, and the golden ratio in 64 bits: neighbours in memory are spread over the whole table
_FACTOR: Final = 0x9E3779B97F4A7C15
_ALL_BITS: Final = 2**64 - 1


def _for_aarch64(table: int, factor: int, shift: int) -> bytes:
    instructions = (
        0x58000142,  # ldr x2, table
        0x58000163,  # ldr x3, factor
        0x9B037C21,  # mul x1, x1, x3           the second argument is the dictionary
        0xD340FC21 | shift << 16,  # lsr x1, x1, shift
        0xF8617843,  # ldr x3, [x2, x1, lsl 3]
        0x91000463,  # add x3, x3, 1
        0xF8217843,  # str x3, [x2, x1, lsl 3]
        0x52800000,  # mov w0, 0                "no exception"
        0xD65F03C0,  # ret
        0xD503201F,  # nop, so that the numbers are aligned
    )
    return b"".join(each.to_bytes(4, "little") for each in instructions) + _words(table, factor)


def _for_x86_64(table: int, factor: int, shift: int) -> bytes:
    return b"".join(
        (
            b"\x48\xb8" + _words(factor),  # mov rax, factor
            b"\x48\x0f\xaf\xc6",  # imul rax, rsi       the second argument is the dictionary
            b"\x48\xc1\xe8" + bytes((shift,)),  # shr rax, shift
            b"\x48\xb9" + _words(table),  # mov rcx, table
            b"\x48\xff\x04\xc1",  # inc qword [rcx + rax * 8]
            b"\x31\xc0",  # xor eax, eax        "no exception"
            b"\xc3",  # ret
        )
    )


def _words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(_WORD, "little") for number in numbers)


#: The function as machine code, from the address of the table, a factor and a shift.
CODE: Final[Mapping[str, Callable[[int, int, int], bytes]]] = MappingProxyType(
    {"aarch64": _for_aarch64, "x86_64": _for_x86_64}
)


class Watcher:
    """Counts the changes of dictionaries: `count_of` begins with it."""

    def __init__(self, number: int, table: int, bits: int) -> None:
        self._number: Final = number
        self._table: Final = table
        self._shift: Final = 64 - bits

    def count_of(self, dictionary: object) -> int:
        """The address of a word that is another one after every change of the dictionary, which may
        be an instance of a subclass, from now on."""
        _api.PyDict_Watch(self._number, dictionary)
        return self._table + place_of(id(dictionary), self._shift) * _WORD


def place_of(address: int, shift: int) -> int:
    """The same arithmetic as in `CODE`."""
    return (address * _FACTOR & _ALL_BITS) >> shift


def new_watcher(bits: int = _BITS) -> Watcher | None:
    """None where there is no such thing: another machine, an interpreter whose handful of watchers
    are all taken, no memory that may be executed, or threads without a common lock."""
    code = CODE.get(os.uname().machine) if sys.platform == "linux" else None
    if code is None or "t" in sys.abiflags or not hasattr(_api, "PyDict_AddWatcher"):
        return None
    table = _pages(_WORD << bits)
    function = _executable(code(table, _FACTOR, 64 - bits)) if table else None
    if table is None or function is None:
        return None
    try:
        return Watcher(_api.PyDict_AddWatcher(function), table, bits)
    except RuntimeError:
        return None


def _python_api() -> ctypes.PyDLL:
    # Functions of our own, whose signatures no one else sets.
    api = ctypes.PyDLL(None, handle=ctypes.pythonapi._handle)
    if hasattr(api, "PyDict_AddWatcher"):
        api.PyDict_AddWatcher.argtypes = [ctypes.c_void_p]
        api.PyDict_Watch.argtypes = [ctypes.c_int, ctypes.py_object]
    return api


def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


_api: Final = _python_api()


def _pages(size: int) -> int | None:
    """Memory of zeros that nobody frees."""
    where = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    found = _c_library().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, where, -1, 0)
    return None if found in (None, _ALL_BITS) else found


def _executable(code: bytes) -> int | None:
    """Written first and made executable then: some systems allow no memory that is both, and with
    the change of rights the processor forgets what it knew of the page."""
    address = _pages(mmap.PAGESIZE)
    if address is None:
        return None
    ctypes.memmove(address, code, len(code))
    refused = _c_library().mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
    return None if refused else address
