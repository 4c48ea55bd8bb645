"""Instructions of aarch64 with their fields filled in, read back by the processor's manual."""

from __future__ import annotations

import struct

import pytest

from anyshape.runtime.loader.elf import AARCH64
from anyshape.runtime.loader.link import MACHINES, CannotLink

ROWS = MACHINES[AARCH64].rows


def put(kind: int, instruction: int, place: int, target: int) -> int:
    code = bytearray(max(place + 4, 8))
    struct.pack_into("<I", code, place, instruction)
    ROWS[kind].put(code, place, target)
    return struct.unpack_from("<I", code, place)[0]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


#: kind, instruction, bits of the field, where it is
BRANCHES = [
    (283, 0x94000000, 26, 0),  # bl
    (282, 0x14000000, 26, 0),  # b
    (280, 0x54000001, 19, 5),  # b.ne
    (279, 0x37000003, 14, 5),  # tbnz
    (273, 0x58000002, 19, 5),  # ldr x2, literal
]


@pytest.mark.parametrize(("kind", "instruction", "bits", "shift"), BRANCHES)
def test_branches(kind: int, instruction: int, bits: int, shift: int):
    mask = ((1 << bits) - 1) << shift
    for place in (0, 64, 20000):
        for target in (0, 4, 60, 64, 20004, 32000):
            made = put(kind, instruction, place, target)
            assert made & ~mask == instruction
            assert signed((made & mask) >> shift, bits) * 4 == target - place
    reach = 1 << (bits + 1)
    put(kind, instruction, 0, reach - 4)
    for target in (reach, 2):
        with pytest.raises(CannotLink):
            put(kind, instruction, 0, target)


def distance(instruction: int) -> int:
    """Of `adr` and `adrp`."""
    return signed((instruction >> 5 & 0x7FFFF) << 2 | instruction >> 29 & 3, 21)


@pytest.mark.parametrize("kind", [275, 311])
def test_pages(kind: int):
    for place in (0, 4092, 4096, 20000):
        for target in (0, 1, 4095, 4096, 8191, 32000):
            made = put(kind, 0x90000007, place, target)  # adrp x7
            assert made & 0x9F00001F == 0x90000007
            assert (place // 4096 + distance(made)) * 4096 == target // 4096 * 4096
    with pytest.raises(CannotLink):
        put(kind, 0x90000007, 0, 1 << 32)


def test_near():
    for place, target in ((0, 1), (20000, 3), (4096, 4099)):
        made = put(274, 0x10000009, place, target)  # adr x9
        assert made & 0x9F00001F == 0x10000009
        assert distance(made) == target - place
    with pytest.raises(CannotLink):
        put(274, 0x10000009, 0, 1 << 20)


@pytest.mark.parametrize(
    ("kind", "size"),
    [(277, 1), (278, 1), (284, 2), (285, 4), (286, 8), (299, 16), (312, 8)],
)
def test_the_end_of_an_address(kind: int, size: int):
    for target in (0, 16, 4080, 4096, 8192 + 48):
        made = put(kind, 0xF9400041, 8, target)
        assert made & ~(0xFFF << 10) == 0xF9400041
        assert (made >> 10 & 0xFFF) * size == target % 4096
    if size > 1:
        with pytest.raises(CannotLink, match="aligned"):
            put(kind, 0xF9400041, 8, 4096 + size // 2)


@pytest.mark.parametrize(("place", "slot"), [(64, 8), (8192, 4088), (4080, 8192)])
def test_stubs(place: int, slot: int):
    page, load, jump, _ = struct.unpack("<4I", MACHINES[AARCH64].stub(place, slot))
    assert page & 0x9F00001F == 0x90000010  # adrp x16
    assert load & ~(0xFFF << 10) == 0xF9400210  # ldr x16, [x16]
    assert jump == 0xD61F0200  # br x16
    assert (place // 4096 + distance(page)) * 4096 + (load >> 10 & 0xFFF) * 8 == slot
