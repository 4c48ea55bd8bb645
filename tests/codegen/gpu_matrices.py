"""Instructions of GPUs that a warp runs together, and copies to shared memory, run here."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

#: By the name of the intrinsic: the types of what it is given, and what it gives.
_CALLS: Final[dict[str, tuple[list[str], str]]] = {
    "ldmatrix.sync.aligned.m8n8.x4.b16.p3": (["ptr"], "i32"),
    "ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3": (["ptr"], "i32"),
    "mma.m16n8k16.row.col.bf16": (["i32"] * 6 + ["float"] * 4, "float"),
    "mma.m16n8k16.row.col.f32.f32": (["<2 x half>"] * 6 + ["float"] * 4, "float"),
}
_LANES: Final = 32
#: Bytes of what a thread gives to an instruction, at most, and of what it gets.
READ: Final = 40
WRITTEN: Final = 16

_COPY: Final = """
define internal void @emu.copy(ptr %to, ptr %from, i32 %size) {
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 16, i1 false)
  %wide = zext i32 %size to i64
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %wide, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def matrices_for_host(text: str) -> str:
    """The text with calls of `%in_warp` for these instructions."""
    text = re.sub(r"  call void @llvm\.nvvm\.cp\.async\.(commit|wait)[^\n]*\n", "", text)
    text = text.replace("ptr addrspace(1)", "ptr")
    text = re.sub(r"addrspacecast ptr (\S+) to ptr\n", r"getelementptr i8, ptr \1, i64 0\n", text)
    copied = "@llvm.nvvm.cp.async.cg.shared.global.16.s("
    if copied in text:
        text = text.replace(copied, "@emu.copy(") + _COPY
    for kind, (name, (types, given)) in enumerate(_CALLS.items()):
        called = f"@llvm.nvvm.{name}("
        if called in text:
            text = text.replace(called, f"@emu.warp.{kind}(ptr %in_warp, ")
            text += _function(kind, types, given)
    return text


def _function(kind: int, types: list[str], given: str) -> str:
    result = f"{{{', '.join([given] * 4)}}}"
    parameters = ", ".join(f"{type_} %a{n}" for n, type_ in enumerate(types))
    lines = [
        f"define internal {result} @emu.warp.{kind}(ptr %in_warp, {parameters}) noinline {{",
        "  %read = alloca [16 x i64], align 64",
        "  %written = alloca [16 x i64], align 64",
    ]
    for n, type_ in enumerate(types):
        lines.append(f"  %p{n} = getelementptr i32, ptr %read, i64 {n}")
        lines.append(f"  store {type_} %a{n}, ptr %p{n}, align 4")
    lines.append(f"  call void %in_warp(i32 {kind}, ptr %read, ptr %written)")
    before = "poison"
    for n in range(4):
        lines.append(f"  %q{n} = getelementptr i32, ptr %written, i64 {n}")
        lines.append(f"  %r{n} = load {given}, ptr %q{n}, align 4")
        lines.append(f"  %s{n} = insertvalue {result} {before}, {given} %r{n}, {n}")
        before = f"%s{n}"
    return "\n".join(["", *lines, f"  ret {result} {before}", "}", ""])


def instruction(kind: int, read: Sequence[bytes]) -> list[bytes]:
    """What each thread of a warp gets, of what each has read: `READ` bytes, and `WRITTEN`."""
    if kind < 2:
        return _load(read, turned=kind == 1)
    return _multiply(read, torch.bfloat16 if kind == 2 else torch.float16)


def _load(read: Sequence[bytes], turned: bool) -> list[bytes]:
    """Four blocks of 8 x 8, of which every eight lanes say where the rows are."""
    rows = [int.from_bytes(each[:8], sys.byteorder) for each in read]
    data = np.stack([np.frombuffer(ctypes.string_at(row, 16), np.uint16) for row in rows])
    blocks = data.reshape(4, 8, 8)
    if turned:
        blocks = blocks.transpose(0, 2, 1)
    words = np.ascontiguousarray(blocks).view(np.uint32).reshape(4, _LANES)
    return [words[:, lane].tobytes() for lane in range(_LANES)]


def _multiply(read: Sequence[bytes], dtype: torch.dtype) -> list[bytes]:
    words = np.stack([np.frombuffer(each, np.uint32) for each in read])
    pairs = np.ascontiguousarray(words[:, :6]).view(np.int16).reshape(8, 4, 6, 2)
    halves = torch.from_numpy(pairs.copy()).view(dtype).float()
    # A thread is (g, q); A has rows g and g + 8, columns 2q and 2q + 8.
    a = halves[:, :, :4].reshape(8, 4, 2, 2, 2).permute(3, 0, 2, 1, 4).reshape(16, 16)
    b = halves[:, :, 4:].permute(2, 1, 3, 0).reshape(16, 8)
    sums = np.ascontiguousarray(words[:, 6:]).view(np.float32).reshape(8, 4, 2, 2)
    c = torch.from_numpy(sums.copy()).permute(2, 0, 1, 3).reshape(16, 8)
    made = (a @ b + c).reshape(2, 8, 4, 2).permute(1, 2, 0, 3).reshape(_LANES, 4)
    return [each.tobytes() for each in made.numpy()]
