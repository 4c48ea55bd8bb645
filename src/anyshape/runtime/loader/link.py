"""An object file becomes an image: bytes that run wherever they lie.

Done once, when code is built; the image is what the disk keeps. To load it is to copy it, write the
addresses of C functions into its table and make it executable: no linker, no LLVM.

Only what LLVM makes of our text for x86-64 and aarch64 is known here (`relocations.py`), and
anything else is refused (`CannotLink`): such code is loaded by LLVM's own linker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from anyshape.runtime.loader.elf import (
    ALLOCATE,
    FIRST_RESERVED,
    NO_BITS,
    THREAD_LOCAL,
    UNDEFINED,
    WRITE,
    ObjectFile,
    Relocation,
    joined_objects,
    read_object,
)
from anyshape.runtime.loader.image import Image
from anyshape.runtime.loader.relocations import MACHINES, CannotLink, Refers, Row

#: Sections that code does not read: for debuggers and for unwinding. Nothing unwinds through our
#: functions: what they call reports errors by its result.
_UNREAD: Final = (".eh_frame", ".note", ".comment", ".debug", ".llvm")


def link_image(*objects: bytes) -> Image:
    """Of one object file or several that need each other."""
    return _Linker(joined_objects([read_object(data) for data in objects])).linked()


class _Linker:
    def __init__(self, source: ObjectFile) -> None:
        machine = MACHINES.get(source.machine)
        if machine is None:
            raise CannotLink(f"machine {source.machine}")
        self._machine = machine
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
            tuple(sorted(set(self._exports()))),
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
            # Loops run faster by some percent where code begins with a line of the cache.
            self._align(max(section.alignment, 64))
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
            refers = self._row(item).refers
            if symbol.section == UNDEFINED:
                outer.add(symbol.name)
                if refers is Refers.FUNCTION:
                    called.add(symbol.name)
            elif refers is Refers.SLOT:
                inner.add(item.symbol)
        for name in sorted(outer):
            self._slots[name] = self._word(0)
        for number in sorted(inner):
            place = self._word(self._address(number))
            self._inner_slots[number] = place
            self._rebased.append(place)
        for name in sorted(called):
            place = self._stubs[name] = len(self._bytes)
            self._bytes += self._machine.stub(place, self._slots[name])

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

    def _row(self, item: Relocation) -> Row:
        found = self._machine.rows.get(item.kind)
        if found is None:
            name = self._object.symbols[item.symbol].name
            raise CannotLink(f"relocation {item.kind} of {name}")
        return found

    def _apply(self, item: Relocation) -> None:
        row = self._row(item)
        place = self._starts[item.section] + item.offset
        row.put(self._bytes, place, self._target(item, row.refers) + item.addend)
        if row.refers is Refers.ADDRESS:
            self._rebased.append(place)

    def _target(self, item: Relocation, refers: Refers) -> int:
        symbol = self._object.symbols[item.symbol]
        is_outer = symbol.section == UNDEFINED
        if refers is Refers.SLOT:
            if item.addend > 0:  # a slot for an address that lies within the symbol
                raise CannotLink(f"relocation {item.kind} of {symbol.name} + {item.addend}")
            return self._slots[symbol.name] if is_outer else self._inner_slots[item.symbol]
        if not is_outer:
            return self._address(item.symbol)
        if refers is Refers.FUNCTION:
            return self._stubs[symbol.name]
        # Our text has no outer variable that is not reached through its slot.
        raise CannotLink(f"relocation {item.kind} of {symbol.name}, which is outside")

    def _exports(self) -> Iterator[tuple[str, int]]:
        for number, symbol in enumerate(self._object.symbols):
            if symbol.binding and symbol.name and symbol.section in self._starts:
                yield symbol.name, self._address(number)
