"""Kernels of another architecture, run by qemu: a program of one kernel and its buffers.

An ELF file has one segment: the linked image, a few instructions that call the kernel and write the
buffers to standard output, and the memory that the kernel works on. There is no C library: one
thread runs, and kernels that call its math are skipped.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from anyshape.codegen.target import Target
from anyshape.runtime.loader.image import Image
from anyshape.runtime.loader.link import link_image
from anyshape.symbolic import Size, evaluate, symbol
from anyshape.symbolic.expr import as_symbol
from tests.codegen.assembler import build_object

#: A processor that has what the target has, and as little else as qemu can do.
PROCESSORS = {"x86_64": "Haswell", "aarch64": "cortex-a53"}
_MACHINES = {"x86_64": 62, "aarch64": 183}

_BASE = 0x1000_0000
_HEADERS = 64 + 56

#: What a kernel calls, for one thread.
_OUTSIDE = """
define i32 @omp_get_max_threads() { ret i32 1 }
define i32 @omp_get_num_threads() { ret i32 1 }
define i32 @omp_get_thread_num() { ret i32 0 }
define i32 @omp_in_parallel() { ret i32 0 }
define void @GOMP_barrier() { ret void }
define void @GOMP_parallel(ptr %function, ptr %data, i32 %threads, i32 %flags) {
  call void %function(ptr %data)
  ret void
}
define ptr @memcpy(ptr %to, ptr %from, i64 %count) {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %copy ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %copy, label %done
copy:
  %source = getelementptr i8, ptr %from, i64 %i
  %place = getelementptr i8, ptr %to, i64 %i
  %byte = load volatile i8, ptr %source
  store volatile i8 %byte, ptr %place
  %next = add i64 %i, 1
  br label %test
done:
  ret ptr %to
}
"""


def emulator(architecture: str) -> str | None:
    return shutil.which(f"qemu-{architecture}") or shutil.which(f"qemu-{architecture}-static")


def linked(text: str, target: Target) -> Image:
    machine = (target.triple, target.cpu, target.features)
    return link_image(build_object(text, *machine), build_object(_OUTSIDE, *machine))


class Emulated:
    """A kernel that is called as `llvm_jit.Compiled` is."""

    def __init__(self, image: Image, architecture: str, scratch: Size, text: str) -> None:
        missing = [name for name, _ in image.slots]
        if missing:
            pytest.skip(f"made and linked; the emulated program has no {', '.join(missing)}")
        self._image, self._architecture = image, architecture
        self.scratch, self.text = scratch, text

    def __call__(
        self,
        buffers: Sequence[np.ndarray | int],
        sizes: Sequence[int] = (),
        numbers: Sequence[float] = (),
        threads: int = 1,
    ) -> int:
        arrays = [each for each in buffers if isinstance(each, np.ndarray)]
        if len(arrays) < len(buffers):
            pytest.skip("made and linked; the emulated program has memory of its own")
        values = {as_symbol(symbol(f"n{i}")): size for i, size in enumerate(sizes)}
        scratch = evaluate(self.scratch, values) + 64
        memory = _Memory(self._image, arrays, sizes, numbers, scratch)
        with tempfile.TemporaryDirectory() as folder:
            program, written = Path(folder, "program"), Path(folder, "written")
            program.write_bytes(memory.program(self._architecture))
            program.chmod(0o700)
            command = [emulator(self._architecture) or "", "-cpu", PROCESSORS[self._architecture]]
            with written.open("wb") as output:
                ran = subprocess.run(
                    [*command, str(program)], stdout=output, stderr=subprocess.PIPE, check=False
                )
            found = written.read_bytes()
        assert ran.returncode >= 0, ran.stderr.decode()
        assert len(found) == memory.size
        memory.copy_back(found)
        return ran.returncode


class _Memory:
    """What lies where: headers, code, tables, scratch space, buffers, and what calls the kernel."""

    def __init__(
        self,
        image: Image,
        buffers: Sequence[np.ndarray],
        sizes: Sequence[int],
        numbers: Sequence[float],
        scratch: int,
    ) -> None:
        self._bytes = bytearray(4096)
        self._buffers = buffers
        code = self._put(image.code)
        for place in image.rebased:
            (offset,) = struct.unpack_from("<Q", image.code, place)
            struct.pack_into("<Q", self._bytes, code - _BASE + place, code + offset)
        kernel = code + dict(image.exports)["kernel"]
        tables = [
            self._put(struct.pack(f"<{len(sizes)}q", *sizes)),
            self._put(struct.pack(f"<{len(numbers)}d", *numbers)),
            self._put(bytes(scratch)),
        ]
        self._places = [self._put(buffer.tobytes()) for buffer in buffers]
        pointers = self._put(struct.pack(f"<{len(buffers)}Q", *self._places))
        self._first = min(self._places, default=_BASE)
        end = max((p + b.nbytes for p, b in zip(self._places, buffers, strict=True)), default=_BASE)
        self.size = end - self._first
        self._call = (pointers, *tables, kernel, self._first, self.size)

    def _put(self, data: bytes) -> int:
        """Its address, at the start of a line of the cache; behind it, a line of nothing."""
        self._bytes += bytes(-len(self._bytes) % 64)
        place = _BASE + len(self._bytes)
        self._bytes += data + bytes(64)
        return place

    def program(self, architecture: str) -> bytes:
        start = self._put(_START[architecture](*self._call))
        identification = b"\x7fELF\x02\x01\x01" + bytes(9)
        machine = _MACHINES[architecture]
        header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, start, 64, 0, 0, 64, 56, 1, 64, 0, 0)
        size = len(self._bytes)
        segment = struct.pack("<IIQQQQQQ", 1, 7, 0, _BASE, _BASE, size, size, 4096)
        self._bytes[:_HEADERS] = identification + header + segment
        return bytes(self._bytes)

    def copy_back(self, found: bytes) -> None:
        for place, buffer in zip(self._places, self._buffers, strict=True):
            start = place - self._first
            data = np.frombuffer(found[start : start + buffer.nbytes], buffer.dtype)
            buffer[...] = data.reshape(buffer.shape)


def _x86_64_start(
    pointers: int, sizes: int, numbers: int, scratch: int, kernel: int, first: int, size: int
) -> bytes:
    """Four arguments, the call; write(1, first, size); exit with the result."""

    def move(opcode: bytes, value: int) -> bytes:
        return opcode + struct.pack("<Q", value)

    registers = (b"\x48\xbf", b"\x48\xbe", b"\x48\xba", b"\x48\xb9")
    arguments = zip(registers, (pointers, sizes, numbers, scratch), strict=True)
    return b"".join(
        [
            *(move(opcode, value) for opcode, value in arguments),
            move(b"\x48\xb8", kernel) + b"\xff\xd0\x49\x89\xc4",  # call *%rax; mov %rax, %r12
            b"\xb8\x01\0\0\0\xbf\x01\0\0\0",
            move(b"\x48\xbe", first) + move(b"\x48\xba", size) + b"\x0f\x05",
            b"\x44\x89\xe7\xb8\x3c\0\0\0\x0f\x05",
        ]
    )


def _aarch64_start(*values: int) -> bytes:
    """The same, with the numbers behind the instructions."""
    code = [
        *((0x58000000, register) for register in (0, 1, 2, 3, 8)),  # ldr
        0xD63F0100,  # blr x8
        0xAA0003F3,  # mov x19, x0
        0xD2800020,  # mov x0, 1
        *((0x58000000, register) for register in (1, 2)),
        0xD2800808,  # mov x8, 64: write
        0xD4000001,  # svc
        0xAA1303E0,  # mov x0, x19
        0xD2800BA8,  # mov x8, 93: exit
        0xD4000001,
        0xD503201F,
    ]
    words, loaded = list[int](), 0
    for place, each in enumerate(code):
        if isinstance(each, tuple):
            distance = len(code) + 2 * loaded - place
            loaded += 1
            words.append(each[0] | distance << 5 | each[1])
        else:
            words.append(each)
    return struct.pack(f"<{len(words)}I", *words) + struct.pack("<7Q", *values)


_START = {"x86_64": _x86_64_start, "aarch64": _aarch64_start}
