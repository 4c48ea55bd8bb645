"""Kernels as a module, and how each is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from anyshape.codegen.ir_builder import join_module
from anyshape.codegen.llvm.casts import BF16_PAIR
from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.values import compute
from anyshape.codegen.nvptx.attention import EXP2_TEXT
from anyshape.codegen.nvptx.attention_plan import AttentionShape
from anyshape.codegen.nvptx.block_group import DECLARATIONS
from anyshape.codegen.nvptx.block_reduce import (
    LEFT_FOR_KERNELS,
    SHARED,
    partial_array,
    partial_bytes,
)
from anyshape.codegen.nvptx.choice import USUAL, GpuChoice
from anyshape.codegen.nvptx.held_rows import row_length
from anyshape.codegen.nvptx.kernel import kernel_function
from anyshape.codegen.nvptx.narrow_integers import NarrowIntegers
from anyshape.codegen.nvptx.plan import Form, GpuPlan, gpu_plans
from anyshape.codegen.nvptx.strips import MOST_THREADS as STRIP_THREADS
from anyshape.codegen.nvptx.tensor_products import DECLARATIONS as TENSOR_CORES
from anyshape.codegen.nvptx.tiles import THREADS
from anyshape.codegen.target import Machine, Target
from anyshape.codegen.vector_math import definitions
from anyshape.loops.attention import CHUNK
from anyshape.loops.expr import Scalar
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.operations import OF_THE_C_LIBRARY
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, ceildiv, maximum, product

#: How many buffers, sizes and numbers a kernel has.
Counts = tuple[int, int, int]

_BF16_PAIR: Final = f"""
define internal i32 @{BF16_PAIR}(float %low, float %high) alwaysinline nounwind memory(none) {{
  %y = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %high, float %low)
  ret i32 %y
}}
"""
#: Of a block whose threads share a row.
_ROW_THREADS: Final = 1024
_HEAD: Final = (
    """\
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare void @llvm.nvvm.barrier0()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
"""
    + DECLARATIONS
)


@dataclass(frozen=True, slots=True)
class LaunchRule:
    """How one function is launched, in sizes of the kernel."""

    name: str
    form: Form
    lanes: int
    #: points of the parallel axes, but for the column's
    points: Size
    #: elements of the column, or of a row
    length: Size
    #: vectors of a row, or rounds of a column that threads share
    depth: Size
    #: bytes that a block tells others of a row or of a column's vector; 0: blocks share none
    part_bytes: int
    #: vectors of a row that each thread has in registers, for rows that are not longer than what
    #: as many threads as there may be have; 0: for all
    each: int
    #: threads that share a row, at least
    fewest: int
    #: whether a row is a tile
    tiled: bool
    #: bytes of private memory of a row, or of a thread; of attention, of shared memory of a block
    private: Size
    multiples: tuple[Size, ...]
    #: what must not be less than the lanes but one
    at_least: tuple[Size, ...]
    #: of columns, points that a thread takes each, at least
    fewest_points: int
    #: by the number of the buffer
    aligned: tuple[tuple[int, int], ...]
    serial: bool
    #: of sizes and coordinates; a function for 32 bits stands before the same one for 64
    index_bits: int
    #: what it says if the check of this number fails
    checks: tuple[str, ...]
    #: if there are any: sizes of which coordinates are, which have to be small, as all that the
    #: kernel is given
    near: tuple[Size, ...]
    #: threads of a block, where there are many points or short rows
    block: int
    #: threads that share a row, at most
    row_threads: int
    #: registers of a thread, at most; 0: as many as there are for the threads of a block
    registers: int
    #: vectors of a row that a thread takes before more threads share it
    rounds: int
    #: rounds of a block before others share the row or the strip; 0: none does
    share: int


def nvptx_target(capability: tuple[int, int], ptx: int) -> Target:
    major, minor = capability
    return Target("nvptx64-nvidia-cuda", f"sm_{major}{minor}", f"+ptx{ptx}", lanes=4)


class KernelFunction(NamedTuple):
    """One of the functions of a kernel."""

    plan: GpuPlan
    rule: LaunchRule


def functions_of(
    name: str, kernel: Kernel, choice: GpuChoice = USUAL
) -> tuple[KernelFunction, ...]:
    """The functions of a kernel: the first one that fits is run."""
    plans = (
        replace(gpu, index_bits=bits)
        for gpu in gpu_plans(kernel, choice)
        for bits in ((32, 64) if gpu.divides else (gpu.index_bits,))
    )
    return tuple(KernelFunction(gpu, _rule(f"{name}_{_kind(gpu)}", gpu)) for gpu in plans)


def module_text(function: KernelFunction, counts: Counts, target: Target) -> str:
    """Each function is a module of its own: threads make them side by side."""
    gpu, rule = function
    e = Emitter(gpu.plan, Machine.of(target), _computing(gpu))
    e.is_aligned = gpu.is_aligned
    e.is_atomic = gpu.atomic
    e.uniform = gpu.uniform
    e.index_bits = gpu.index_bits
    text = kernel_function(e, gpu, rule.name, counts)
    missing = sorted(f"{name} of {of}" for name, of, _ in e.functions if _is_missing(name, of))
    if missing:
        raise NoSuchFunction(", ".join(missing))
    shared = f"{SHARED} = external addrspace(3) global [0 x i8], align 64"
    made_of = definitions(sorted(e.functions), on_gpu=True)
    if Machine.of(target).rounds_bf16:
        made_of += _BF16_PAIR
    if gpu.attention is not None:
        made_of += EXP2_TEXT
        if gpu.attention.halves is not None:
            made_of += TENSOR_CORES
    parts = [_HEAD, partial_array(_states(gpu)), shared, text, made_of]
    return join_module([*parts, _metadata(rule)])


def _computing(gpu: GpuPlan) -> Callable[[Emitter, Scalar], IrValue]:
    if gpu.attention is None or gpu.index_bits == 64:
        return compute
    kernel = gpu.plan.kernel
    axes = kernel.axes[-1].symbol, kernel.stages[0].axes[0].symbol
    return NarrowIntegers(axes, kernel.positions).compute


def _states(gpu: GpuPlan) -> int:
    """Words of shared memory that a warp has for what it folds and scans."""
    stages = gpu.plan.kernel.stages
    return max(1, sum(2 * (len(stage.folds) + len(stage.scans)) for stage in stages))


def _kind(gpu: GpuPlan) -> str:
    """What a function is called behind the kernel's name."""
    if gpu.attention is not None:
        return "plain" if gpu.attention.halves is None else "tensor"
    access = "w" if gpu.is_aligned or gpu.lanes == 1 else "u"
    held = f"x{gpu.each}t{gpu.row_threads}" if gpu.each else ""
    flat = "_flat" if gpu.plan.flat is not None else ""
    return f"{access}{gpu.lanes}{held}{flat}{'_i32' if gpu.index_bits == 32 else ''}"


def _metadata(rule: LaunchRule) -> str:
    """Also how many threads a block may have, or the assembler would take more registers than there
    are for them."""
    if rule.form not in ("rows", "strips", "attention"):
        return "!0 = !{}"
    limits = {"maxntidx": max(rule.row_threads, rule.block)}
    if rule.form == "strips":
        limits["maxntidx"] = STRIP_THREADS
    if rule.registers:
        limits["maxnreg"] = rule.registers
    notes = ", ".join(f'!"{name}", i32 {limit}' for name, limit in limits.items())
    return "\n".join(
        ["!0 = !{}", f"!1 = !{{ptr @{rule.name}, {notes}}}", "!nvvm.annotations = !{!1}"]
    )


class NoSuchFunction(Exception):
    """A GPU has no C library."""


def _is_missing(name: str, dtype: str) -> bool:
    return dtype == "f64" and name in OF_THE_C_LIBRARY


def _private(gpu: GpuPlan) -> Size:
    """Bytes, with what the function takes of shared memory beyond what is always left for it."""
    more = max(0, partial_bytes(_states(gpu)) - LEFT_FOR_KERNELS) if gpu.form == "rows" else 0
    return gpu.plan.bytes_for_a_thread() + more


def _vectors(stage: Stage, lanes: int) -> Size:
    """Of all rounds of a stage."""
    if not stage.axes:
        return 1
    *others, last = (axis.extent for axis in stage.axes)
    return product([*others, ceildiv(last, lanes)])


def _attention_rule(name: str, gpu: GpuPlan, shape: AttentionShape) -> LaunchRule:
    *outer, queries = (axis.extent for axis in gpu.plan.kernel.axes)
    return LaunchRule(
        name=name,
        form=gpu.form,
        lanes=CHUNK,
        points=product([*outer, ceildiv(queries, shape.rows)]),
        length=0,
        depth=0,
        part_bytes=0,
        each=0,
        fewest=0,
        tiled=False,
        private=shape.shared,
        multiples=gpu.multiples,
        at_least=(),
        fewest_points=0,
        aligned=_aligned(gpu),
        serial=False,
        index_bits=64,
        checks=(),
        near=() if gpu.index_bits == 64 else (queries, gpu.plan.kernel.stages[0].axes[0].extent),
        block=shape.threads,
        row_threads=shape.threads,
        registers=0,
        rounds=0,
        share=0,
    )


def _aligned(gpu: GpuPlan) -> tuple[tuple[int, int], ...]:
    return tuple((int(buffer.removeprefix("k")), by) for buffer, by in gpu.aligned)


def _rule(name: str, gpu: GpuPlan) -> LaunchRule:
    if gpu.attention is not None:
        return _attention_rule(name, gpu, gpu.attention)
    kernel, column = gpu.plan.kernel, gpu.plan.column
    outer = kernel.axes if column is None else kernel.axes[:-1]
    firsts = [stage.axes[0].extent if stage.axes else 1 for stage in kernel.stages]
    rounds = [_vectors(stage, gpu.lanes) for stage in kernel.stages]
    return LaunchRule(
        name=name,
        form=gpu.form,
        lanes=gpu.lanes,
        points=product([axis.extent for axis in outer]),
        length=_row_length(gpu),
        depth=0 if gpu.tiled else maximum(*(rounds if column is None else firsts)),
        part_bytes=gpu.part_bytes,
        tiled=gpu.tiled,
        fewest=gpu.fewest,
        each=gpu.each,
        private=_private(gpu) if kernel.private and not gpu.each else 0,
        multiples=gpu.multiples,
        at_least=gpu.at_least,
        fewest_points=gpu.fewest_points,
        aligned=_aligned(gpu),
        serial=gpu.serial,
        index_bits=gpu.index_bits,
        checks=tuple(check.message for stage in kernel.stages for check in stage.checks),
        near=(),
        block=_block(gpu),
        row_threads=gpu.row_threads if gpu.each else _ROW_THREADS,
        registers=gpu.registers,
        rounds=_rounds(gpu),
        share=_share(gpu),
    )


def _row_length(gpu: GpuPlan) -> Size:
    if gpu.tiled:
        return 0
    if gpu.plan.column is not None:
        return gpu.plan.column.extent
    kernel = gpu.plan.kernel
    if gpu.each:
        # Not 1 for the sake of a stage of one element: a row of nothing is not held.
        return row_length(kernel)
    return maximum(*(product([axis.extent for axis in s.axes[-1:]]) for s in kernel.stages))


def _block(gpu: GpuPlan) -> int:
    if gpu.tiled:
        return THREADS
    # Threads that scan a row wait for each other: the fewer rows there are in a block, the better.
    return gpu.choice.threads // 2 if _scans_rows(gpu) else gpu.choice.threads


def _rounds(gpu: GpuPlan) -> int:
    if gpu.form != "rows":
        return 0
    return 1 if gpu.tiled else gpu.each or _halved(gpu, gpu.choice.each)


def _share(gpu: GpuPlan) -> int:
    return _halved(gpu, gpu.choice.share) if gpu.part_bytes else 0


def _halved(gpu: GpuPlan, rounds: int) -> int:
    """Of rows that are scanned, whose vectors have twice the lanes."""
    return -(-rounds // 2) if _scans_rows(gpu) else rounds


def _scans_rows(gpu: GpuPlan) -> bool:
    return gpu.form == "rows" and any(stage.scans for stage in gpu.plan.kernel.stages)
