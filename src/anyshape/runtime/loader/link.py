"""An object file becomes an image: bytes that run wherever they lie.

Done once, when code is built; the image is what the disk keeps. To load it is to copy it, write the
addresses of C functions into its table and make it executable: no linker, no LLVM.

Only the relocations are known here that LLVM makes of our text for x86-64 and aarch64: one row for
each kind, by machine. Anything else is refused (`CannotLink`): such code is loaded by LLVM's own
linker. A row says what is referred to (the symbol itself, a function to be called, or the slot that
holds the symbol's address) and how the place is changed. Places and targets are offsets from the
start of the image, which lies at the start of a page: a difference of two, and the last twelve bits
of one, are the same wherever that is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from anyshape.runtime.loader.elf import (
    AARCH64,
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
    joined_objects,
    read_object,
)
from anyshape.runtime.loader.image import Image


class CannotLink(NotAnObject):
    """The object has something that this linker does not know."""


class Refers(Enum):
    """What a relocation refers to."""

    #: the symbol, which has to be one of the image
    SYMBOL = auto()
    #: the same, and its whole address, which is known when the image is loaded
    ADDRESS = auto()
    #: the symbol or, for one outside of the image, a stub that jumps there
    FUNCTION = auto()
    #: the word that holds the address of the symbol
    SLOT = auto()


#: Changes bytes at a place so that they refer to a target.
Put = Callable[[bytearray, int, int], None]


class Row(NamedTuple):
    refers: Refers
    put: Put


class Machine(NamedTuple):
    rows: Mapping[int, Row]
    #: code that lies at a place and jumps to the address in a slot
    stub: Callable[[int, int], bytes]


def _number(form: str, *, relative: bool) -> Put:
    def put(code: bytearray, place: int, target: int) -> None:
        try:
            struct.pack_into(form, code, place, target - place if relative else target)
        except struct.error as error:
            raise CannotLink(f"{target} is out of reach of {place}") from error

    return put


# x86-64


def _x86_64_stub(place: int, slot: int) -> bytes:
    """`jmp *slot(%rip)`, and two bytes so that stubs are eight apart."""
    return b"\xff\x25" + struct.pack("<i", slot - (place + 6)) + b"\x90\x90"


_RELATIVE_32: Final = _number("<i", relative=True)
_RELATIVE_64: Final = _number("<q", relative=True)
_ABSOLUTE_64: Final = _number("<Q", relative=False)

_X86_64: Final = {
    1: Row(Refers.ADDRESS, _ABSOLUTE_64),  # R_X86_64_64
    2: Row(Refers.SYMBOL, _RELATIVE_32),  # PC32
    4: Row(Refers.FUNCTION, _RELATIVE_32),  # PLT32
    9: Row(Refers.SLOT, _RELATIVE_32),  # GOTPCREL
    24: Row(Refers.SYMBOL, _RELATIVE_64),  # PC64
    41: Row(Refers.SLOT, _RELATIVE_32),  # GOTPCRELX
    42: Row(Refers.SLOT, _RELATIVE_32),  # REX_GOTPCRELX
}


# aarch64: numbers are fields of an instruction of four bytes.

_PAGE: Final = 4096


def _into(code: bytearray, place: int, value: int, bits: int, shift: int) -> None:
    """Write the low bits of a number over a field of the instruction at the place."""
    (instruction,) = struct.unpack_from("<I", code, place)
    mask = (1 << bits) - 1
    instruction = instruction & ~(mask << shift) | (value & mask) << shift
    struct.pack_into("<I", code, place, instruction)


def _within(value: int, bits: int, place: int) -> int:
    if not -1 << (bits - 1) <= value < 1 << (bits - 1):
        raise CannotLink(f"{value} is out of reach of {place}")
    return value


def _units(value: int, size: int, place: int) -> int:
    if value % size:
        raise CannotLink(f"{value} is not aligned to {size} at {place}")
    return value // size


def _branch(bits: int, shift: int) -> Put:
    """A distance in instructions."""

    def put(code: bytearray, place: int, target: int) -> None:
        distance = _units(target - place, 4, place)
        _into(code, place, _within(distance, bits, place), bits, shift)

    return put


def _low_bits(size: int) -> Put:
    """The last twelve bits of an address, for an access of so many bytes."""

    def put(code: bytearray, place: int, target: int) -> None:
        _into(code, place, _units(target % _PAGE, size, place), 12, 10)

    return put


def _adr(code: bytearray, place: int, distance: int) -> None:
    """The 21 bits of `adr` and `adrp` are in two fields."""
    _within(distance, 21, place)
    _into(code, place, distance, 2, 29)
    _into(code, place, distance >> 2, 19, 5)


def _near(code: bytearray, place: int, target: int) -> None:
    _adr(code, place, target - place)


def _page(code: bytearray, place: int, target: int) -> None:
    _adr(code, place, target // _PAGE - place // _PAGE)


def _aarch64_stub(place: int, slot: int) -> bytes:
    """`adrp x16, slot`, `ldr x16, [x16, slot]`, `br x16`: a register that calls may change."""
    code = bytearray(struct.pack("<4I", 0x90000010, 0xF9400210, 0xD61F0200, 0xD503201F))
    _adr(code, 0, slot // _PAGE - place // _PAGE)
    _low_bits(8)(code, 4, slot)
    return bytes(code)


_AARCH64: Final = {
    257: Row(Refers.ADDRESS, _ABSOLUTE_64),  # R_AARCH64_ABS64
    260: Row(Refers.SYMBOL, _RELATIVE_64),  # PREL64
    261: Row(Refers.SYMBOL, _RELATIVE_32),  # PREL32
    273: Row(Refers.SYMBOL, _branch(19, 5)),  # LD_PREL_LO19
    274: Row(Refers.SYMBOL, _near),  # ADR_PREL_LO21
    275: Row(Refers.SYMBOL, _page),  # ADR_PREL_PG_HI21
    277: Row(Refers.SYMBOL, _low_bits(1)),  # ADD_ABS_LO12_NC
    278: Row(Refers.SYMBOL, _low_bits(1)),  # LDST8_ABS_LO12_NC
    279: Row(Refers.SYMBOL, _branch(14, 5)),  # TSTBR14
    280: Row(Refers.SYMBOL, _branch(19, 5)),  # CONDBR19
    282: Row(Refers.FUNCTION, _branch(26, 0)),  # JUMP26
    283: Row(Refers.FUNCTION, _branch(26, 0)),  # CALL26
    284: Row(Refers.SYMBOL, _low_bits(2)),  # LDST16_ABS_LO12_NC
    285: Row(Refers.SYMBOL, _low_bits(4)),  # LDST32_ABS_LO12_NC
    286: Row(Refers.SYMBOL, _low_bits(8)),  # LDST64_ABS_LO12_NC
    299: Row(Refers.SYMBOL, _low_bits(16)),  # LDST128_ABS_LO12_NC
    311: Row(Refers.SLOT, _page),  # ADR_GOT_PAGE
    312: Row(Refers.SLOT, _low_bits(8)),  # LD64_GOT_LO12_NC
    314: Row(Refers.FUNCTION, _RELATIVE_32),  # PLT32
}

MACHINES: Final[Mapping[int, Machine]] = MappingProxyType(
    {X86_64: Machine(_X86_64, _x86_64_stub), AARCH64: Machine(_AARCH64, _aarch64_stub)}
)


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
