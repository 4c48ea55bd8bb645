"""A relocatable ELF object, read: sections, symbols, relocations. 64 bits, little-endian."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from anyshape.support.lazy_dataclass import dataclass

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")

X86_64: Final = 62
AARCH64: Final = 183

SYMBOL_TABLE: Final = 2
RELOCATIONS: Final = 4
NO_BITS: Final = 8

WRITE: Final = 1
ALLOCATE: Final = 2
THREAD_LOCAL: Final = 0x400

#: section numbers of symbols that are in no section
UNDEFINED: Final = 0
FIRST_RESERVED: Final = 0xFF00


class NotAnObject(ValueError):
    """Bytes that are no object file, or one of a kind that is not expected here."""


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    kind: int
    flags: int
    data: bytes
    size: int
    alignment: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    name: str
    section: int
    value: int
    #: 0 local, 1 global, 2 weak
    binding: int


@dataclass(frozen=True, slots=True)
class Relocation:
    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectFile:
    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[ElfSymbol, ...]
    relocations: tuple[Relocation, ...]


def read_object(data: bytes) -> ObjectFile:
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotAnObject(f"the object file is damaged: {error}") from error


def _read(data: bytes) -> ObjectFile:
    header = _HEADER.unpack_from(data)
    identity, kind, machine = header[:3]
    if identity[:6] != b"\x7fELF\x02\x01" or kind != 1:
        raise NotAnObject("not a relocatable 64-bit ELF file")
    start, count, names = header[6], header[12], header[13]
    rows = [_SECTION.unpack_from(data, start + 64 * number) for number in range(count)]
    text = _bytes_of(data, rows[names])
    sections = tuple(
        Section(
            _string(text, row[0]),
            row[1],
            row[2],
            _bytes_of(data, row),
            row[5],
            row[8],
            row[6],
            row[7],
        )
        for row in rows
    )
    symbols: list[ElfSymbol] = []
    relocations: list[Relocation] = []
    for section in sections:
        if section.kind == SYMBOL_TABLE:
            strings = sections[section.link].data
            for name, info, _, home, value, _ in _SYMBOL.iter_unpack(section.data):
                symbols.append(ElfSymbol(_string(strings, name), home, value, info >> 4))
        elif section.kind == RELOCATIONS:
            for offset, info, addend in _RELOCATION.iter_unpack(section.data):
                relocations.append(
                    Relocation(section.info, offset, info & 0xFFFFFFFF, info >> 32, addend)
                )
    return ObjectFile(machine, sections, tuple(symbols), tuple(relocations))


def joined_objects(parts: Sequence[ObjectFile]) -> ObjectFile:
    """One object of several: what one of them wants and another has is found."""
    if len(parts) == 1:
        return parts[0]
    sections: list[Section] = []
    symbols: list[ElfSymbol] = []
    relocations: list[Relocation] = []
    for part in parts:
        home, first = len(sections), len(symbols)
        sections += part.sections
        for each in part.symbols:
            is_here = UNDEFINED < each.section < FIRST_RESERVED
            section = each.section + home if is_here else each.section
            symbols.append(ElfSymbol(each.name, section, each.value, each.binding))
        relocations += [
            Relocation(r.section + home, r.offset, r.kind, r.symbol + first, r.addend)
            for r in part.relocations
        ]
    defined = {
        symbol.name: symbol for symbol in symbols if symbol.binding and symbol.section != UNDEFINED
    }
    for number, symbol in enumerate(symbols):
        if symbol.section == UNDEFINED and symbol.name in defined:
            symbols[number] = defined[symbol.name]
    return ObjectFile(parts[0].machine, tuple(sections), tuple(symbols), tuple(relocations))


def _bytes_of(data: bytes, row: tuple[int, ...]) -> bytes:
    if row[1] == NO_BITS:
        return b""
    found = data[row[4] : row[4] + row[5]]
    if len(found) != row[5]:
        raise NotAnObject("the object file is cut off")
    return found


def _string(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()
