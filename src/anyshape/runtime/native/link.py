"""An object file becomes an image: bytes that run wherever they lie.

Done once, when code is built; the image is what the disk keeps. To load it is to copy it, write the
addresses of C functions into its table and make it executable: no linker, no LLVM.

Only what LLVM makes of our text for x86-64 is known here, and anything else is refused
(`CannotLink`): such code is loaded by LLVM's own linker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from anyshape.runtime.native.elf import (
    ALLOCATE,
    FIRST_RESERVED,
    NO_BITS,
    THREAD_LOCAL,
    UNDEFINED,
    WRITE,
    X86_64,
    NotAnObject,
    ObjectFile,
    Relocation,
    read_object,
)
from anyshape.runtime.native.image import Image

# Relocations of x86-64. S: the symbol, A: addend, P: the place, G: the symbol's slot in the table.
_ABSOLUTE_64: Final = 1  # S + A, eight bytes
_RELATIVE_32: Final = 2  # S + A - P
_CALL_32: Final = 4  # the same, or a stub that jumps to S
_SLOT_32: Final = (9, 41, 42)  # G + A - P
_RELATIVE_64: Final = 24  # S + A - P, eight bytes

#: `jmp *slot(%rip)`, and two bytes so that stubs are eight apart.
_STUB: Final = b"\xff\x25"


class CannotLink(NotAnObject):
    """The object has something that this linker does not know."""


#: Sections that code does not read: for debuggers and for unwinding. Nothing unwinds through our
#: functions: what they call reports errors by its result.
_UNREAD: Final = (".eh_frame", ".note", ".comment", ".debug", ".llvm")


def link_image(data: bytes) -> Image:
    return _Linker(read_object(data)).linked()


class _Linker:
    def __init__(self, source: ObjectFile) -> None:
        if source.machine != X86_64:
            raise CannotLink(f"machine {source.machine}")
        self._object = source
        self._bytes = bytearray()
        self._starts: dict[int, int] = {}
        self._slots: dict[str, int] = {}
        self._inner_slots: dict[int, int] = {}
        self._stubs: dict[str, int] = {}
        self._rebased: list[int] = []

    def linked(self) -> Image:
        self._lay_out()
        needed = [item for item in self._object.relocations if item.section in self._starts]
        self._make_table(needed)
        for item in needed:
            self._apply(item)
        return Image(
            bytes(self._bytes),
            tuple(sorted(self._slots.items())),
            tuple(sorted(self._rebased)),
            tuple(sorted(self._exports())),
        )

    def _lay_out(self) -> None:
        """Sections one after the other, each at its alignment."""
        for number, section in enumerate(self._object.sections):
            if not section.flags & ALLOCATE or section.name.startswith(_UNREAD):
                continue
            if not section.size:
                continue
            if section.flags & (WRITE | THREAD_LOCAL) and not section.name.startswith(
                ".data.rel.ro"
            ):
                raise CannotLink(f"section {section.name} is written to")
            if section.kind == NO_BITS or section.alignment > 4096:
                raise CannotLink(f"section {section.name}")
            self._align(max(section.alignment, 16))
            self._starts[number] = len(self._bytes)
            self._bytes += section.data

    def _align(self, alignment: int) -> None:
        self._bytes += bytes(-len(self._bytes) % alignment)

    def _make_table(self, needed: list[Relocation]) -> None:
        """A slot for the address of each outer symbol, and a stub to jump through it."""
        self._align(64)
        outer: set[str] = set()
        called: set[str] = set()
        inner: set[int] = set()
        for item in needed:
            symbol = self._object.symbols[item.symbol]
            if symbol.section == UNDEFINED:
                outer.add(symbol.name)
                if item.kind in (_RELATIVE_32, _CALL_32):
                    called.add(symbol.name)
            elif item.kind in _SLOT_32:
                inner.add(item.symbol)
        for name in sorted(outer):
            self._slots[name] = self._word(0)
        for number in sorted(inner):
            place = self._word(self._address(number))
            self._inner_slots[number] = place
            self._rebased.append(place)
        for name in sorted(called):
            place = self._stubs[name] = len(self._bytes)
            self._bytes += _STUB + struct.pack("<i", self._slots[name] - (place + 6)) + b"\x90\x90"

    def _word(self, value: int) -> int:
        place = len(self._bytes)
        self._bytes += struct.pack("<Q", value)
        return place

    def _address(self, number: int) -> int:
        """Of a symbol of ours, from the start of the image."""
        symbol = self._object.symbols[number]
        if symbol.section >= FIRST_RESERVED or symbol.section not in self._starts:
            raise CannotLink(f"symbol {symbol.name or number} is in no section that is kept")
        return self._starts[symbol.section] + symbol.value

    def _apply(self, item: Relocation) -> None:
        place = self._starts[item.section] + item.offset
        symbol = self._object.symbols[item.symbol]
        is_outer = symbol.section == UNDEFINED
        if item.kind in (_RELATIVE_32, _CALL_32):
            # A relative reference to an outer symbol can only be a call or jump: our text has no
            # outer variable that is not reached through its slot.
            if is_outer and item.kind == _RELATIVE_32:
                raise CannotLink(f"relative reference to {symbol.name}")
            target = self._stubs[symbol.name] if is_outer else self._address(item.symbol)
            self._write("<i", place, target + item.addend - place)
        elif item.kind in _SLOT_32:
            slot = self._slots[symbol.name] if is_outer else self._inner_slots[item.symbol]
            self._write("<i", place, slot + item.addend - place)
        elif item.kind == _RELATIVE_64 and not is_outer:
            self._write("<q", place, self._address(item.symbol) + item.addend - place)
        elif item.kind == _ABSOLUTE_64 and not is_outer:
            self._write("<Q", place, self._address(item.symbol) + item.addend)
            self._rebased.append(place)
        else:
            raise CannotLink(f"relocation {item.kind} of {symbol.name}")

    def _write(self, form: str, place: int, value: int) -> None:
        try:
            struct.pack_into(form, self._bytes, place, value)
        except struct.error as error:
            raise CannotLink(f"{value} does not fit at {place}") from error

    def _exports(self) -> Iterator[tuple[str, int]]:
        for number, symbol in enumerate(self._object.symbols):
            if symbol.binding and symbol.name and symbol.section in self._starts:
                yield symbol.name, self._address(number)
